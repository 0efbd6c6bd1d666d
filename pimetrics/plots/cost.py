"""Where the money goes: by day, by what you like, by prompt, by turn; and how much the cache saved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import altair as alt
import polars as pl
from altair.typing import ChartType

from pimetrics.ledger.totals import pico
from pimetrics.names import UNKNOWN
from pimetrics.plots import spans
from pimetrics.plots import theme as looks
from pimetrics.plots.frames import Frame, answering, context_tokens, cost, data, largest, named, settled, total
from pimetrics.plots.labels import colours, labels, ranked, relabelled, stacked
from pimetrics.plots.marks import ROW, bars, counted, nothing, room, rows_axis, share, whole_axis
from pimetrics.plots.theme import BLUE, ORANGE, RED, SKY, WIDTH, dressed
from pimetrics.reports.wording import compact, decimals, usd

MONEY: Final = "$,~r"
"""Format of USD on an axis."""


def money(amount: float, among: Sequence[float] = ()) -> str:
    """Say an amount of USD as reports do, with the decimals that the amounts beside it have."""
    return usd(pico(amount), decimals([pico(each) for each in among]) if among else None)


def cost_by_day(
    usage: Frame,
    *,
    models: Sequence[str] | None = None,
    every: spans.Every | None = None,
    timezone: str | None = None,
    with_tools: bool = False,
    theme: str = "light",
) -> ChartType:
    """Draw what each day cost, stacked by model; weeks or months where the days would be too many.

    Args:
        usage: The table.
        models: Names in the order of their colours (see `ranked`); None takes those of the table.
        every: day, week or month; None takes what fits.
        timezone: Where days begin; None is UTC. Times without a zone are taken for times there.
        with_tools: Whether what tools reported of their own counts; it may repeat sub-agent sessions.
        theme: light or dark.
    """
    look = looks.theme(theme)
    kept = settled(usage, with_tools=with_tools)
    rows, span = spans.cut(kept, timezone, every)
    found = rows.group_by("start", "model").agg(cost()).filter(pl.col("cost_usd") > 0).collect()
    title = f"Cost by {span.word}"
    if found.is_empty():
        return nothing(title, "nothing with a cost and a time", theme)
    whole = total(found, "cost_usd")
    shades = colours(models or ranked(kept), found["model"].to_list(), look)
    bars = stacked(found, "model", "cost_usd", shades)
    starts = found["start"].unique().to_list()
    dearest = found.group_by("start").agg(cost()).sort("cost_usd", "start").row(-1, named=True)
    chart = (
        alt.Chart(data(spans.placed(bars, span)))
        .mark_bar(stroke=look.ground, strokeWidth=0.5)
        .encode(
            x=spans.axis(starts, span, spans.zone_name(kept, timezone), "from"),
            x2="to:Q",
            y=alt.Y("bottom:Q", title="cost (USD)", axis=alt.Axis(format=MONEY, tickCount=5)),
            y2="top:Q",
            color=alt.Color("model:N", scale=shades.scale(), title=None, legend=shades.legend(), sort=shades.domain),
        )
        .properties(width=WIDTH, height=230)
    )
    most = f"{dearest['start']:%Y-%m-%d}"
    said = f"{money(whole)} in {counted(len(starts), span.word)} with work, "
    said += f"{spans.most(span)} {most} ({money(dearest['cost_usd'], [whole])})"
    return dressed(chart, theme, title, said)


def cost_by(
    usage: Frame,
    by: str = "model",
    *,
    sessions: Frame | None = None,
    models: Sequence[str] | None = None,
    most: int = 12,
    with_tools: bool = False,
    theme: str = "light",
) -> ChartType:
    """Draw what each name cost as sorted bars: a model, project, provider, operation, session, or any column.

    Args:
        usage: The table.
        by: A column of it, or `project` (then `sessions` is needed).
        sessions: The table that tells the project of a session.
        models: Names in the order of their colours, for `by="model"`.
        most: Bars; the rest is one more.
        with_tools: Whether what tools reported of their own counts; it may repeat sub-agent sessions. It always does
            for `by="operation"`, where it is a bar of its own.
        theme: light or dark.
    """
    look = looks.theme(theme)
    kept = settled(usage, with_tools=with_tools or by in {"operation", "tool"})
    title = f"Cost by {by.removesuffix('_id').replace('_', ' ')}"
    if by == "project":
        if sessions is None:
            raise TypeError("cost_by(usage, 'project') needs sessions=, the table that tells the project of a session")
        cwds = sessions.lazy().filter(pl.col("session_id").is_not_null()).unique("session_id", keep="first")
        kept = kept.join(cwds.select("session_id", pl.col("cwd").alias("project")), on="session_id", how="left")
    found = (
        kept.with_columns(named(by, "no project" if by == "project" else UNKNOWN))
        .group_by(by)
        .agg(cost())
        .filter(pl.col("cost_usd") > 0)
        .sort(["cost_usd", by], descending=[True, False])
        .collect()
    )
    if found.is_empty():
        return nothing(title, "nothing with a cost", theme)
    whole = total(found, "cost_usd")
    names = found[by].to_list()
    rows = relabelled(found.head(most), by, labels(names[:most]))
    if found.height > most:
        rest = found[most:]
        rows = rows.vstack(pl.DataFrame({by: [f"{rest.height} more"], "cost_usd": [total(rest, "cost_usd")]}))
    amounts = rows["cost_usd"].to_list()
    rows = rows.with_columns(pl.Series("said", [f"{money(each, amounts)} · {share(each, whole)}" for each in amounts]))
    if by == "model":
        shades = colours(models or names, names, look)
        used = [shades.labels[name] for name in names[:most]] + [shades.domain[-1]] * (found.height > most)
        shade_of = dict(zip(shades.domain, shades.range, strict=True))
        rows = rows.with_columns(pl.Series("colour", [shade_of[each] for each in used]))
    else:
        rows = rows.with_columns(pl.lit(look.palette[BLUE]).alias("colour"))
    axis = alt.Axis(title="cost (USD)", format=MONEY, tickCount=5)
    chart = bars(rows, by, "cost_usd", "said", axis=axis, colour=alt.Color("colour:N", scale=None))
    first = f"{rows[by][0]} took {share(found['cost_usd'][0], whole)} of {money(whole)}"
    return dressed(chart, theme, title, first)


def cost_per_prompt(usage: Frame, *, theme: str = "light") -> ChartType:
    """Draw how many prompts cost how much: a histogram on a logarithmic axis, with the median and the 95th percentile.

    A prompt is a user message and all work on it, what tools reported included.
    """
    look = looks.theme(theme)
    title = "Cost per prompt"
    kept = settled(usage, with_tools=True).filter(pl.col("prompt_id").is_not_null())
    found = kept.group_by("prompt_id").agg(cost()).collect()
    costs = found.filter(pl.col("cost_usd") > 0).select("cost_usd")
    if costs.is_empty():
        return nothing(title, "no prompt with a cost", theme)
    per_decade = 5
    counts = (
        costs.with_columns((pl.col("cost_usd").log10() * per_decade).floor().cast(pl.Int64).alias("bin"))
        .group_by("bin")
        .len("prompts")
        .with_columns(
            (10 ** (pl.col("bin") / per_decade)).alias("from"), (10 ** ((pl.col("bin") + 1) / per_decade)).alias("to")
        )
        .sort("bin")
    )
    low = math.floor(math.log10(counts["from"].to_list()[0]) + 1e-9)  # whole decades: the axis ends with labels
    high = math.ceil(math.log10(counts["to"].to_list()[-1]) - 1e-9)
    scale = alt.Scale(type="log", domain=[10.0**low, 10.0**high], nice=False)
    decades = alt.Axis(format="$~f", values=[10.0**each for each in range(low, high + 1)], labelOverlap=True)
    histogram = (
        alt.Chart(data(counts))
        .mark_bar(color=look.palette[BLUE], stroke=look.ground, strokeWidth=1)
        .encode(
            x=alt.X("from:Q", title="cost of a prompt (USD, logarithmic)", scale=scale, axis=decades),
            x2="to:Q",
            y=alt.Y("prompts:Q", title="prompts", axis=whole_axis(largest(counts, "prompts"))),
            y2=alt.datum(0),
        )
    )
    layers: list[alt.Chart] = [histogram]
    for word, quantile, to_the_right in (("median", 0.5, False), ("p95", 0.95, True)):
        amount = costs.select(pl.col("cost_usd").quantile(quantile, "linear")).item()
        at = alt.Chart(data([{"amount": amount, "said": f"{word} {money(amount)}"}]))
        x = alt.X("amount:Q", scale=scale)
        beside = at.mark_text(align="left", dx=5, dy=-7) if to_the_right else at.mark_text(align="right", dx=-5, dy=-7)
        layers += [
            at.mark_rule(color=look.ink, strokeDash=[4, 3]).encode(x=x),
            beside.encode(x=x, y=alt.value(0), text="said:N"),
        ]
    free = found.height - costs.height
    said = f"{counted(costs.height, 'prompt')} for {money(total(costs, 'cost_usd'))}"
    said += f"; {free:,} more without a cost" if free else ""
    return dressed(alt.layer(*layers).properties(width=WIDTH, height=200), theme, title, said)


_PARTS: Final = {
    "cache read": ("cost_cache_read_usd", SKY),
    "cache write": ("cost_cache_write_usd", BLUE),
    "input": ("cost_input_usd", ORANGE),
    "output": ("cost_output_usd", RED),
}
"""Parts of a cost: their columns and colours."""

_UNSPLIT: Final = "not split"
"""What is left of a total that its parts do not add up to."""


def dearest_turns(usage: Frame, *, most: int = 10, timezone: str | None = None, theme: str = "light") -> ChartType:
    """Draw the most expensive answers, each split into what its parts cost: what made it expensive is seen.

    Args:
        usage: The table.
        most: How many.
        timezone: Of the times that name the answers; None is UTC.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "What the most expensive turns are made of"
    answers = usage.lazy().filter(pl.col("settled"), pl.col("operation") == "turn", pl.col("cost_usd") > 0)
    timed = spans.local(answers.with_columns(answering(), context_tokens()), timezone)
    whole = total(answers.select("cost_usd").collect(), "cost_usd")
    parts = {part: pl.col(column).fill_null(0).clip(0) for part, (column, _) in _PARTS.items()}
    rest = (pl.col("cost_usd") - pl.sum_horizontal(*parts.values())).clip(0)
    found = (
        timed.with_columns(rest.alias(_UNSPLIT), **parts)
        .sort(["cost_usd", "time", "row_id"], descending=[True, False, False])
        .head(most)
        .collect()
    )
    if found.is_empty():
        return nothing(title, "no answer with a cost and a time", theme)
    short = labels(found["model"].to_list())
    names = [
        f"{number}.  {time:%Y-%m-%d %H:%M}  {short[model]}"
        for number, (time, model) in enumerate(found.select("time", "model").iter_rows(), start=1)
    ]
    amounts = found["cost_usd"].to_list()
    said = [
        f"{money(dollars, amounts)} · {compact(tokens)} tokens of context"
        for dollars, tokens in found.select("cost_usd", "context_tokens").iter_rows()
    ]
    rows = found.select(pl.Series("turn", names), pl.Series("said", said), "cost_usd", *_PARTS, _UNSPLIT)
    split = rows.unpivot(on=[*_PARTS, _UNSPLIT], index="turn", variable_name="part", value_name="usd")
    split = split.filter(pl.col("usd") > 1e-9)  # a rounding error of the parts is no part
    shown_parts = [part for part in (*_PARTS, _UNSPLIT) if part in split["part"]]
    shades = [look.palette[_PARTS[part][1]] if part in _PARTS else look.other for part in shown_parts]
    order = {part: place for place, part in enumerate(shown_parts)}
    split = split.with_columns(pl.col("part").replace_strict(order, return_dtype=pl.Int64).alias("place"))
    axis = alt.Axis(title="cost (USD)", format=MONEY, tickCount=5)
    x = alt.X("usd:Q", axis=axis, scale=alt.Scale(domain=[0, room(amounts, said)], nice=False))
    marks = (
        alt.Chart(data(split))
        .mark_bar(height=ROW - 10)
        .encode(
            y=rows_axis("turn", names),
            x=x,
            color=alt.Color("part:N", title=None, scale=alt.Scale(domain=shown_parts, range=shades)),
            order="place:Q",
        )
    )
    ends = (
        alt.Chart(data(rows))
        .mark_text(align="left", dx=5)
        .encode(y=rows_axis("turn", names), x="cost_usd:Q", text="said:N")
    )
    chart = alt.layer(marks, ends).properties(width=WIDTH - 60, height=ROW * len(names))
    sum_of_these = total(found, "cost_usd")
    return dressed(
        chart,
        theme,
        title,
        f"{len(names)} of {counted(answers.select(pl.len()).collect().item(), 'answer')}, "
        f"{share(sum_of_these, whole)} of what answers cost ({money(sum_of_these, [whole])} of {money(whole)})",
    )


def cache_hit_rate(
    usage: Frame,
    *,
    models: Sequence[str] | None = None,
    every: spans.Every | None = None,
    timezone: str | None = None,
    theme: str = "light",
) -> ChartType:
    """Draw which share of the context was read from the cache, over time, a line a model.

    Args:
        usage: The table.
        models: Names in the order of their colours (see `ranked`); None takes those of the table.
        every: day, week or month; None takes what fits.
        timezone: Where days begin; None is UTC. Times without a zone are taken for times there.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "Cache hit rate"
    kept = settled(usage, with_tools=False).filter(pl.col("operation") == "turn").with_columns(context_tokens())
    order = models or ranked(kept)
    rows, span = spans.cut(kept.filter(pl.col("context_tokens") > 0), timezone, every)
    found = rows.select("start", "model", "cache_read_tokens", "context_tokens").collect()
    if found.is_empty():
        return nothing(title, "no answer with a context and a time", theme)
    shades = colours(order, found["model"].to_list(), look)
    read, context = pl.col("cache_read_tokens").sum(), pl.col("context_tokens").sum()
    lines = (
        relabelled(found, "model", shades.labels)
        .group_by("start", "model")
        .agg((read / context).alias("rate"), context.alias("tokens"))
        .sort("model", "start")
    )
    starts = found["start"].unique().to_list()
    base = alt.Chart(data(spans.placed(lines, span))).encode(
        x=spans.axis(starts, span, spans.zone_name(kept, timezone), "at"),
        y=alt.Y(
            "rate:Q", title="context read from the cache (%)", scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        ),
        color=alt.Color("model:N", scale=shades.scale(), title=None, legend=shades.legend()),
    )  # fmt: skip
    chart = alt.layer(
        base.mark_line(strokeWidth=1.5, opacity=0.7), base.mark_point(filled=True, size=28, opacity=1)
    ).properties(width=WIDTH, height=200)
    cached, whole = total(found, "cache_read_tokens"), total(found, "context_tokens")
    said = f"{share(cached, whole)} of the {compact(whole)} tokens that answers had as context were read from the cache"
    said += f", by {span.word}"
    return dressed(chart, theme, title, said)

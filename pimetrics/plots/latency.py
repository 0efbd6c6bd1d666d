"""How long things take: tools, requests, the first token, the tokens after it. Time sources are kept apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import polars as pl
from altair.typing import ChartType

from pimetrics.plots import theme as looks
from pimetrics.plots.frames import MEASURED, Frame, answering, data, largest, named, smallest, sources_said, timed
from pimetrics.plots.labels import labels, relabelled
from pimetrics.plots.marks import ROW, SHORTEST, counted, nothing, quantiles, ranges, rows_axis
from pimetrics.plots.theme import BLUE, WIDTH, dressed
from pimetrics.reports.wording import compact, length


def tool_latency(
    tool_calls: Frame, *, sources: Sequence[str] = MEASURED, most: int = 12, theme: str = "light"
) -> ChartType:
    """Draw p50, p95 and p99 of the time that tools took, the slowest first.

    Args:
        tool_calls: The table.
        sources: Where durations may come from: reported and arrival are measured, entry is the time between entries
            of a session file, which also holds what ran beside.
        most: Tools, those with the most calls.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "How long tools take"
    found = _by_tool(tool_calls, sources, most)
    if found.is_empty():
        return nothing(title, f"no tool call with a duration ({' or '.join(sources)})", theme)
    rows = (
        found.group_by("tool")
        .agg(pl.len().alias("calls"), *quantiles("duration_s"))
        .sort(["p95", "tool"], descending=[True, False])
    )
    rows = relabelled(rows, "tool", labels(rows["tool"].to_list()))
    rows = rows.with_columns(pl.Series("said", [counted(n, "call") for n in rows["calls"].to_list()]))
    chart = ranges(rows, "tool", look, x=log_seconds(smallest(rows, "p50"), largest(rows, "p99"), "duration"))
    slowest = rows.row(0, named=True)
    said = f"{slowest['tool']} is the slowest: 5% of its calls take longer than {length(slowest['p95'])}"
    return dressed(chart, theme, title, f"{said} ({sources_said(tuple(sources))})")


def tool_latency_spread(
    tool_calls: Frame, *, sources: Sequence[str] = MEASURED, most: int = 12, theme: str = "light"
) -> ChartType:
    """Draw where the calls of each tool lie in time: the darker, the larger the share of that tool's calls.

    Args:
        tool_calls: The table.
        sources: Where durations may come from, as for `tool_latency`.
        most: Tools, those with the most calls.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "Where the durations of tools lie"
    found = _by_tool(tool_calls, sources, most)
    if found.is_empty():
        return nothing(title, f"no tool call with a duration ({' or '.join(sources)})", theme)
    per_decade = 4
    cells = (
        found.with_columns((pl.col("duration_s").clip(SHORTEST).log10() * per_decade + 1e-9).floor().alias("bin"))
        .group_by("tool", "bin")
        .len("calls")
        .with_columns(
            (10 ** (pl.col("bin") / per_decade)).alias("from"),
            (10 ** ((pl.col("bin") + 1) / per_decade)).alias("to"),
            (pl.col("calls") / pl.col("calls").sum().over("tool")).alias("share"),
        )
        .sort("tool", "bin")
    )
    middle = found.group_by("tool").agg(pl.col("duration_s").median().alias("p50"), pl.len().alias("calls"))
    order = middle.sort(["p50", "tool"], descending=[True, False])
    named = labels(order["tool"].to_list())
    names = [named[each] for each in order["tool"].to_list()]
    cells = relabelled(cells.drop("bin"), "tool", named)
    ends = alt.Chart(
        data(relabelled(order.select("tool", "calls"), "tool", named).with_columns(
            pl.Series("said", [counted(n, "call") for n in order["calls"].to_list()])
        ))
    )  # fmt: skip
    most_of = largest(cells, "share")
    x = log_seconds(smallest(cells, "from"), largest(cells, "to"), "duration", field="from")
    marks = (
        alt.Chart(data(cells))
        .mark_rect(color=look.palette[BLUE], height=ROW - 6, stroke=look.ground, strokeWidth=1)
        .encode(
            y=rows_axis("tool", names),
            x=x,
            x2="to:Q",
            opacity=alt.Opacity(
                "share:Q",
                title="share of the tool's calls",
                scale=alt.Scale(domain=[0, most_of], range=[0.1, 1]),
                legend=alt.Legend(
                    format=".0%",
                    values=[most_of / 10, most_of / 2, most_of],
                    symbolFillColor=look.palette[BLUE],
                    symbolStrokeWidth=0,
                    titleOrient="left",
                ),
            ),
        )
    )
    said = ends.mark_text(align="left", dx=8, color=look.dim).encode(
        y=rows_axis("tool", names), x=alt.value(WIDTH), text="said:N"
    )
    chart = alt.layer(marks, said).properties(width=WIDTH, height=ROW * len(names))
    return dressed(
        chart, theme, title, f"{counted(found.height, 'call')}, the slowest tool first; {sources_said(tuple(sources))}"
    )


def request_latency(
    usage: Frame, *, sources: Sequence[str] = MEASURED, most: int = 12, theme: str = "light"
) -> ChartType:
    """Draw p50, p95 and p99 by model, beside each other: request to first token, and to the end of the answer.

    Args:
        usage: The table.
        sources: Where durations may come from. The first token is always by arrival: only stamped streams tell it.
        most: Models, those with the most requests.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "How long requests take"
    answers = usage.lazy().filter(pl.col("settled"), pl.col("operation") == "turn").with_columns(answering())
    whole = timed(answers, "duration_s", tuple(sources)).select("model", pl.col("duration_s").alias("s"))
    first = answers.filter(pl.col("time_to_first_token_s") >= 0).select(
        "model", pl.col("time_to_first_token_s").alias("s")
    )
    ends = {"First token": first.collect(), "Whole answer": whole.collect()}
    every = pl.concat(ends.values())
    if every.is_empty():
        return nothing(title, f"no answer with a duration ({' or '.join(sources)})", theme)
    busiest = every.group_by("model").len().sort(["len", "model"], descending=[True, False]).head(most)["model"]
    summed = {
        word: found.filter(pl.col("model").is_in(busiest.implode()))
        .group_by("model")
        .agg(pl.len().alias("requests"), *quantiles("s"))
        .sort(["p95", "model"], descending=[True, False])
        for word, found in ends.items()
    }
    # The slowest answers first; then models of which only the first token is known.
    order = dict.fromkeys([*summed["Whole answer"]["model"].to_list(), *summed["First token"]["model"].to_list()])
    named = labels(order)
    shortest = min(smallest(each, "p50") for each in summed.values() if not each.is_empty())
    panels: list[ChartType] = []
    width = 260 if all(not rows.is_empty() for rows in summed.values()) else WIDTH
    for word, rows in summed.items():
        if rows.is_empty():
            continue
        said = rows.with_columns(pl.Series("said", [f"{n:,}" for n in rows["requests"].to_list()]))
        x = log_seconds(shortest, largest(rows, "p99"), "after the request")
        panel = ranges(
            relabelled(said, "model", named),
            "model",
            look,
            x=x,
            width=width,
            order=list(named.values()),
            names=not panels,
        )
        panels.append(panel.properties(title=alt.Title(word, fontSize=12, offset=6)))
        what = "answers" if word == "Whole answer" else "first tokens"
        slowest = (
            f"{named[rows['model'][0]]} is the slowest: 5% of its {what} take longer than {length(rows['p95'][0])}"
        )
    chart = alt.hconcat(*panels, spacing=30)
    return dressed(chart, theme, title, f"{slowest} ({sources_said(tuple(sources))}; beside the dots: requests)")


def tokens_per_second(
    usage: Frame, *, sources: Sequence[str] = MEASURED, most: int = 12, theme: str = "light"
) -> ChartType:
    """Draw how many tokens a second models give out, over the whole request: p5, p50 and p95.

    Args:
        usage: The table.
        sources: Where durations may come from.
        most: Models, those with the most requests.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "Output tokens per second"
    answers = usage.lazy().filter(pl.col("settled"), pl.col("operation") == "turn", pl.col("output_tokens") > 0)
    rate = (pl.col("output_tokens") / pl.col("duration_s")).alias("rate")
    found = timed(answers.with_columns(answering()), "duration_s", tuple(sources))
    found = found.filter(pl.col("duration_s") > 0).select("model", rate)
    summed = (
        found.group_by("model")
        .agg(
            pl.len().alias("requests"),
            *(
                pl.col("rate").quantile(q, "linear").alias(name)
                for name, q in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95))
            ),
        )
        .sort(["requests", "model"], descending=[True, False])
        .head(most)
        .sort(["p50", "model"], descending=[True, False])
        .collect()
    )
    if summed.is_empty():
        return nothing(title, f"no answer with tokens and a duration ({' or '.join(sources)})", theme)
    rows = relabelled(summed, "model", labels(summed["model"].to_list()))
    rows = rows.with_columns(pl.Series("said", [counted(n, "request") for n in rows["requests"].to_list()]))
    end = largest(rows, "p95") * 1.25
    x = alt.X(
        "value:Q",
        title="output tokens per second of request",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    fastest = rows.row(0, named=True)
    said = f"{fastest['model']} is the fastest: {_rate(fastest['p50'])} tokens a second in the median request"
    return dressed(
        ranges(rows, "model", look, x=x, points=("p5", "p50", "p95")),
        theme,
        title,
        f"{said} ({sources_said(tuple(sources))})",
    )


def _rate(number: float) -> str:
    return f"{number:.3g}" if number < 100 else compact(number)


def _by_tool(tool_calls: Frame, sources: Sequence[str], most: int) -> pl.DataFrame:
    calls = timed(tool_calls.lazy(), "duration_s", tuple(sources))
    found = calls.select(named("tool"), "duration_s").collect()
    busiest = found.group_by("tool").len().sort(["len", "tool"], descending=[True, False]).head(most)
    return found.filter(pl.col("tool").is_in(busiest["tool"].implode()))


def log_seconds(shortest: float, longest: float, what: str, field: str = "value") -> alt.X:
    """Return a logarithmic axis of whole decades, labelled in units that read well."""
    low = math.floor(math.log10(max(shortest, SHORTEST)) + 1e-9)
    high = max(math.ceil(math.log10(max(longest, SHORTEST)) - 1e-9), low + 1)
    unit = "datum.value < 1 ? format(datum.value * 1000, '~f') + ' ms' : format(datum.value, ',~f') + ' s'"
    return alt.X(
        f"{field}:Q",
        title=f"{what} (seconds, logarithmic)",
        scale=alt.Scale(type="log", domain=[10.0**low, 10.0**high], nice=False, clamp=True),
        axis=alt.Axis(values=[10.0**each for each in range(low, high + 1)], labelExpr=unit),
    )

"""What went wrong, and what trying again brought."""

from __future__ import annotations

import altair as alt
import polars as pl
from altair.typing import ChartType

from pimetrics.names import UNKNOWN
from pimetrics.plots import spans
from pimetrics.plots import theme as looks
from pimetrics.plots.frames import Frame, data, largest, named, total
from pimetrics.plots.labels import colours, labels, relabelled, stacked
from pimetrics.plots.marks import bars, counted, nothing, share, ticks, whole_axis
from pimetrics.plots.theme import BLUE, COMPACT, OUTCOMES, RED, WIDTH, dressed
from pimetrics.reports.wording import compact, length

_OUTCOMES = ("success", "failed", "exhausted", "aborted", "unfinished")


def counts(
    frame: Frame, by: str, *, title: str | None = None, noun: str = "row", most: int = 15, theme: str = "light"
) -> ChartType:
    """Draw how often each value of a column occurs, as sorted bars: stop reasons, outcomes, error types, tools.

    Args:
        frame: Any table; filter it to draw a part.
        by: The column.
        title: What is seen; None makes one of the names.
        noun: What a row is, in the singular.
        most: Bars; the rest is one more.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = title or f"{noun.capitalize()}s by {by.replace('_', ' ')}"
    found = (
        frame.lazy()
        .select(pl.col(by).cast(pl.String).fill_null(UNKNOWN))
        .group_by(by)
        .len("number")
        .sort(["number", by], descending=[True, False])
        .collect()
    )
    if found.is_empty():
        return nothing(title, f"no {noun}s", theme)
    whole = round(total(found, "number"))
    rows = relabelled(found.head(most), by, labels(found[by].to_list()[:most]))
    if found.height > most:
        rest = found[most:]
        last = {by: [f"{rest.height} more"], "number": [round(total(rest, "number"))]}
        rows = rows.vstack(pl.DataFrame(last, schema=rows.schema))
    rows = rows.with_columns(pl.Series("said", [f"{n:,} · {share(n, whole)}" for n in rows["number"].to_list()]))
    axis = whole_axis(largest(rows, "number"), title=f"{noun}s")
    chart = bars(rows, by, "number", "said", axis=axis, colour=alt.value(look.palette[BLUE]))
    return dressed(chart, theme, title, counted(whole, noun))


def counts_by_day(
    frame: Frame,
    by: str,
    *,
    title: str | None = None,
    noun: str = "row",
    every: spans.Every | None = None,
    timezone: str | None = None,
    theme: str = "light",
) -> ChartType:
    """Draw how often each value of a column occurs, day by day; weeks or months where the days would be too many.

    Args:
        frame: Any table with a `time`; filter it to draw a part.
        by: The column.
        title: What is seen, without "by day"; None makes one of the names.
        noun: What a row is, in the singular.
        every: day, week or month; None takes what fits.
        timezone: Where days begin; None is UTC. Times without a zone are taken for times there.
        theme: light or dark.
    """
    look = looks.theme(theme)
    kept = frame.lazy().with_columns(pl.col(by).cast(pl.String).fill_null(UNKNOWN))
    rows, span = spans.cut(kept, timezone, every)
    title = f"{title or f'{noun.capitalize()}s'} by {span.word}"
    found = rows.group_by("start", by).len("number").collect()
    if found.is_empty():
        return nothing(title, f"no {noun}s with a time", theme)
    often = found.group_by(by).agg(pl.col("number").sum()).sort(["number", by], descending=[True, False])
    shades = colours(often[by].to_list(), often[by].to_list(), look)
    bars = stacked(found, by, "number", shades)
    starts = found["start"].unique().to_list()
    most = found.group_by("start").agg(pl.col("number").sum()).sort("number", "start").row(-1, named=True)
    chart = (
        alt.Chart(data(spans.placed(bars, span)))
        .mark_bar(stroke=look.ground, strokeWidth=0.5)
        .encode(
            x=spans.axis(starts, span, spans.zone_name(kept, timezone), "from"),
            x2="to:Q",
            y=alt.Y("bottom:Q", title=f"{noun}s", axis=whole_axis(most["number"])),
            y2="top:Q",
            color=alt.Color(f"{by}:N", scale=shades.scale(), title=None, legend=alt.Legend(columns=4)),
        )
        .properties(width=WIDTH, height=200)
    )
    said = f"{counted(round(total(found, 'number')), noun)} in {counted(len(starts), span.word)}, "
    return dressed(chart, theme, title, f"{said}{spans.most(span)} {most['start']:%Y-%m-%d} ({most['number']:,})")


def retry_waste(retries: Frame, *, theme: str = "light") -> ChartType:
    """Draw what retries cost by class of the error: attempts, tokens thrown away, time that pi announced to wait."""
    look = looks.theme(theme)
    title = "What retries cost"
    found = (
        retries.lazy()
        .with_columns(named("error_type"))
        .group_by("error_type")
        .agg(
            pl.len().alias("attempts"),
            pl.col("discarded_tokens").fill_null(0).sum().alias("tokens"),
            pl.col("delay_s").fill_null(0).sum().alias("waited"),
        )
        .sort(["attempts", "error_type"], descending=[True, False])
        .collect()
    )
    if found.is_empty():
        return nothing(title, "no retries", theme)
    rows = relabelled(found, "error_type", labels(found["error_type"].to_list()))
    panels: list[ChartType] = []
    for column, word, say, unit in (
        ("attempts", "Attempts", lambda n: f"{n:,}", "attempts"),
        ("tokens", "Tokens thrown away", compact, "tokens"),
        ("waited", "Time waited", lambda s: length(s) if s else "0", "seconds"),
    ):
        each_said = rows.with_columns(pl.Series("said", [say(each) for each in rows[column].to_list()]))
        axis = alt.Axis(title=unit, labelExpr=COMPACT, values=ticks(largest(rows, column), 3, whole=column != "waited"))
        panel = bars(
            each_said.select("error_type", column, "said"), "error_type", column, "said",
            axis=axis, colour=alt.value(look.palette[RED]), width=175, names=not panels,
        )  # fmt: skip
        panels.append(panel.properties(title=alt.Title(word, fontSize=12, offset=6)))
    said = (
        f"{counted(round(total(rows, 'attempts')), 'attempt')}, {compact(total(rows, 'tokens'))} tokens thrown away, "
        f"{length(total(rows, 'waited'))} waited"
    )
    return dressed(alt.hconcat(*panels, spacing=18), theme, title, said)


def retry_success(retries: Frame, *, scope: str | None = "turn", theme: str = "light") -> ChartType:
    """Draw how the first, second, third attempt ended: whether waiting longer helps.

    Args:
        retries: The table.
        scope: turn, compaction or branch_summary; None takes all.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "How attempts end"
    kept = retries.lazy().filter(pl.col("attempt").is_not_null())
    if scope is not None:
        kept = kept.filter(pl.col("scope") == scope)
    ended = pl.when(pl.col("outcome").is_in(_OUTCOMES)).then(pl.col("outcome")).otherwise(pl.lit("unfinished"))
    found = kept.with_columns(ended.alias("outcome")).group_by("attempt", "outcome").len("number").collect()
    if found.is_empty():
        return nothing(title, "no retries", theme)
    order = {outcome: at for at, outcome in enumerate(_OUTCOMES) if outcome in found["outcome"]}
    rows = found.with_columns(pl.col("outcome").replace_strict(order, return_dtype=pl.Int64).alias("place"))
    rows = rows.sort("attempt", "place")
    success = (
        found.group_by("attempt")
        .agg(
            pl.col("number").sum().alias("all"),
            pl.col("number").filter(pl.col("outcome") == "success").sum().alias("success"),
        )
        .sort("attempt")
    )
    success = success.with_columns(
        pl.Series("said", [f"{share(good, every)} succeed" for _, every, good in success.iter_rows()])
    )
    shades = [look.palette[OUTCOMES[outcome]] if outcome in OUTCOMES else look.other for outcome in order]
    x = alt.X("attempt:O", title="attempt", axis=alt.Axis(labelAngle=0, labelFontSize=12))
    most = largest(success, "all")
    y = alt.Y("number:Q", title="attempts", axis=whole_axis(most), scale=alt.Scale(domain=[0, most * 1.2], nice=False))
    marks = (
        alt.Chart(data(rows))
        .mark_bar(size=46)
        .encode(
            x=x,
            y=y,
            color=alt.Color("outcome:N", title=None, scale=alt.Scale(domain=list(order), range=shades)),
            order="place:Q",
        )
    )
    ends = alt.Chart(data(success)).mark_text(dy=-8).encode(x=x, y="all:Q", text="said:N")
    chart = alt.layer(marks, ends).properties(width=max(220, min(WIDTH, 110 * success.height)), height=200)
    good, every = round(total(success, "success")), round(total(success, "all"))
    return dressed(chart, theme, title, f"{good:,} of {counted(every, 'attempt')} succeeded")

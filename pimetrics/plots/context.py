"""What fills the context, and what compactions take out of it."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl
from altair.typing import ChartType

from pimetrics.names import UNKNOWN
from pimetrics.plots import theme as looks
from pimetrics.plots.frames import Frame, context_tokens, data, largest, named, total
from pimetrics.plots.labels import labels, shown, unique
from pimetrics.plots.marks import ROW, bars, counted, nothing, rows_axis, share, ticks, whole_axis
from pimetrics.plots.spans import local
from pimetrics.plots.theme import BLUE, COMPACT, GREEN, ORANGE, RED, WIDTH, dressed
from pimetrics.reports.wording import compact

_MOST_POINTS: Final = 1500
"""More requests than this are drawn as the fullest of each few; a pixel has no room for more."""


def context_growth(
    usage: Frame, compactions: Frame, *, session_id: str | None = None, theme: str = "light"
) -> ChartType:
    """Draw the tokens in the context of a session, request by request, and where it was compacted.

    Args:
        usage: The table.
        compactions: The table.
        session_id: The session; None takes the one with the most requests.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "How the context grows"
    answers = usage.lazy().filter(
        pl.col("settled"), pl.col("operation") == "turn", pl.col("time").is_not_null(),
        pl.col("on_active_branch").fill_null(value=True),
    )  # fmt: skip
    filled = answers.with_columns(context_tokens()).filter(pl.col("context_tokens") > 0)
    if session_id is None:
        counts = filled.filter(pl.col("session_id").is_not_null()).group_by("session_id").len()
        first = counts.sort(["len", "session_id"], descending=[True, False]).head(1).collect()["session_id"].to_list()
        session_id = first[0] if first else None
    own = pl.col("session_id").is_null() if session_id is None else pl.col("session_id") == session_id
    found = filled.filter(own).sort("time", "row_id").select("time", "context_tokens").collect()
    if found.is_empty():
        return nothing(title, "no answer with a context and a time", theme)
    rows = found.with_row_index("request", offset=1)
    cut = compactions.lazy().filter(own, pl.col("outcome") == "ok", pl.col("time").is_not_null()).sort("time").collect()
    times = rows["time"].to_list()
    # A request that begins as a compaction ends (a retry after an overflow) was made after it.
    places = [
        {"request": sum(each < time for each in times) + 0.5, "reason": reason or UNKNOWN}
        for time, reason in cut.select("time", "reason").iter_rows()
    ]
    group = -(-rows.height // _MOST_POINTS)
    drawn = (
        rows.with_columns((pl.col("request") - 1) // group)
        .group_by("request", maintain_order=True)
        .agg(pl.col("context_tokens").max())
    )
    drawn = drawn.with_columns(pl.col("request") * group + 1)
    x = alt.X(
        "request:Q", title="request of the session", axis=whole_axis(rows.height, grid=False),
        scale=alt.Scale(domain=[0.5, rows.height + 0.5], nice=False),
    )  # fmt: skip
    values = ticks(largest(rows, "context_tokens"), 5, whole=True)
    y = alt.Y("context_tokens:Q", title="tokens in the context", axis=alt.Axis(labelExpr=COMPACT, values=values))
    base = alt.Chart(data(drawn)).encode(x=x, y=y)
    layers: list[alt.Chart] = [
        base.mark_area(color=look.palette[BLUE], opacity=0.18, interpolate="linear"),
        base.mark_line(color=look.palette[BLUE], strokeWidth=2),
    ]
    if rows.height <= 60:
        layers.append(base.mark_point(color=look.palette[BLUE], filled=True, size=26, opacity=1))
    if places:
        shades = {"threshold": ORANGE, "overflow": RED, "manual": GREEN}
        reasons = [each for each in (*shades, UNKNOWN) if any(place["reason"] == each for place in places)]
        for place in places:
            if place["reason"] not in reasons:
                place["reason"] = UNKNOWN
                reasons = [*reasons, UNKNOWN] if UNKNOWN not in reasons else reasons
        scale = alt.Scale(
            domain=reasons, range=[look.palette[shades[each]] if each in shades else look.other for each in reasons]
        )
        layers.append(
            alt.Chart(data(places))
            .mark_rule(strokeWidth=1.5, strokeDash=[4, 3])
            .encode(
                x=alt.X("request:Q", scale=x["scale"]),
                color=alt.Color("reason:N", title="compaction", scale=scale, legend=alt.Legend(
                    symbolType="stroke", symbolStrokeWidth=2, titleOrient="left")),
            )
        )  # fmt: skip
    peak = largest(rows, "context_tokens")
    said = f"{shown(session_id) if session_id else 'no session id'}: {counted(rows.height, 'request')}, "
    said += f"at most {compact(peak)} tokens, {counted(len(places), 'compaction')}"
    return dressed(alt.layer(*layers).properties(width=WIDTH, height=220), theme, title, said)


def compaction_savings(
    compactions: Frame, *, most: int = 20, timezone: str | None = None, theme: str = "light"
) -> ChartType:
    """Draw the context before and after each compaction (as pi estimates it), the latest at the bottom.

    Args:
        compactions: The table.
        most: Compactions, the latest.
        timezone: Of the times that name them; None is UTC.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "What compactions take out of the context"
    found = (
        local(compactions.lazy().filter(pl.col("tokens_before") > 0, pl.col("tokens_after").is_not_null()), timezone)
        .sort("time", "row_id")
        .collect()
    )
    if found.is_empty():
        return nothing(title, "no compaction that tells its context before and after", theme)
    rows = found.tail(most)
    names, said = [], []
    for number, (time, reason, before, after) in enumerate(
        rows.select("time", "reason", "tokens_before", "tokens_after").iter_rows(), start=1
    ):
        names.append(f"{number}.  {time:%Y-%m-%d %H:%M}  {shown(reason or UNKNOWN)}")
        word = "less" if after <= before else "more"
        said.append(f"{compact(before)} to {compact(after)}: {share(abs(before - after), before)} {word}")
    rows = rows.select(
        pl.Series("name", names),
        pl.Series("said", said),
        "tokens_before",
        "tokens_after",
        pl.max_horizontal("tokens_before", "tokens_after").alias("end"),
    )
    y = rows_axis("name", names)
    end = max(rows["end"].to_list())
    scale = alt.Scale(domain=[0, end * 1.45], nice=False)
    line = (
        alt.Chart(data(rows))
        .mark_rule(strokeWidth=3, color=look.line)
        .encode(
            y=y,
            x=alt.X(
                "tokens_after:Q",
                scale=scale,
                title="tokens in the context",
                axis=alt.Axis(labelExpr=COMPACT, values=ticks(end, 6, whole=True)),
            ),
            x2="tokens_before:Q",
        )
    )
    words = {"tokens_before": "before", "tokens_after": "after"}
    long = rows.unpivot(on=list(words), index="name", variable_name="when", value_name="tokens")
    long = long.with_columns(pl.col("when").replace_strict(words))
    key = alt.Legend(title=None, symbolType="circle")
    dots = (
        alt.Chart(data(long))
        .mark_point(filled=True, size=80, opacity=1)
        .encode(
            y=y,
            x=alt.X("tokens:Q", scale=scale),
            color=alt.Color(
                "when:N",
                legend=key,
                scale=alt.Scale(domain=["before", "after"], range=[look.palette[ORANGE], look.palette[BLUE]]),
            ),
        )
    )
    text = (
        alt.Chart(data(rows))
        .mark_text(align="left", dx=10, color=look.dim)
        .encode(y=y, x=alt.X("end:Q", scale=scale), text="said:N")
    )
    before, after = total(found, "tokens_before"), total(found, "tokens_after")
    chart = alt.layer(line, dots, text).properties(width=WIDTH - 40, height=ROW * len(names))
    shown_of = "" if found.height <= most else f"; the latest {most} are drawn"
    return dressed(
        chart,
        theme,
        title,
        f"{counted(found.height, 'compaction')} took out {compact(before - after)} of {compact(before)} tokens "
        f"({share(before - after, before)}){shown_of}",
    )


def context_share(messages: Frame, tool_calls: Frame, *, most: int = 12, theme: str = "light") -> ChartType:
    """Draw what the messages of sessions consist of, by size: tool results by tool, answers, prompts, the rest.

    Args:
        messages: The table.
        tool_calls: The table.
        most: Bars; the rest is one more for tools and one for everything else.
        theme: light or dark.
    """
    look = looks.theme(theme)
    title = "What fills the context"
    roles = (
        messages.lazy()
        .filter(pl.col("role") != "toolResult")
        .group_by(named("role").alias("name"))
        .agg(pl.col("content_bytes").fill_null(0).sum().alias("bytes"))
        .with_columns(pl.lit(value=False).alias("result"))
    )
    results = (
        tool_calls.lazy()
        .group_by(named("tool").alias("name"))
        .agg(pl.col("result_bytes").fill_null(0).sum().alias("bytes"))
        .with_columns(pl.lit(value=True).alias("result"))
    )
    found = (
        pl.concat([roles, results])
        .filter(pl.col("bytes") > 0)
        .sort(["bytes", "name"], descending=[True, False])
        .collect()
    )
    if found.is_empty():
        return nothing(title, "no message with a size", theme)
    whole = total(found, "bytes")
    words = {"assistant": "answers", "user": "prompts", "system": "system messages"}
    kinds = {True: "tool results", False: "everything else"}
    rows = []
    for is_result in kinds:
        own = found.with_row_index("place").filter(pl.col("result") == is_result)
        kept = own.filter(pl.col("place") < most)
        rest = own.filter(pl.col("place") >= most)
        names = labels(kept["name"].to_list())
        for name, size in kept.select("name", "bytes").iter_rows():
            rows.append((f"results of {names[name]}" if is_result else words.get(name, names[name]), size, is_result))
        if not rest.is_empty():
            what = f"results of {counted(rest.height, 'more tool')}" if is_result else f"{rest.height} more"
            rows.append((what, round(total(rest, "bytes")), is_result))
    rows.sort(key=lambda row: -row[1])
    named_rows = zip(unique([name for name, _, _ in rows]), rows, strict=True)
    drawn = pl.DataFrame(
        [(name, size, kinds[is_result]) for name, (_, size, is_result) in named_rows],
        schema={"name": pl.String, "bytes": pl.Int64, "kind": pl.String},
        orient="row",
    )
    drawn = drawn.with_columns(
        pl.Series("said", [f"{compact(n)}B · {share(n, whole)}" for n in drawn["bytes"].to_list()])
    )
    scale = alt.Scale(domain=[*kinds.values()], range=[look.palette[ORANGE], look.palette[BLUE]])
    values = ticks(largest(drawn, "bytes"), 5, whole=True)
    axis = alt.Axis(title="texts and images (bytes)", labelExpr=COMPACT, values=values)
    chart = bars(drawn, "name", "bytes", "said", axis=axis, colour=alt.Color("kind:N", title=None, scale=scale))
    of_tools = total(found.filter("result"), "bytes")
    return dressed(chart, theme, title, f"{share(of_tools, whole)} of {compact(whole)}B are tool results")

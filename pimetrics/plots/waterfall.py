"""One prompt as it went: turns, the requests in them, and tools side by side."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

import altair as alt
import polars as pl
from altair.typing import ChartType

from pimetrics.plots import spans
from pimetrics.plots import theme as looks
from pimetrics.plots.frames import Frame, answering, data, named
from pimetrics.plots.labels import labels
from pimetrics.plots.marks import counted, nothing
from pimetrics.plots.theme import BLUE, OUTCOMES, SKY, WIDTH, Theme, dressed
from pimetrics.reports.wording import length

_ROW: Final = 19
"""Height of a row, pixels."""

_WORDS: Final = {"ok": "tool, ok", "error": "tool, error", "aborted": "tool, aborted"}


class _Piece(NamedTuple):
    """A part of a row that has one colour.

    Attributes:
        kind: What the legend calls it.
        begin: Seconds after the start of the prompt.
        end: Seconds after the start of the prompt.
    """

    kind: str
    begin: float
    end: float


class _Row(NamedTuple):
    """A row of the picture.

    Attributes:
        rank: Of rows that begin together, the lowest stands first.
        label: Before it.
        said: Behind it.
        pieces: Its parts, in order.
    """

    rank: int
    label: str
    said: str
    pieces: tuple[_Piece, ...]


def waterfall(
    usage: Frame,
    tool_calls: Frame,
    turns: Frame,
    *,
    prompt_id: str | None = None,
    title: str = "A prompt as it went",
    most: int = 40,
    timezone: str | None = None,
    theme: str = "light",
) -> ChartType:
    """Draw what happened in one prompt, and when: every turn, its request, and its tools, which may run in parallel.

    Args:
        usage: The table.
        tool_calls: The table.
        turns: The table.
        prompt_id: `row_id` of the prompt; None takes the longest of those that have room.
        title: What is seen.
        most: Rows; the later ones are left out.
        timezone: Of the start; None is UTC.
        theme: light or dark.
    """
    look = looks.theme(theme)
    zone = spans.zone_name(turns.lazy(), timezone)
    calls, answers, rounds = (_timed(each, timezone) for each in (tool_calls, usage, turns))
    answers = answers.filter(pl.col("operation") == "turn")
    wanted = prompt_id or _fitting(pl.concat([each.select("prompt_id") for each in (calls, answers, rounds)]), most)
    calls, answers, rounds = (each.filter(pl.col("prompt_id") == pl.lit(wanted)) for each in (calls, answers, rounds))
    starts = [each["time"].min() for each in (rounds, answers, calls) if not each.is_empty()]
    if not starts:
        return nothing(title, "no prompt with durations", theme)
    begin: datetime = min(starts)  # type: ignore[type-var,assignment]
    found = sorted(
        [*_turns(rounds, begin), *_requests(answers, begin), *_calls(calls, begin)],
        key=lambda row: (row.pieces[0].begin, row.rank),
    )
    chart = _drawn(found[:most], look)
    end = max(piece.end for row in found for piece in row.pieces)
    said = (
        f"{length(end)}: {counted(answers.height, 'request')}, {counted(calls.height, 'tool call')}, "
        f"from {begin:%Y-%m-%d %H:%M:%S} {zone}"
    )
    left = len(found) - most
    return dressed(chart, theme, title, f"{said}; {left} later rows are left out" if left > 0 else said)


def _timed(frame: Frame, timezone: str | None) -> pl.DataFrame:
    return spans.local(frame.lazy(), timezone).filter(pl.col("duration_s") >= 0).sort("time", "row_id").collect()


def _fitting(rows: pl.DataFrame, most: int) -> str | None:
    """Return the prompt with the most rows that fit, else the one with the fewest."""
    counts = rows.drop_nulls().group_by("prompt_id").len()
    fits = pl.col("len") <= most
    order = pl.when(fits).then(-pl.col("len").cast(pl.Int64)).otherwise(pl.col("len"))
    found = counts.sort(fits.not_(), order, "prompt_id")["prompt_id"]
    return found[0] if found.len() else None


def _turns(rows: pl.DataFrame, begin: datetime) -> Iterator[_Row]:
    for number, (time, took) in enumerate(rows.select("time", "duration_s").iter_rows(), start=1):
        at = (time - begin).total_seconds()
        yield _Row(0, f"turn {number}", length(took), (_Piece("turn", at, at + took),))


def _requests(rows: pl.DataFrame, begin: datetime) -> Iterator[_Row]:
    columns = rows.with_columns(answering()).select("time", "duration_s", "time_to_first_token_s", "model")
    short = labels(columns["model"].to_list())
    for time, took, first, model in columns.iter_rows():
        at = (time - begin).total_seconds()
        waited = min(first or 0.0, took)
        pieces = (_Piece("waiting", at, at + waited), _Piece("answering", at + waited, at + took))
        yield _Row(1, short[model], length(took), tuple(each for each in pieces if each.end > each.begin) or pieces[1:])


def _calls(rows: pl.DataFrame, begin: datetime) -> Iterator[_Row]:
    columns = rows.with_columns(named("tool")).select("time", "duration_s", "tool", "outcome")
    short = labels(columns["tool"].to_list())
    for time, took, tool, outcome in columns.iter_rows():
        at = (time - begin).total_seconds()
        kind = _WORDS.get(outcome, "tool, unfinished")
        yield _Row(2, short[tool], length(took), (_Piece(kind, at, at + took),))


def _drawn(rows: list[_Row], look: Theme) -> ChartType:
    shades = {
        "turn": look.other, "waiting": look.palette[SKY], "answering": look.palette[BLUE],
        **{word: look.palette[OUTCOMES[outcome]] for outcome, word in _WORDS.items()},
        "tool, unfinished": look.line,
    }  # fmt: skip
    kinds = {piece.kind for row in rows for piece in row.pieces}
    domain = [kind for kind in shades if kind in kinds]
    end = max(piece.end for row in rows for piece in row.pieces) or 0.001
    scale = alt.Scale(domain=[0, end * 1.12], nice=False)
    order = [str(at) for at in range(len(rows))]
    y = alt.Y("row:N", sort=order, axis=None)
    least = end * 1.12 / WIDTH  # a pixel, so that nothing is too short to be seen
    pieces = [
        {"row": str(at), "kind": piece.kind, "begin": piece.begin, "end": max(piece.end, piece.begin + least)}
        for at, row in enumerate(rows)
        for piece in row.pieces
    ]
    texts = [
        {"row": str(at), "label": row.label, "said": row.said, "end": row.pieces[-1].end, "is_turn": row.rank == 0}
        for at, row in enumerate(rows)
    ]
    marks = (
        alt.Chart(data(pieces))
        .mark_bar(height=_ROW - 8)
        .encode(
            y=y,
            x=alt.X("begin:Q", title="seconds since the prompt's first turn", scale=scale, axis=alt.Axis(tickCount=6)),
            x2="end:Q",
            color=alt.Color("kind:N", title=None, scale=alt.Scale(domain=domain, range=[shades[k] for k in domain])),
        )
    )
    said = alt.Chart(data(texts))
    before = [
        mark.encode(y=y, x=alt.value(-8), text="label:N")
        for mark in (
            said.transform_filter("datum.is_turn").mark_text(align="right", fontWeight=600),
            said.transform_filter("!datum.is_turn").mark_text(align="right"),
        )
    ]
    behind = said.mark_text(align="left", dx=5, color=look.dim).encode(
        y=y, x=alt.X("end:Q", scale=scale), text="said:N"
    )
    return alt.layer(marks, *before, behind).properties(width=WIDTH, height=_ROW * len(rows))

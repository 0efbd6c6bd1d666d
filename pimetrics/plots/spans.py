"""Time as charts cut it: days, weeks or months, on an axis with few labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

import altair as alt
import polars as pl

Every = Literal["day", "week", "month"]


class Span(NamedTuple):
    """How time is cut.

    Attributes:
        every: As polars says it.
        word: As people say it.
        days: About how many days.
        format: Of a label on the axis.
    """

    every: str
    word: str
    days: int
    format: str


DAY: Final = Span("1d", "day", 1, "%b %-d")
WEEK: Final = Span("1w", "week", 7, "%b %-d")
MONTH: Final = Span("1mo", "month", 30, "%b %Y")
_SPANS: Final = {"day": DAY, "week": WEEK, "month": MONTH}

_MOST_DAYS: Final = 92
_MOST_WEEKS: Final = 110
_MOST_TICKS: Final = 8
_LEAST_SPANS: Final = 7
"""Room on the axis; a single day is a slim bar in the middle and no wall."""

_QUARTER_MS: Final = 900_000
"""Every zone is off UTC by whole quarters of an hour, and changes at whole quarters."""

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  local times have no zone


def zone_name(frame: pl.LazyFrame, timezone: str | None) -> str:
    """Say in whose time days are."""
    return timezone or ("UTC" if _has_zone(frame) else "local time")


def _has_zone(frame: pl.LazyFrame) -> bool:
    dtype = frame.collect_schema()["time"]
    return isinstance(dtype, pl.Datetime) and dtype.time_zone is not None


def local(frame: pl.LazyFrame, timezone: str | None) -> pl.LazyFrame:
    """Make `time` a local time without a zone, if it is not one already; rows without a time go."""
    if _has_zone(frame):
        moved = pl.col("time").dt.convert_time_zone(timezone or "UTC")
        frame = frame.with_columns(moved.dt.replace_time_zone(None))
    return frame.filter(pl.col("time").is_not_null())


def cut(frame: pl.LazyFrame, timezone: str | None, every: Every | None) -> tuple[pl.LazyFrame, Span]:
    """Add `start`, the first instant of the span that a row lies in, and tell how long spans are.

    Args:
        frame: Rows with a `time`.
        timezone: Where days begin; None is UTC. Times without a zone are taken for times there.
        every: What is asked for; None takes days, or what can still be seen.
    """
    rows = local(frame, timezone)
    ends = rows.select(pl.col("time").min().alias("first"), pl.col("time").max().alias("last")).collect()
    first, last = ends.row(0)
    days = (last - first).days if first is not None else 0
    fitting = DAY if days <= _MOST_DAYS else WEEK if days <= _MOST_WEEKS * 7 else MONTH
    span = _SPANS[every] if every else fitting
    return rows.with_columns(pl.col("time").dt.truncate(span.every).alias("start")), span


def axis(starts: Sequence[datetime], span: Span, zone: str, field: str) -> alt.X:
    """Return an axis on which each span stands at its start."""
    first, last = min(starts), max(starts)
    step = timedelta(days=span.days)
    spare = max(0, _LEAST_SPANS - 1 - round((last - first) / step)) / 2 + 0.6
    every = pl.datetime_range(first, last, span.every, eager=True).to_list()
    stride = -(-len(every) // _MOST_TICKS)
    one_year = first.year == last.year or span is MONTH
    return alt.X(
        f"{field}:T",
        title=f"{'week from Monday' if span is WEEK else span.word} ({zone})",
        scale=alt.Scale(type="utc", domain=[ms(first - step * spare), ms(last + step * spare)], nice=False),
        axis=alt.Axis(
            values=[ms(each) for each in every[::stride]],
            format=span.format if one_year else f"{span.format}, %Y",
            grid=False,
        ),
    )


def most(span: Span) -> str:
    """Say which span the most happened in: its first day stands behind this."""
    return {"day": "most on", "week": "most in the week from", "month": "most in the month from"}[span.word]


def ms(when: datetime) -> int:
    """Return a local time as the number that an axis in UTC shows as that time."""
    return round((when - _EPOCH).total_seconds() * 1000)


def placed(rows: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Replace `start` by where it stands on the axis: `at`, and the edges of a bar, `from` and `to`; epoch ms."""
    at = pl.col("start").dt.epoch("ms")
    half = span.days * 86_400_000 * 2 // 5
    return rows.with_columns((at - half).alias("from"), (at + half).alias("to"), at.alias("at")).drop("start")


def in_zone(table: pl.DataFrame, local: Callable[[int], datetime]) -> pl.DataFrame:
    """Turn the times of a table into those of a zone, without a zone; polars knows fewer zones than Python.

    Args:
        table: Its times are in `time`.
        local: Gives the local time of an epoch time, ms.
    """
    quarters = (pl.col("time").dt.epoch("ms") // _QUARTER_MS).alias("quarter")
    known = table.select(quarters).unique().drop_nulls()["quarter"].to_list()
    offsets = [_offset_ms(local(quarter * _QUARTER_MS)) for quarter in known]
    moved = pl.col("time").dt.epoch("ms") + quarters.replace_strict(known, offsets, default=0, return_dtype=pl.Int64)
    return table.with_columns(moved.cast(pl.Datetime("ms")).alias("time"))


def _offset_ms(at: datetime) -> int:
    offset = at.utcoffset()
    return round(offset.total_seconds() * 1000) if offset else 0

"""What a filter says about time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from math import inf

import polars as pl
import pytest
from polars.io.plugins import register_io_source

from pimetrics.sinks.bounds import ALWAYS, time_span
from pimetrics.sinks.frames import schema

T = datetime(2026, 11, 30, tzinfo=UTC)
U = datetime(2026, 12, 1, tzinfo=UTC)
A, B = T.timestamp() * 1000, U.timestamp() * 1000
time = pl.col("time")


def pushed(which: pl.Expr) -> pl.Expr | None:
    """The predicate as polars hands it to a source."""
    given: list[pl.Expr | None] = []

    def source(_columns, predicate, _rows, _size):
        given.append(predicate)
        yield pl.DataFrame(schema=schema("usage"))

    register_io_source(source, schema=schema("usage")).filter(which).collect()
    return given[0]


@pytest.mark.parametrize(
    ("which", "span"),
    [
        (time >= T, (A, inf)),
        (time > T, (A, inf)),
        (time < T, (-inf, A)),
        (time == T, (A, A)),
        (pl.lit(T) <= time, (A, inf)),
        (time.is_between(T, U), (A, B)),
        ((time >= T) & (time < U), (A, B)),
        ((time >= T) & (pl.col("model") == "m"), (A, inf)),
        ((time == T) | (time == U), (A, B)),
        ((time > U) & (time < T), (B, A)),
        (time.dt.date() == date(2026, 11, 30), (A, B)),
        ((time > T) | (pl.col("model") == "m"), ALWAYS),
        ((time > T) | time.is_null(), ALWAYS),
        (time.is_null(), ALWAYS),
        (time.dt.hour() > 3, ALWAYS),
        (pl.col("session_id") == "s", ALWAYS),
        (time.map_batches(lambda s: s.is_not_null(), return_dtype=pl.Boolean), ALWAYS),
    ],
)
def test_the_span_of_a_filter(which: pl.Expr, span: tuple[float, float]) -> None:
    """Comparisons of `time` with a literal bound it, alone, joined, or on its date; whatever else does not."""
    assert time_span(pushed(which)) == span


def test_no_filter_bounds_nothing() -> None:
    """Without a predicate every family can have rows."""
    assert time_span(None) == ALWAYS

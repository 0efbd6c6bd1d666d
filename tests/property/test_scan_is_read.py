"""`scan` gives the rows of `read`, whatever the archive and the filter."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from archives import ARCHIVES, HOUR_MS, START_MS, Plan, write_archive
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import pimetrics as pm

TIMES = st.integers(-30, 120).map(lambda hours: datetime.fromtimestamp((START_MS + hours * HOUR_MS) / 1000, UTC))
time = pl.col("time")
FILTERS = st.one_of(
    st.just(pl.lit(value=True)),
    st.builds(time.__ge__, TIMES),
    st.builds(time.__lt__, TIMES),
    st.builds(time.is_between, TIMES, TIMES),
    st.builds(lambda a, b: (time < a) | (time > b), TIMES, TIMES),
    st.builds(lambda a: (time > a) & pl.col("session_id").is_not_null(), TIMES),
    st.builds(lambda a: time.dt.date() == a.date(), TIMES),
    st.builds(lambda a: ~(time > a), TIMES),
    st.builds(lambda a: (time > a) | time.is_null(), TIMES),
    st.just(pl.col("session_id").is_null()),
)


@given(plans=ARCHIVES, which=FILTERS, engine=st.sampled_from(("in-memory", "streaming")))
@example(
    plans=[Plan(0, 2, 60, forks=(("by path", 5, False), ("silent", 4, True)), gone=True)],
    which=time.is_null(),
    engine="streaming",
)
def test_scan_filtered_is_read_filtered(plans: list[Plan], which: pl.Expr, engine: str) -> None:
    """Every table, any filter, both engines: the same rows, each column of them."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_archive(folder, plans)
        eager, lazy = pm.read(folder), pm.scan(folder)
        for table, frame in eager.items():
            want = frame.filter(which).sort("row_id")
            found = getattr(lazy, table).filter(which).collect(engine=engine).sort("row_id")
            assert_frame_equal(found, want)

"""Tables to the few rows that a chart holds: everything is summed up here, before altair sees it."""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import polars as pl

from pimetrics.names import UNKNOWN

Frame = pl.DataFrame | pl.LazyFrame
"""A table of `pimetrics.read`, or of `pimetrics.scan`."""

MEASURED: Final = ("reported", "arrival")
"""Sources of durations that were measured; those of session entries (`entry`) also hold what ran beside."""


def settled(usage: Frame, *, with_tools: bool) -> pl.LazyFrame:
    """Return the usage rows that totals are made of, with the model that answered as `model`.

    Args:
        usage: The table.
        with_tools: Whether what tools reported counts; over many sessions it may repeat those of sub-agents.
    """
    kept = usage.lazy().filter(pl.col("settled"))
    if not with_tools:
        kept = kept.filter(pl.col("operation") != "tool")
    return kept.with_columns(answering())


def answering() -> pl.Expr:
    """Return the model that answered, else the one that was asked, as `model`."""
    return pl.coalesce(_some("response_model"), named("model")).alias("model")


def named(column: str, missing: str = UNKNOWN) -> pl.Expr:
    """Return a column of names without holes: nothing and the empty name are `missing`, as in reports."""
    return pl.coalesce(_some(column), pl.lit(missing)).alias(column)


def _some(column: str) -> pl.Expr:
    return pl.when(pl.col(column) != "").then(pl.col(column))


def cost() -> pl.Expr:
    """Return the cost of a group, USD; rounded, since sums of floats differ in their last digits from run to run."""
    return pl.col("cost_usd").fill_null(0).sum().round(10).alias("cost_usd")


def context_tokens() -> pl.Expr:
    """Return the tokens in the context of a request: input, cache reads and cache writes."""
    parts = [pl.col(each).fill_null(0) for each in ("input_tokens", "cache_read_tokens", "cache_write_tokens")]
    return pl.sum_horizontal(parts).alias("context_tokens")


def timed(rows: pl.LazyFrame, column: str, sources: tuple[str, ...]) -> pl.LazyFrame:
    """Return the rows whose duration comes from one of the sources."""
    return rows.filter(pl.col("duration_source").is_in(sources) & pl.col(column).is_finite() & (pl.col(column) >= 0))


def sources_said(sources: tuple[str, ...]) -> str:
    """Say where durations come from."""
    return "times of session entries" if sources == ("entry",) else f"times: {' or '.join(sources)}"


def data(rows: pl.DataFrame | list[dict[str, Any]]) -> alt.InlineData:
    """Return rows as they go into a chart: plain values, few of them."""
    return alt.InlineData(values=rows if isinstance(rows, list) else rows.to_dicts())


def total(rows: pl.DataFrame, column: str) -> float:
    """Return the sum of a column of numbers."""
    return float(rows[column].sum())


def largest(rows: pl.DataFrame, column: str) -> float:
    """Return the largest number of a column that has one."""
    return max(map(float, rows[column].to_list()))


def smallest(rows: pl.DataFrame, column: str) -> float:
    """Return the smallest number of a column that has one."""
    return min(map(float, rows[column].to_list()))

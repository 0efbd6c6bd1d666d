"""Facts to polars: one DataFrame a table, with the fixed schemas of COLUMNS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import polars as pl

from pimetrics.rows import BOOL, COLUMNS, FLOAT, INT, STRING, TABLES, TIME

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

DTYPES: dict[str, pl.DataType] = {
    STRING: pl.String(),
    INT: pl.Int64(),
    FLOAT: pl.Float64(),
    BOOL: pl.Boolean(),
    TIME: pl.Datetime("ms", "UTC"),
}


def schema(table: str) -> pl.Schema:
    """Return the schema of a table: the same for any input, empty input included."""
    return pl.Schema({name: DTYPES[column.dtype] for name, column in COLUMNS[table].items()})


@dataclass(frozen=True)
class Tables(Generic[Frame]):
    """All tables of a read: one row a fact, columns as in COLUMNS, absent is null.

    Rows are sorted by time (null last), then `row_id`, so the same facts give the same frames in any reading order.
    """

    sessions: Frame
    prompts: Frame
    runs: Frame
    turns: Frame
    messages: Frame
    usage: Frame
    tool_calls: Frame
    retries: Frame
    compactions: Frame
    queue: Frame
    rejects: Frame
    events: Frame | None = None

    def __repr__(self) -> str:
        """Name the tables with their rows; all of them printed would fill screens."""
        named = (f"{name}={getattr(frame, 'height', 'lazy')}" for name, frame in self.items())
        return f"Tables({', '.join(named)})"

    def items(self) -> Iterable[tuple[str, Frame]]:
        """Yield (name, frame) of the tables that were asked for."""
        for each in fields(self):
            frame = getattr(self, each.name)
            if frame is not None:
                yield each.name, frame


def frame(table: str, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Build one table from rows of column values, times in epoch ms."""
    kept = sorted(rows, key=_order)
    columns = {}
    for name, column in COLUMNS[table].items():
        values = [row.get(name) for row in kept]
        if column.dtype == TIME:
            columns[name] = pl.Series(name, values, dtype=pl.Int64).cast(DTYPES[TIME])
        else:
            columns[name] = pl.Series(name, values, dtype=DTYPES[column.dtype])
    return pl.DataFrame(columns)


def tables(rows: Callable[[str], Iterable[dict[str, Any]]], *, events: bool = False) -> Tables[pl.DataFrame]:
    """Build all tables.

    Args:
        rows: Gives the rows of a table by name.
        events: Whether to build `events` too.
    """
    wanted = (*TABLES, "events") if events else TABLES
    return Tables(**{table: frame(table, rows(table)) for table in wanted})


def _order(row: dict[str, Any]) -> tuple[bool, int, str]:
    time = row.get("time")
    return (time is None, time or 0, row["row_id"])

"""Facts to polars: one DataFrame a table, with the fixed schemas of COLUMNS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, Generic, TypeVar

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


_FRAME_ROWS: Final = 10_000
"""Rows are held as Python objects until there are so many."""


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
    return _built(table, sorted(rows, key=_order))


class Builder:
    """Builds one table from the rows of many families, one after the other.

    Many families are small, and a frame costs as much as some hundred rows: so one is made of some thousand.

    Args:
        table: Its name.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self._frames: list[pl.DataFrame] = []
        self._rows: list[dict[str, Any]] = []

    def add(self, rows: Iterable[dict[str, Any]]) -> int:
        """Add the rows of a family; return how many they are."""
        before = len(self._rows)
        self._rows += sorted(rows, key=_order)
        count = len(self._rows) - before
        if len(self._rows) >= _FRAME_ROWS:
            self._frames.append(_built(self._table, self._rows))
            self._rows = []
        return count

    def frame(self) -> pl.DataFrame:
        """Return the rows of all families, each sorted as in a table of its own."""
        return pl.concat([*self._frames, _built(self._table, self._rows)])


def _built(table: str, kept: list[dict[str, Any]]) -> pl.DataFrame:
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

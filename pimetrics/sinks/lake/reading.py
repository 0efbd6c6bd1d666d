"""A lake read back: the tables of all writers, each fact once.

A filter on `time` reads only the days that it touches, a projection only its columns. Rows that two writers share are
one row, as in `read`: per column what is known beats null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from typing import Final

import polars as pl

from pimetrics.errors import StateError
from pimetrics.rows import TABLES
from pimetrics.sinks.bounds import ALWAYS, Span
from pimetrics.sinks.frames import schema
from pimetrics.sinks.lake.layout import WRITER, Day, days
from pimetrics.sinks.lake.store import Store, reason
from pimetrics.sinks.lazy import Piece
from pimetrics.sinks.parquet import UNKNOWN_DATE

_DAY_MS: Final = 86_400_000
_TRIES: Final = 3
"""A file that was listed may be gone when it is read: its writer, or a merge, has just replaced it."""


class Lake:
    """The tables of a lake.

    Args:
        url: See `Store`.

    Raises:
        StateError: There is no lake, or it cannot be read.
    """

    def __init__(self, url: str) -> None:
        self._store = Store(url)
        if not self._days(TABLES[0]):
            raise StateError(
                f"{self._store.shown} holds no export; write one with pimetrics export --to, or check the address"
            )

    def read(self, table: str, span: Span, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield what each day has in a table, in order; days that lie outside of `span` are left out."""
        dates = [date for date in self._days(table) if _touches(date, span)]
        for date, following in pairwise([*dates, None]):
            assert date is not None
            yield Piece(self._read_day(table, date, columns), _begin(following))

    def _read_day(self, table: str, date: str, columns: Sequence[str]) -> pl.DataFrame:
        for left in reversed(range(_TRIES)):
            day = self._days(table, f"date={date}/").get(date)
            if day is None:
                return pl.DataFrame(schema={name: schema(table)[name] for name in columns})
            try:
                return united(rows_of(self._store, table, day).select(*columns, WRITER).collect())
            except (FileNotFoundError, pl.exceptions.PolarsError) as error:
                if not left:
                    raise StateError(
                        f"{self._store.shown} cannot be read ({reason(error)}); check the network and that its files "
                        "are whole"
                    ) from None
        raise AssertionError

    def _days(self, table: str, below: str = "") -> dict[str, Day]:
        return {date: day for (_, date), day in days(self._store.list(f"{table}/{below}")).items()}


def rows_of(store: Store, table: str, day: Day) -> pl.LazyFrame:
    """Return the rows of a day that count, with their writers; what two writers share stands twice."""
    shape = pl.Schema({**schema(table), WRITER: pl.String()})

    def scanned(path: str) -> pl.LazyFrame:
        return pl.scan_parquet(
            store.address(path),
            schema=shape,
            glob=False,
            hive_partitioning=False,
            missing_columns="insert",  # of an older version of pimetrics
            extra_columns="ignore",  # of a newer one
        )

    merged = [scanned(file.path).filter(~pl.col(WRITER).is_in(list(day.own))) for file in day.merged]
    return pl.concat([*merged, *(scanned(file.path) for file in day.own.values())])


def united(frame: pl.DataFrame) -> pl.DataFrame:
    """Make one row of those that share a `row_id`, and forget the writers."""
    if frame["row_id"].is_duplicated().any():
        known_first = pl.all().exclude("row_id", WRITER).drop_nulls().first()
        frame = frame.sort(WRITER).group_by("row_id").agg(known_first, pl.col(WRITER).first()).select(frame.columns)
    return frame.drop(WRITER).sort("time", "row_id", nulls_last=True)


def _touches(date: str, span: Span) -> bool:
    if date == UNKNOWN_DATE:
        return span == ALWAYS  # a null time passes no comparison
    begin = _begin(date)
    assert begin is not None
    return begin <= span[1] and begin + _DAY_MS > span[0]


def _begin(date: str | None) -> float | None:
    """Return when a day begins, epoch ms; -inf where nothing tells, None after the last."""
    if date is None:
        return None
    try:
        return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() * 1000
    except ValueError:
        return -inf

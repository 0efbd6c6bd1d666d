"""Tables that are read when they are collected: polars' IO-source interface over families of files.

The interface is unstable in polars 2.x; what is used of it stands here alone and is tested: projection, predicate, row
limit, batch size, a fixed schema. A predicate on `time` leaves out whole families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import polars as pl
from polars.io.plugins import register_io_source

from pimetrics.rows import TABLES
from pimetrics.sinks.bounds import Span, time_span
from pimetrics.sinks.frames import Tables, schema

BATCH_ROWS: Final = 50_000

EARLY_MS: Final = 3_600_000
"""How much earlier than its family's first time a row may be and still be known as a repeat of another family's."""


class Piece(NamedTuple):
    """The rows of some families in one table, one family after the other.

    Many families are small, and what polars does with a frame costs more than what it does with a row.

    Attributes:
        frame: The rows.
        next_first: Earliest time in the families that follow, epoch ms; -inf where nothing tells, None after the last.
        counts: How many rows each family has; empty where the rows are not those of families.
    """

    frame: pl.DataFrame
    next_first: float | None
    counts: Sequence[int] = ()


Reader = Callable[[str, Span, list[str]], Iterable[Piece]]
"""Gives (table, span of time, columns) -> the pieces of the families that can have rows in that span, in order."""


def lazy_tables(read: Reader, *, events: bool = False) -> Tables[pl.LazyFrame]:
    """Return tables that ask `read` when they are collected."""
    wanted = (*TABLES, "events") if events else TABLES
    return Tables(**{table: _lazy(table, read) for table in wanted})


def collected(tables: Tables[pl.LazyFrame]) -> Tables[pl.DataFrame]:
    """Read all tables, in the order of `Tables`."""
    return Tables(**{table: lazy.collect().sort("time", "row_id", nulls_last=True) for table, lazy in tables.items()})


def once(pieces: Iterable[Piece]) -> Iterator[pl.DataFrame]:
    """Drop the rows that an earlier family has given out already.

    Files are grouped so that this does not happen; where the marks of files do not tell that they are kin, their facts
    still count once, though what the second file knows of them is lost. Rows are remembered only while a family that
    is still to come begins before them (or when they have no time), so memory is that of what overlaps.
    """
    seen: pl.DataFrame | None = None
    for piece in pieces:
        frame = piece.frame.unique("row_id", keep="first", maintain_order=True)
        if seen is not None and len(seen):
            frame = frame.join(seen, on="row_id", how="anti", maintain_order="left")
        if piece.next_first is not None:
            oldest = piece.next_first - EARLY_MS
            known = frame.select("row_id", pl.col("time").dt.timestamp("ms"))
            known = known if seen is None else pl.concat([seen, known])
            seen = known.filter(pl.col("time").is_null() | (pl.col("time") >= oldest))
        yield frame


def _lazy(table: str, read: Reader) -> pl.LazyFrame:
    shape = schema(table)

    def source(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = list(shape) if with_columns is None else list(with_columns)
        needed = {*names, *(predicate.meta.root_names() if predicate is not None else ()), "row_id", "time"}
        columns = [name for name in shape if name in needed]
        left = n_rows
        size = batch_size or BATCH_ROWS
        if left is not None:
            size = max(1, min(size, left))  # so that a few rows do not wait for many
        pieces = once(read(table, time_span(predicate), columns))
        for batch in _batches(pieces, size):
            frame = batch if predicate is None else batch.filter(predicate)
            frame = frame.select(names)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            if len(frame):
                yield frame
            if left == 0:
                return

    return register_io_source(
        source, schema=shape, validate_schema=True, is_pure=True, explain_name=f"pimetrics {table}"
    )


def _batches(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Yield batches of at most `rows`; small frames are put together."""
    waiting: list[pl.DataFrame] = []
    count = 0
    for frame in frames:
        for part in frame.iter_slices(rows) if len(frame) > rows else (frame,):
            if count + len(part) > rows:
                yield pl.concat(waiting)
                waiting, count = [], 0
            if len(part):
                waiting.append(part)
                count += len(part)
    if waiting:
        yield pl.concat(waiting)

"""Tables of families kept on disk while a scan lives: what has been decoded once need not be decoded again.

One Arrow file (zstd) a table for some families in a row; how many rows each has is kept in memory. Tables hold no text
of messages, so they take a few percent of the files they were made from.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from pimetrics.errors import StateError
from pimetrics.names import printable
from pimetrics.sinks.frames import Builder, schema

_SUFFIX: Final = ".arrow"

Rows = Callable[[str], Iterable[dict[str, Any]]]
"""Gives the rows of a table by its name."""


@dataclass(frozen=True)
class Spill:
    """Where the rows of some families are.

    Attributes:
        folder: Holds a file a table; none for tables without a row.
        rows: Table to rows by family, in order.
        size: Bytes of the files.
    """

    folder: Path
    rows: dict[str, list[int]]
    size: int

    def read(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """Return the rows of all families, one after the other."""
        if any(self.rows[table]):
            frame = pl.read_ipc(self.folder / f"{table}{_SUFFIX}", columns=list(columns))
            return frame.select(columns)
        return pl.DataFrame(schema={name: schema(table)[name] for name in columns})


def write_spill(folder: Path, families: Iterable[Rows], wanted: Sequence[str]) -> Spill:
    """Write the tables of families.

    Args:
        folder: Where to; made when it is missing.
        families: Each gives the rows of a table by its name, until the next family is asked for.
        wanted: Names of the tables.

    Raises:
        StateError: There is no room, or the folder cannot be written.
    """
    tables = {table: Builder(table) for table in wanted}
    counts: dict[str, list[int]] = {table: [] for table in wanted}
    for rows in families:
        for table, builder in tables.items():
            counts[table].append(builder.add(rows(table)))
    size = 0
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for table, builder in tables.items():
            if any(counts[table]):
                path = folder / f"{table}{_SUFFIX}"
                builder.frame().write_ipc(path, compression="zstd")
                size += path.stat().st_size
    except OSError as error:
        raise no_room(folder, error) from None
    return Spill(folder, counts, size)


def no_room(folder: Path, error: OSError) -> StateError:
    """Say that a scan cannot keep what it has decoded."""
    reason = "No space left on device" if error.errno == errno.ENOSPC else error.strerror or str(error)
    return StateError(
        f"{printable(str(folder))} cannot be written ({reason}); free space there, or name another folder in TMPDIR"
    )

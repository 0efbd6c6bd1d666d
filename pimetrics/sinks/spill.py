"""Tables of families kept on disk while a scan lives: what has been decoded once need not be decoded again.

One Arrow file (zstd) a table for some families in a row; how many rows each has is kept in memory. Tables hold no text
of messages, so they take a few percent of the files they were made from.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from pimetrics.errors import StateError
from pimetrics.names import printable
from pimetrics.sinks.frames import Tables, schema

_SUFFIX: Final = ".arrow"


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

    def read(self, table: str, columns: Sequence[str]) -> list[pl.DataFrame]:
        """Return the rows of each family, in order."""
        counts = self.rows[table]
        if any(counts):
            frame = pl.read_ipc(self.folder / f"{table}{_SUFFIX}", columns=list(columns))
            frame = frame.select(columns)
        else:
            frame = pl.DataFrame(schema={name: schema(table)[name] for name in columns})
        frames, at = [], 0
        for count in counts:
            frames.append(frame.slice(at, count))
            at += count
        return frames


def write_spill(folder: Path, families: Iterable[Tables[pl.DataFrame]]) -> Spill:
    """Write the tables of families.

    Raises:
        StateError: There is no room, or the folder cannot be written.
    """
    parts: dict[str, list[pl.DataFrame]] = {}
    for tables in families:
        for table, frame in tables.items():
            parts.setdefault(table, []).append(frame)
    size = 0
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for table, frames in parts.items():
            if any(len(frame) for frame in frames):
                path = folder / f"{table}{_SUFFIX}"
                pl.concat(frames).write_ipc(path, compression="zstd")
                size += path.stat().st_size
    except OSError as error:
        raise no_room(folder, error) from None
    return Spill(folder, {table: [len(frame) for frame in frames] for table, frames in parts.items()}, size)


def no_room(folder: Path, error: OSError) -> StateError:
    """Say that a scan cannot keep what it has decoded."""
    reason = "No space left on device" if error.errno == errno.ENOSPC else error.strerror or str(error)
    return StateError(
        f"{printable(str(folder))} cannot be written ({reason}); free space there, or name another folder in TMPDIR"
    )

"""An export: Parquet, one dataset a table, partitioned by the day (UTC), and a manifest of what it was made from.

Every dataset has a partition `date=unknown` for rows without a time, empty where there are none: so each can be read
and has the same schema whatever was exported (polars takes `date` for a string where one of the values is no date).

Where the files go is a `Target`'s matter: a folder of this machine (`folder`), or a lake that many hosts write
(`lake`).
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from math import inf
from typing import Any, Final

import polars as pl

from pimetrics.rows import TABLES
from pimetrics.sinks.frames import schema
from pimetrics.sinks.lazy import EARLY_MS, Piece, once

SCHEMA_VERSION: Final = 1
"""Of tables and manifest. Rises when a column goes or changes its meaning; new columns alone do not raise it."""

UNKNOWN_DATE: Final = "unknown"
MANIFEST: Final = "_manifest.json"
FILE: Final = "data.parquet"
_ASIDE: Final = ".export-"


@dataclass(frozen=True)
class Partition:
    """A file of the export: rows, bytes, hash of the bytes."""

    rows: int
    size: int
    digest: str


@dataclass(frozen=True)
class Group:
    """Files that were read together, and the dates of the rows that they gave.

    Attributes:
        sources: Path to size (bytes) and digest of the content.
        dates: Partitions that hold rows of theirs, in any table.
    """

    sources: dict[str, list[Any]]
    dates: list[str]


@dataclass
class Manifest:
    """What an export holds and what it was made from.

    Attributes:
        schema_version: See `SCHEMA_VERSION`.
        made_by: Version of pimetrics; another one may see more in the same files.
        groups: By a name made of the content.
        tables: Table to date to file.
    """

    schema_version: int
    made_by: str
    groups: dict[str, Group] = field(default_factory=dict)
    tables: dict[str, dict[str, Partition]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the file, row counts and sources ready to read."""
        return {
            "schema_version": self.schema_version,
            "made_by": self.made_by,
            "rows": {table: sum(p.rows for p in parts.values()) for table, parts in self.tables.items()},
            "groups": {name: asdict(group) for name, group in sorted(self.groups.items())},
            "tables": {
                table: {date: asdict(part) for date, part in sorted(parts.items())}
                for table, parts in self.tables.items()
            },
        }

    @staticmethod
    def from_json(found: dict[str, Any]) -> Manifest:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, AttributeError: It is something else.
        """
        return Manifest(
            found["schema_version"],
            found["made_by"],
            {name: Group(**group) for name, group in found["groups"].items()},
            {t: {date: Partition(**part) for date, part in parts.items()} for t, parts in found["tables"].items()},
        )


class Target(ABC):
    """Where an export goes, while it is written.

    Attributes:
        old: The manifest of the last export; None without one that can be used.
        written: Partitions that differ from what was there.
    """

    def __init__(self, old: Manifest | None) -> None:
        self.old = old
        self.written: dict[tuple[str, str], Partition] = {}

    def put(self, table: str, date: str, frame: pl.DataFrame) -> Partition:
        """Write a partition, unless it is there already, byte for byte; it shows after `commit`."""
        buffer = io.BytesIO()
        metadata = {"pimetrics.schema_version": str(SCHEMA_VERSION), "pimetrics.table": table}
        shaped = self.shaped(frame.sort("time", "row_id", nulls_last=True))
        shaped.write_parquet(buffer, compression="zstd", metadata=metadata)
        data = buffer.getbuffer()
        part = Partition(len(frame), len(data), blake2b(data, digest_size=16).hexdigest())
        if self.intact(table, date) and self.old is not None and self.old.tables[table][date] == part:
            return part
        self.keep(table, date, data)
        self.written[table, date] = part
        return part

    def put_all(self, table: str, pieces: Iterable[Piece], wanted: Container[str]) -> dict[str, Partition]:
        """Put the wanted partitions of a table, each as soon as no piece that is still to come can add to it."""
        made: dict[str, Partition] = {}
        waiting: dict[str, list[pl.DataFrame]] = {}

        def write(dates: Iterable[str]) -> None:
            for date in sorted(dates):
                frames = waiting.pop(date)
                if date in made:  # a row from before the first time of its family
                    frames.append(self.get(table, date))
                made[date] = self.put(table, date, pl.concat(frames))

        complete = ""

        def noted() -> Iterator[Piece]:
            nonlocal complete
            for piece in pieces:
                complete = _day_before(piece.next_first)
                yield piece

        for frame in once(noted()):
            dated = frame.with_columns(_date_column(frame).alias("date"))
            for (date,), part in dated.partition_by("date", as_dict=True, include_key=False).items():
                if date in wanted:
                    waiting.setdefault(str(date), []).append(part)
            write([date for date in waiting if date != UNKNOWN_DATE and date <= complete])
        write(list(waiting))
        return made

    def shaped(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows as they stand in a file here."""
        return frame

    @abstractmethod
    def keep(self, table: str, date: str, data: memoryview) -> None:
        """Keep the bytes of a partition aside until `commit`."""

    @abstractmethod
    def get(self, table: str, date: str) -> pl.DataFrame:
        """Return a partition that was put."""

    @abstractmethod
    def intact(self, table: str, date: str) -> bool:
        """Whether the file that the old manifest names is there, in its size."""

    @abstractmethod
    def commit(self, manifest: Manifest) -> None:
        """Show what was put, take away what no longer holds rows, and keep the manifest."""


def empty(table: str) -> pl.DataFrame:
    """Return a table without rows."""
    return pl.DataFrame(schema=schema(table))


def dates_of(piece: Piece) -> Iterator[tuple[int, str]]:
    """Yield (number of a family in the piece, partition that holds rows of it)."""
    families = pl.DataFrame({"family": range(len(piece.counts)), "rows": piece.counts}).filter(pl.col("rows") > 0)
    column = families.select(pl.col("family").repeat_by("rows").explode()).to_series()
    yield from pl.DataFrame([column, _date_column(piece.frame).alias("date")]).unique().iter_rows()


def _date_column(frame: pl.DataFrame) -> pl.Series:
    return frame["time"].dt.strftime("%Y-%m-%d").fill_null(UNKNOWN_DATE)


def _day_before(first: float | None) -> str:
    """Return the last day that lies wholly before a time, and a little more; no time is the end of all."""
    if first is None:
        return "9999-99-99"
    if first == -inf:
        return ""
    return datetime.fromtimestamp((first - EARLY_MS) / 1000 - 86_400, UTC).date().isoformat()


def parse_manifest(text: bytes | str) -> Manifest | None:
    """Return the manifest; None where it is none of this schema version, and then all is written anew."""
    try:
        found = Manifest.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if found.schema_version == SCHEMA_VERSION and found.tables.keys() >= set(TABLES) else None

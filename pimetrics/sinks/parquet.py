"""A folder of Parquet files, one dataset a table: `DIR/usage/date=2026-11-30/data.parquet`, dates in UTC.

Every dataset has a partition `date=unknown` for rows without a time, empty where there are none: so each can be read
and has the same schema whatever was exported (polars takes `date` for a string where one of the values is no date).

New files are written aside (`DIR/.export-...`) and swapped in when all are there; `_manifest.json` comes last. A crash
or a full disk before the swap leaves the old export as it was; a crash in the middle of it leaves whole files, some old
and some new, and a manifest that says so, and the next export writes all of them again.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import Any, Final

import polars as pl

from pimetrics.errors import StateError
from pimetrics.names import printable
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


class Export:
    """An export folder while it is written. Made by `exporting`."""

    def __init__(self, folder: Path, aside: Path) -> None:
        self.folder = folder
        self._aside = aside
        self.written: dict[tuple[str, str], Partition] = {}
        """Files that differ from what was there."""
        self.old = _read_manifest(folder)

    def put(self, table: str, date: str, frame: pl.DataFrame) -> Partition:
        """Write a partition aside, unless it is there already, byte for byte."""
        buffer = io.BytesIO()
        metadata = {"pimetrics.schema_version": str(SCHEMA_VERSION), "pimetrics.table": table}
        frame.sort("time", "row_id", nulls_last=True).write_parquet(buffer, compression="zstd", metadata=metadata)
        data = buffer.getbuffer()
        part = Partition(len(frame), len(data), blake2b(data, digest_size=16).hexdigest())
        if self.intact(table, date) and self.old is not None and self.old.tables[table][date] == part:
            return part
        path = self._aside / _place(table, date)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
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

    def get(self, table: str, date: str) -> pl.DataFrame:
        """Return a partition that was put."""
        base = self._aside if (table, date) in self.written else self.folder
        return pl.read_parquet(base / _place(table, date), hive_partitioning=False)

    def intact(self, table: str, date: str) -> bool:
        """Whether the file that the old manifest names is there, in its size."""
        part = self.old.tables.get(table, {}).get(date) if self.old is not None else None
        try:
            return part is not None and (self.folder / _place(table, date)).stat().st_size == part.size
        except OSError:
            return False

    def commit(self, manifest: Manifest) -> None:
        """Swap the new files in, take away those that no longer hold rows, and the manifest last."""
        begun, new = self._aside / "begun.json", self._aside / MANIFEST
        for path, content in ((begun, {"schema_version": SCHEMA_VERSION, "swapping": True}), (new, manifest.to_json())):
            with path.open("w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
        ours = (self.folder / MANIFEST).exists()  # else whatever is there was not exported by us
        if self.written:
            begun.replace(self.folder / MANIFEST)
        for table, date in sorted(self.written):
            _swap(self._aside, self.folder, _place(table, date))
        if ours:
            for table, parts in manifest.tables.items():
                for path in sorted((self.folder / table).glob(f"date=*/{FILE}")):
                    if path.parent.name.removeprefix("date=") not in parts:
                        _remove(path)
        new.replace(self.folder / MANIFEST)


@contextmanager
def exporting(folder: Path) -> Iterator[Export]:
    """Open an export folder to write; what was not committed is gone afterwards.

    Raises:
        StateError: It cannot be written, is full, or another export is writing it.
    """
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            for left in folder.glob(f"{_ASIDE}*"):
                shutil.rmtree(left, ignore_errors=True)  # of an export that was killed
            aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=folder))
            done = False
            try:
                yield Export(folder, aside)
                done = True
            finally:
                shutil.rmtree(aside, ignore_errors=True)
                if made and not done and not any(folder.iterdir()):
                    folder.rmdir()
    except OSError as error:
        where = printable(str(folder))
        raise StateError(
            f"{where} cannot be written ({error.strerror or error}); what was exported there before is unchanged, "
            "free space or name another folder in --to"
        ) from None


def empty(table: str) -> pl.DataFrame:
    """Return a table without rows."""
    return pl.DataFrame(schema=schema(table))


def dates_of(frame: pl.DataFrame) -> list[str]:
    """Return the partitions that hold rows of a frame."""
    return _date_column(frame).unique().to_list()


def _date_column(frame: pl.DataFrame) -> pl.Series:
    return frame["time"].dt.strftime("%Y-%m-%d").fill_null(UNKNOWN_DATE)


def _day_before(first: float | None) -> str:
    """Return the last day that lies wholly before a time, and a little more; no time is the end of all."""
    if first is None:
        return "9999-99-99"
    if first == -inf:
        return ""
    return datetime.fromtimestamp((first - EARLY_MS) / 1000 - 86_400, UTC).date().isoformat()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl  # noqa: PLC0415  not on Windows, where nobody keeps two exports apart
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(f"{printable(str(folder))} is being written by another export; wait for it") from None
        yield
    finally:
        os.close(descriptor)


def _read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest; None without a readable one of this schema version, and then all is written anew."""
    try:
        found = Manifest.from_json(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if found.schema_version == SCHEMA_VERSION and found.tables.keys() >= set(TABLES) else None


def _place(table: str, date: str) -> Path:
    return Path(table, f"date={date}", FILE)


def _swap(aside: Path, folder: Path, place: Path) -> None:
    """Move a file in, with as much of its folders as is not there yet: renames need no space."""
    for part in (*reversed(place.parents[:-1]), place):
        if not (aside / part).exists():
            return  # moved with its folder
        if not (folder / part).exists() or part == place:
            (aside / part).replace(folder / part)
            return


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    try:
        path.parent.rmdir()
    except OSError:
        return  # somebody keeps other files there

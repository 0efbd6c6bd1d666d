"""Reading an archive a family at a time: the wiring of `scan` and `export`.

Files are grouped into families (`sources.families`); some families in a row are decoded into a `Spill`, all their
tables on disk, in other processes when that pays. A query for one table decodes what it needs and nobody has decoded
yet; a query for the next table finds it. So decoding happens once for all tables, and memory is that of the largest
family in each process, not that of the archive.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pimetrics.api import processors
from pimetrics.errors import WrongUseError
from pimetrics.ledger.schema import is_state_file
from pimetrics.names import printable
from pimetrics.progress import Bar
from pimetrics.sinks.bounds import Span
from pimetrics.sinks.lazy import Piece
from pimetrics.sinks.spill import Spill, no_room
from pimetrics.sources.families import Family, Marks, group
from pimetrics.sources.paths import default_paths, find_files
from pimetrics.workers import Engine, Job, Local, Pool

if TYPE_CHECKING:
    import polars as pl

BATCH_BYTES: Final = 32 << 20
"""Families are decoded together until they have this many bytes."""

BATCH_FAMILIES: Final = 500

AHEAD: Final = 1
"""Batches decoded ahead of the reader, beyond one a process."""

CACHE_BYTES: Final = 4 << 30
"""Decoded tables kept on disk; beyond that the first go, and are decoded again when they are asked for."""

SLACK_MS: Final = 86_400_000
"""How far outside of the times that its files show the rows of a family may lie: as far as a message's own time is
believed against that of its entry."""

Stamp = tuple[int, int, int]


class Key(NamedTuple):
    """A family as its files were when they were looked at."""

    family: Family
    stamps: tuple[Stamp | None, ...]


class Scan:
    """An archive, read as far as queries need. Queries may run at the same time.

    Args:
        paths: Files, folders and patterns; none are pi's own folders.
        events: Also build `events`.
        processes: How many decode at once; None takes the processors there are.
        engine: Who looks at files and decodes them; None is this machine.

    Raises:
        SourceError: A path does not exist or cannot be read.
        WrongUseError: Standard input was named, which can be read only once, or a ledger of `serve`.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        events: bool = False,
        processes: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        if any(os.fspath(path) == "-" for path in paths):
            raise WrongUseError("standard input can be read only once; write it to a file and name that")
        for path in paths:
            if is_state_file(Path(path)):
                raise WrongUseError(f"{printable(str(path))} is a ledger; use read for it, it needs no second pass")
        self._paths = list(paths) or default_paths()
        self._events = events
        self._engine: Engine = engine or Local(max(1, processes or processors()))
        self._lock = threading.RLock()
        self._marks: dict[Path, tuple[Stamp | None, Marks]] = {}
        self._places: dict[Key, tuple[Future[Spill], int]] = {}
        self._batches: list[Future[Spill]] = []
        self._pool: Pool | None = None
        self._users = 0
        self._folder: Path | None = None
        self._number = 0
        self.decoded: list[Family] = []
        """The families that were decoded, as often as they were."""
        find_files(self._paths)

    @property
    def roots(self) -> list[str]:
        """What is read, as absolute paths and patterns, sorted."""
        return sorted(os.path.abspath(os.path.expanduser(os.fspath(path))) for path in self._paths)

    def families(self) -> list[Family]:
        """Return the families as the files are now; a file that has not changed is not looked at again."""
        files = find_files(self._paths)
        stamps = {path: _stamp(path) for path in files}
        marks = {path: known for path in files if (known := self._marks.get(path)) and known[0] == stamps[path]}
        fresh = [path for path in files if path not in marks]
        with Bar("looking", len(fresh)) as bar:
            for seen in self._engine.look(fresh):
                marks[seen.path] = (stamps[seen.path], seen)
                bar.advance(1)
        with self._lock:
            self._marks = marks
        return group(each for _, each in marks.values())

    def read(self, table: str, span: Span, columns: list[str]) -> Iterator[Piece]:
        """Yield what the families have in a table, in order; those that lie outside of `span` are left out."""
        return self.pieces(table, [family for family in self.families() if _touches(family, span)], columns)

    def pieces(self, table: str, families: Sequence[Family], columns: list[str]) -> Iterator[Piece]:
        """Yield what some families have in a table, in order, those in one piece that were decoded together.

        Raises:
            PimetricsError: The only file cannot be read, or there is no room for decoded tables.
        """
        with self._lock:
            keys = [self._key(family) for family in families]
            missing = sum(key.family.size for key in keys if self._place(key) is None)
        with self._working(missing) as pool, Bar("reading", missing) as bar:
            position = number = 0
            ahead: list[int] = []
            held: Future[Spill] | None = None
            while number < len(keys):
                position = max(position, number)
                ahead = [each for each in ahead if each > number]
                while position < len(keys) and len(ahead) <= pool.size + AHEAD:
                    position = self._submit(keys, position, pool, bar)
                    ahead.append(position)
                with self._lock:
                    if self._place(keys[number]) is None:  # it was decoded and has left the cache since
                        self._submit(keys, number, pool, bar)
                    future, first = self._places[keys[number]]
                    count = 1
                    for key in islice(keys, number + 1, None):
                        if self._places.get(key) != (future, first + count):
                            break
                        count += 1
                if future is not held:
                    frame, rows = self._frame(future, table, columns)
                    held = future
                number += count
                counts = rows[first : first + count]
                yield Piece(frame.slice(sum(rows[:first]), sum(counts)), _first(keys, number), counts)

    def _frame(self, future: Future[Spill], table: str, columns: list[str]) -> tuple[pl.DataFrame, list[int]]:
        spill = future.result()
        with self._lock:  # so that nobody makes room meanwhile
            frame = spill.read(table, columns)
            self._trim(future)
        return frame, spill.rows[table]

    # --- what is decoded --------------------------------------------------------------------------------------------

    def _key(self, family: Family) -> Key:
        return Key(family, tuple(self._marks[path][0] if path in self._marks else None for path in family.files))

    def _place(self, key: Key) -> tuple[Future[Spill], int] | None:
        place = self._places.get(key)
        if place is not None and place[0].done() and (place[0].cancelled() or place[0].exception() is not None):
            return None  # it was stopped; whoever needs it tries again
        return place

    def _submit(self, keys: list[Key], position: int, pool: Pool, bar: Bar) -> int:
        """See to it that some families from a position on are decoded soon; return where they end."""
        with self._lock:
            place = self._place(keys[position])
            if place is not None:
                return position + 1
            batch: list[Key] = []
            size = 0
            for key in keys[position : position + BATCH_FAMILIES]:
                if self._place(key) is not None or (batch and size + key.family.size > BATCH_BYTES):
                    break
                batch.append(key)
                size += key.family.size
            self._number += 1
            job = Job(
                [key.family.files for key in batch],
                self._home() / f"{self._number:06d}",
                self._events,
                len(self._marks) > 1,
            )
            future = pool.submit(job)
            future.add_done_callback(lambda _future: bar.advance(size))
            self._batches.append(future)
            self._places.update({key: (future, at) for at, key in enumerate(batch)})
            self.decoded += [key.family for key in batch]
            return position + len(batch)

    def _trim(self, held: Future[Spill]) -> None:
        """Keep the cache in its bounds."""
        done = [each for each in self._batches if each.done() and not each.cancelled() and each.exception() is None]
        size = sum(each.result().size for each in done)
        for future in done:
            if size <= CACHE_BYTES:
                return
            if future is not held:
                size -= future.result().size
                self._batches.remove(future)
                self._places = {key: place for key, place in self._places.items() if place[0] is not future}
                shutil.rmtree(future.result().folder, ignore_errors=True)

    def _home(self) -> Path:
        if self._folder is None:
            try:
                self._folder = Path(tempfile.mkdtemp(prefix="pimetrics-scan-"))
            except OSError as error:
                raise no_room(Path(tempfile.gettempdir()), error) from None
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    @contextmanager
    def _working(self, missing: int) -> Iterator[Pool]:
        """Lend the pool; when nobody needs it any more its processes end."""
        with self._lock:
            if self._pool is None:
                self._pool = self._engine.pool(missing)
            pool = self._pool
            self._users += 1
        try:
            yield pool
        finally:
            with self._lock:
                self._users -= 1
                last = self._users == 0
                if last:
                    self._pool = None
            if last:
                pool.close()


def _first(keys: list[Key], number: int) -> float | None:
    if number >= len(keys):
        return None
    first = keys[number].family.first
    return -inf if first is None else first


def _touches(family: Family, span: Span) -> bool:
    first, last = family.first, family.last
    if span[0] > span[1]:
        return False
    return (first is None or first - SLACK_MS <= span[1]) and (last is None or last + SLACK_MS >= span[0])


def _stamp(path: Path) -> Stamp | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_size, info.st_mtime_ns, info.st_ino

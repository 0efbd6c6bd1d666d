"""Reading a large archive for a report, with every processor: the wiring of `report`.

Families share no fact (`sources.families`), so each can be decoded in any process; what comes back are the facts
themselves, without what only merging needs. A small archive, one that is a single family, and what can be read only
once are read here. (`workers` hands tables over on disk, by way of polars, to programs of any kind; a report makes no
table, and a fork of it is at work in the time that polars takes to load.)
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pimetrics.api import Input, load, load_files, processors
from pimetrics.errors import StateError
from pimetrics.keys import Key
from pimetrics.ledger.facts import Fact
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.pipeline import Stats, no_cyclic_gc
from pimetrics.progress import Bar, watched
from pimetrics.reports.selection import Facts
from pimetrics.rows import TABLES, Part
from pimetrics.sources.families import Family, Marks, group, look
from pimetrics.sources.paths import default_paths, find_files

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

PARALLEL_BYTES: Final = 32 << 20
"""From here on other processes pay."""

_BATCH_BYTES: Final = 8 << 20
"""Families are decoded together until they have this many bytes: enough to keep processes busy, and few to wait for."""

_MOST_PROCESSES: Final = 8
"""What they find is taken in by one process, which more than these would outrun."""

_CHUNKS: Final = 200
"""Parts in which the files are looked at, about."""

_NAMED: Final = frozenset({"prompts", "turns", "usage"})
"""Tables whose facts a report calls by their key, when it lists single prompts and turns."""


class _Told(NamedTuple):
    """What one process found.

    Attributes:
        facts: Table to (key, column values, owner, name of the source).
        stats: What was read.
        duplicates: See `Facts.duplicates`.
    """

    facts: dict[str, list[tuple[Key, dict[str, Any], Part, str]]]
    stats: Stats
    duplicates: int


class Archive:
    """The facts of many families, for a report."""

    def __init__(self) -> None:
        self.stats = Stats()
        self.duplicates = 0
        self._facts: dict[str, list[tuple[Key, Fact]]] = {table: [] for table in TABLES}

    def facts(self, table: str) -> Iterator[tuple[Key, Fact]]:
        """Yield the facts of a table; those that no report calls by their key have an empty one."""
        return iter(self._facts[table])

    def add(self, told: _Told) -> None:
        """Take what another process found."""
        self.stats.add(told.stats)
        self.duplicates += told.duplicates
        for table, found in told.facts.items():
            self._facts[table] += [
                (key, Fact(values, owner, None, (owner if source == owner.source else Part(source),), 0))
                for key, values, owner, source in found
            ]


def gather(paths: Sequence[Input], *, named: bool) -> tuple[Facts, Stats]:
    """Read an archive for a report.

    Args:
        paths: As for `api.read`.
        named: Whether facts are called by their keys.

    Raises:
        SourceError: A path does not exist or cannot be read.
        StateError: A process ended early.
    """
    names = [path for path in paths if isinstance(path, (str, os.PathLike)) and os.fspath(path) != "-"]
    if len(names) < len(paths):
        ledger, pipeline = load(paths, watch=watched)
        return ledger, pipeline.stats
    files = find_files(names or default_paths())
    archive = _share(files, named=named) if _is_worth_sharing(files) else None
    if archive is not None:
        return archive, archive.stats
    ledger, pipeline = load_files(files, forgive=len(files) > 1, watch=watched)
    return ledger, pipeline.stats


def _is_worth_sharing(files: Sequence[Path]) -> bool:
    return len(files) > 1 and processors() > 1 and sum(map(_size, files)) >= PARALLEL_BYTES


def _share(files: Sequence[Path], *, named: bool) -> Archive | None:
    """Read files with several processes; None where one is to read them."""
    with _processes() as pool, no_cyclic_gc():
        if pool is None:
            return None
        batches = _batches(pool.map(look, files, chunksize=1 + len(files) // _CHUNKS))
        if len(batches) == 1:
            return None
        archive = Archive()
        sizes = [sum(family.size for family in batch) for batch in batches]
        futures = [pool.submit(_tell, [family.files for family in batch], named=named) for batch in batches]
        with Bar("reading", sum(sizes)) as bar:
            while futures:
                archive.add(futures.pop(0).result())
                bar.advance(sizes.pop(0))
        return archive


def _batches(files: Iterable[Marks]) -> list[list[Family]]:
    batches: list[list[Family]] = []
    size = 0
    for family in group(files):
        if not batches or size + family.size > _BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(family)
        size += family.size
    return batches


@contextmanager
def _processes() -> Iterator[ProcessPoolExecutor | None]:
    """Processes that run; None on a system that gives no further one, or no semaphores to share out work."""
    import multiprocessing  # noqa: PLC0415  most reports are small: they need not wait for these
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

    # A fork is ready at once. It is safe where no other thread runs, as here, and outside of Linux nobody promises it.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool: ProcessPoolExecutor | None = None
    try:
        try:
            pool = ProcessPoolExecutor(min(processors(), _MOST_PROCESSES), context, initializer=_begin)
            pool.submit(os.getpid)  # starts them; no error of theirs is taken for one of what they read
        except (OSError, NotImplementedError):
            yield None
        else:
            yield pool
    except BrokenProcessPool:
        raise StateError("a decoding process ended early; is there enough memory for the largest session?") from None
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()


def _begin() -> None:
    """Leave it to the process that asked to end at an interrupt: it ends this one too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tell(families: Iterable[Sequence[Path]], *, named: bool) -> _Told:
    """Decode families, one at a time."""
    told = _Told({table: [] for table in TABLES}, Stats(), 0)
    for files in families:
        ledger, pipeline = load_files(files, forgive=True)
        told.stats.add(pipeline.stats)
        told = told._replace(duplicates=told.duplicates + ledger.duplicates)
        owners: dict[int, Part] = {}
        for table, found in told.facts.items():
            found.extend(_facts(ledger, table, owners, named=named and table in _NAMED))
    return told


def _facts(
    ledger: MemoryLedger, table: str, owners: dict[int, Part], *, named: bool
) -> Iterator[tuple[Key, dict[str, Any], Part, str]]:
    for key, fact in ledger.facts(table):
        part = fact.owner
        owner = owners.get(id(part))
        if owner is None:
            owner = owners[id(part)] = Part(part.source, part.number)
            owner.session_id, owner.cwd, owner.time = part.session_id, part.cwd, part.time
        yield key if named else (), fact.values, owner, fact.source


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0

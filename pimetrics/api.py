"""The Python interface: `read` whatever pi wrote into tables, or `scan` what is too much to hold."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pimetrics.errors import SourceError, WrongUseError, needed
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.reading import LedgerReader
from pimetrics.ledger.schema import is_state_file
from pimetrics.names import printable
from pimetrics.pipeline import CHUNK_BYTES, Pipeline, no_cyclic_gc
from pimetrics.sources.compressed import read_chunks
from pimetrics.sources.paths import default_paths, find_files

if TYPE_CHECKING:
    import polars as pl

    from pimetrics.sinks.frames import Tables
    from pimetrics.sinks.lake.reading import Lake

Input = str | os.PathLike[str] | IO[bytes]
Sources = Iterator[tuple[str, Iterable[bytes]]]
Watch = Callable[[Sequence[Path], Sources], Sources]
"""Sees the files that will be read and the sources as they go by, to show progress."""


def read(*paths: Input, events: bool = False) -> Tables[pl.DataFrame]:
    """Read pi's event streams, recordings, RPC output and session files into tables.

    Args:
        paths: Files, folders (all `*.jsonl[.gz|.zst]` below), glob patterns, open binary files, or `-` for standard
            input; all mixed as you like. The same call found in several of them is one row. Without any: pi's own
            session folder and the recordings folder. Or, alone: the ledger of `pimetrics serve`, also while that runs;
            the address of a lake (`s3://bucket/folder`, see `pimetrics export`).
        events: Also build `events`, a row a record.

    Returns:
        Tables of polars DataFrames with the schemas of `pimetrics.rows.COLUMNS`; times are UTC with ms, durations
        seconds, money USD as pi reports it. Lines that give no record are rows of `rejects`.

    Raises:
        SourceError: A path does not exist or cannot be read.
        StateError: The ledger cannot be read.
        WrongUseError: A ledger was named together with other sources; it has the hashes of keys only.
    """
    from pimetrics.sinks.frames import tables  # noqa: PLC0415  polars is loaded when it is needed
    from pimetrics.sinks.lazy import collected, lazy_tables  # noqa: PLC0415

    lake = _lake_among(paths)
    if lake is not None:
        return collected(lazy_tables(_open_lake(lake).read))
    state = _state_among(paths)
    if state is not None:
        with LedgerReader(state) as reader, no_cyclic_gc():
            return tables(reader.rows, events=events)
    ledger, _ = load(paths, events=events)
    with no_cyclic_gc():
        return tables(ledger.rows, events=events)


def scan(*paths: Input, events: bool = False, processes: int | None = None) -> Tables[pl.LazyFrame]:
    """Read as `read` does, but lazily and a family of files at a time: memory is that of the largest family.

    Collecting (`lt.usage.filter(...).collect(engine="streaming")`) reads what the query needs. Files that can share
    facts (a stream and its session file, forks, copies) are read together, so the rows are those of `read`, in order of
    the families instead of in order of time. A filter on `time` leaves out the families that lie outside of it. What
    has been decoded is kept in a temporary folder (`TMPDIR`) for the next query, until the tables are garbage or the
    program ends; files that have changed since are read again.

    Args:
        paths: Files, folders and glob patterns, as for `read`. Without any: pi's own folders. Or the address of a
            lake, alone: of that only the days and columns that a query needs are fetched.
        events: Also build `events`, a row a record.
        processes: How many processes decode when there is much to do; None takes the processors there are.

    Returns:
        Tables of polars LazyFrames with the schemas of `pimetrics.rows.COLUMNS`.

    Raises:
        SourceError: A path does not exist or cannot be read.
        WrongUseError: An open file or standard input was given; these can be read only once.
    """
    from pimetrics.scanning import Scan  # noqa: PLC0415  polars is loaded when it is needed
    from pimetrics.sinks.lazy import lazy_tables  # noqa: PLC0415

    lake = _lake_among(paths)
    if lake is not None:
        return lazy_tables(_open_lake(lake).read)
    files = [path for path in paths if isinstance(path, (str, os.PathLike))]
    if len(files) < len(paths):
        raise WrongUseError("scan reads files more than once; use read for an open file, or give its path")
    return lazy_tables(Scan(files, events=events, processes=processes).read, events=events)


def load(
    paths: Iterable[Input], *, events: bool = False, watch: Watch | None = None, counting: bool = False
) -> tuple[MemoryLedger, Pipeline]:
    """Read sources into a ledger; the way of `read` and of the commands that read. `counting` keeps its totals."""
    ledger = MemoryLedger(counting=counting)
    pipeline = Pipeline(ledger, events=events)
    with no_cyclic_gc():
        for name, chunks in _sources(list(paths), watch):
            pipeline.run(name, chunks)
    ledger.name_directories()
    return ledger, pipeline


def _lake_among(paths: tuple[Input, ...]) -> str | None:
    lakes = [path for path in paths if isinstance(path, str) and "://" in path]
    if not lakes:
        return None
    if len(paths) > 1:
        raise WrongUseError(f"{printable(lakes[0])} is a lake; read it alone, without other sources")
    return lakes[0]


def _open_lake(url: str) -> Lake:
    with needed("lake", "obstore", "a lake"):
        from pimetrics.sinks.lake.reading import Lake  # noqa: PLC0415  an extra, needed for nothing else

    return Lake(url)


def _state_among(paths: tuple[Input, ...]) -> Path | None:
    named = [Path(os.path.expanduser(path)) for path in paths if isinstance(path, (str, os.PathLike))]
    states = [path for path in named if is_state_file(path)]
    if not states:
        return None
    if len(paths) > 1:
        raise WrongUseError(f"{printable(str(states[0]))} is a ledger; read it alone, without other sources")
    return states[0]


def load_files(
    files: Sequence[Path], *, events: bool = False, forgive: bool, watch: Watch | None = None
) -> tuple[MemoryLedger, Pipeline]:
    """Read files into a ledger; where one that cannot be read is forgiven, it costs only itself, and a warning.

    Raises:
        SourceError: A file cannot be read, and that is not forgiven.
    """
    ledger = MemoryLedger(counting=False)
    pipeline = Pipeline(ledger, events=events)
    with no_cyclic_gc():
        for name, chunks in _opened(files, forgive=forgive, watch=watch):
            pipeline.run(name, chunks)
    ledger.name_directories()
    return ledger, pipeline


def processors() -> int:
    """Return how many processes can work at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sources(paths: list[Input], watch: Watch | None) -> Sources:
    names: list[str | os.PathLike[str]] = []
    for number, path in enumerate(paths, start=1):
        if isinstance(path, (str, os.PathLike)):
            if os.fspath(path) == "-":
                yield "-", _read(sys.stdin.buffer)
            else:
                names.append(path)
        elif callable(getattr(path, "read", None)):
            yield str(getattr(path, "name", f"<file {number}>")), _read(path)
        else:
            raise TypeError(f"read takes paths and open binary files, not {type(path).__name__}")
    files = find_files(names if paths else default_paths())
    yield from _opened(files, forgive=len(files) > 1, watch=watch)


def _opened(files: Sequence[Path], *, forgive: bool, watch: Watch | None) -> Sources:
    found = ((str(file), _file(file, forgive=forgive)) for file in files)
    return watch(files, found) if watch else found


def _file(path: Path, *, forgive: bool) -> Iterator[bytes]:
    """Yield a file's bytes. One unreadable file among many costs only itself, and a warning."""
    try:
        yield from read_chunks(path, CHUNK_BYTES)
    except SourceError as error:
        if not forgive:
            raise
        print(f"pimetrics: {error}", file=sys.stderr)  # noqa: T201  the user's data must not hide that one is missing


def _read(file: IO[bytes]) -> Iterator[bytes]:
    read_some = getattr(file, "read1", file.read)  # what a pipe has, not what it takes to fill a block
    try:
        while chunk := read_some(CHUNK_BYTES):
            if not isinstance(chunk, bytes):
                raise TypeError("read takes files that are open in binary mode; open it with mode 'rb'")
            yield chunk
    except ValueError as error:
        raise SourceError(f"an open file cannot be read ({error})") from None

"""Decoding in other processes: interpreters started for it alone, which are told on standard input what to read.

They import this package and nothing of the caller. (`multiprocessing` with spawn runs the caller's `__main__` again in
every child, which breaks scripts without a guard, and fork is unsafe with polars' threads.)
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, Protocol

from pimetrics.api import load_files
from pimetrics.errors import PimetricsError, StateError
from pimetrics.pipeline import no_cyclic_gc
from pimetrics.rows import TABLES
from pimetrics.sinks.spill import Rows, Spill, write_spill
from pimetrics.sources.families import Marks, look

PARALLEL_BYTES: Final = 96 << 20
"""From here on other processes pay: each takes about half a second to start."""

_CODE = "import sys; sys.path[:] = {path!r}; from pimetrics.workers import serve; serve()"


class Job(NamedTuple):
    """Decode families, one at a time, into a folder.

    Attributes:
        families: The files of each.
        folder: Where the tables go.
        events: Also build `events`.
        forgive: Warn of a file that cannot be read, and go on.
    """

    families: Sequence[Sequence[Path]]
    folder: Path
    events: bool
    forgive: bool


def do(job: Job) -> Spill:
    """Do a job here.

    Raises:
        PimetricsError: A file cannot be read and that is not forgiven, or there is no room for the tables.
    """

    def each() -> Iterator[Rows]:
        for files in job.families:
            ledger, _ = load_files(files, events=job.events, forgive=job.forgive)
            yield ledger.rows

    with no_cyclic_gc():
        spill = write_spill(job.folder, each(), (*TABLES, "events") if job.events else TABLES)
    gc.collect()
    return spill


class Pool(Protocol):
    """Does jobs, in about the order of submission.

    Attributes:
        size: How many at once.
    """

    size: int

    def submit(self, job: Job) -> Future[Spill]:
        """Do a job soon."""

    def close(self) -> None:
        """Drop what waits."""


class Engine(Protocol):
    """Who looks at files and decodes them."""

    def look(self, paths: Sequence[Path]) -> Iterable[Marks]:
        """Yield the marks of files, in any order."""

    def pool(self, missing: int) -> Pool:
        """Return somebody to decode about so many bytes."""


class Local:
    """This machine.

    Args:
        processes: How many decode at once, when there is enough to do.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes

    def look(self, paths: Sequence[Path]) -> Iterable[Marks]:
        """Look at one after the other: it is a read of two blocks each."""
        return map(look, paths)

    def pool(self, missing: int) -> Pool:
        """Return this process, or others."""
        return LocalPool(self._processes if missing >= PARALLEL_BYTES else 1)


class LocalPool:
    """Does jobs in order of submission: in a thread of this process, or each in one of several others.

    Args:
        processes: How many; 1 stays in this process.
    """

    def __init__(self, processes: int) -> None:
        self.size = processes
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="pimetrics")
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, job: Job) -> Future[Spill]:
        """Do a job soon."""
        return self._threads.submit(do if self.size == 1 or not sys.executable else self._elsewhere, job)

    def close(self) -> None:
        """Drop what waits and end the other processes; a job in this process runs to its end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            for process in self._all:
                process.kill()
        self._threads.shutdown(wait=self.size > 1)
        for process in self._all:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _elsewhere(self, job: Job) -> Spill:
        process = self._process()
        assert process.stdin is not None
        assert process.stdout is not None
        told = {
            "families": [[str(path) for path in files] for files in job.families],
            "folder": str(job.folder),
            "events": job.events,
            "forgive": job.forgive,
        }
        try:
            process.stdin.write(json.dumps(told).encode("ascii") + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            answer = b""
        if not answer:
            raise StateError("a decoding process ended early; is there enough memory for the largest session?")
        self._idle.put(process)
        result = json.loads(answer)
        if "error" in result:
            raise StateError(result["error"])
        return Spill(job.folder, result["rows"], result["size"])

    def _process(self) -> subprocess.Popen[bytes]:
        try:
            return self._idle.get_nowait()
        except Empty:
            pass
        with self._lock:
            if self._closed:
                raise StateError("reading was stopped")
            process = subprocess.Popen(
                [sys.executable, "-c", _CODE.format(path=sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._all.append(process)
        return process


def serve() -> None:
    """Do jobs that come on standard input, one a line, until it ends."""
    try:
        for line in sys.stdin.buffer:
            told = json.loads(line)
            families = [[Path(path) for path in files] for files in told["families"]]
            try:
                spill = do(Job(families, Path(told["folder"]), told["events"], told["forgive"]))
            except PimetricsError as error:
                answer: dict[str, Any] = {"error": str(error)}
            else:
                answer = {"rows": spill.rows, "size": spill.size}
            sys.stdout.buffer.write(json.dumps(answer).encode("ascii") + b"\n")
            sys.stdout.buffer.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        return  # whoever asked is gone

"""Decoding on a Ray cluster: the jobs of `workers`, as Ray tasks.

Nothing here is distributed by hand. Ray places the tasks, runs them again when a worker or a node is lost, and brings
their results; what a task does is what one machine does. Nodes need this package installed, and see the files under
the same paths (a shared file system).
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any, Final

import ray

from pimetrics.errors import PimetricsError, StateError
from pimetrics.sinks.spill import Spill, no_room
from pimetrics.sources.families import Marks, look
from pimetrics.workers import Job, Pool, do

LOOKED_AT_ONCE: Final = 1_000
"""Files in one task that looks at them: about a second of work."""

TRIES: Final = 8
"""How often a task is run again when its worker or node was lost. (What is too large for any node ends there.)"""

Packed = tuple[dict[str, bytes], dict[str, list[int]], int]
"""Files of a spill by name, and what else it says."""


class Cluster:
    """The nodes that Ray knows.

    Args:
        address: Of the cluster's head; None takes `RAY_ADDRESS`, else starts Ray on this machine.
    """

    def __init__(self, address: str | None = None) -> None:
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
            except Exception as error:  # noqa: BLE001  Ray raises no other when a node does not come up in time
                raise StateError(
                    f"Ray cannot be reached ({error}); check RAY_ADDRESS, or start a node with ray start"
                ) from None
        self._look = ray.remote(num_cpus=1, max_retries=TRIES, scheduling_strategy="SPREAD")(_look)
        self._do = ray.remote(num_cpus=1, max_retries=TRIES, scheduling_strategy="SPREAD")(_do)

    def look(self, paths: Sequence[Path]) -> Iterator[Marks]:
        """Look at files on all nodes."""
        left = [self._look.remote(some) for some in _batched(paths, LOOKED_AT_ONCE)]
        while left:
            (done, *_), left = ray.wait(left)
            yield from ray.get(done)

    def pool(self, missing: int) -> Pool:
        """Return all nodes."""
        del missing
        return _Tasks(self._do)


class _Tasks:
    """Does jobs as tasks of a cluster."""

    def __init__(self, task: Any) -> None:
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.size = max(1, int(resources.get("CPU", 1)))
        self._task = task
        self._open: set[Any] = set()
        self._lock = threading.Lock()

    def submit(self, job: Job) -> Future[Spill]:
        """Do a job on some node; its tables come to a folder of this machine."""
        found: Future[Spill] = Future()
        ref = self._task.remote(job)
        with self._lock:
            self._open.add(ref)

        def take(packed: Future[Packed]) -> None:
            with self._lock:
                self._open.discard(ref)
            try:
                found.set_result(_unpacked(packed.result(), job.folder))
            except ray.exceptions.RayTaskError as error:
                cause = error.cause
                found.set_exception(cause if isinstance(cause, PimetricsError) else error)
            except ray.exceptions.RayError as error:
                what = f"{type(error).__name__}: {error}"
                found.set_exception(StateError(f"Ray gave up on some files ({what}); look at its nodes"))
            except PimetricsError as error:
                found.set_exception(error)

        ref.future().add_done_callback(take)
        return found

    def close(self) -> None:
        """Stop what nobody will ask for any more."""
        with self._lock:
            for ref in self._open:
                ray.cancel(ref)


def _batched(paths: Sequence[Path], size: int) -> Iterator[tuple[Path, ...]]:
    left = iter(paths)
    while some := tuple(islice(left, size)):
        yield some


def _look(paths: Sequence[Path]) -> list[Marks]:
    return [look(path) for path in paths]


def _do(job: Job) -> Packed:
    with tempfile.TemporaryDirectory(prefix="pimetrics-task-") as folder:
        spill = do(job._replace(folder=Path(folder)))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}, spill.rows, spill.size


def _unpacked(packed: Packed, folder: Path) -> Spill:
    files, rows, size = packed
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise no_room(folder, error) from None
    return Spill(folder, rows, size)

"""A Ray cluster of this machine: a head that does no work, and nodes of one CPU each, as on so many machines."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from ray import cluster_utils

from pimetrics.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from pimetrics.sinks.spill import Spill
    from pimetrics.workers import Job, Pool

T = TypeVar("T")

_STORE_BYTES = 200 << 20

_TRIES = 4
"""How often a node is started that Ray gave up on."""


class Nodes:
    """The nodes of a cluster that runs; made by `nodes`."""

    def __init__(self, cluster: cluster_utils.Cluster) -> None:
        self._cluster = cluster
        self._workers: list[Any] = []

    def add(self) -> None:
        """Add a node of one CPU."""
        node = _patiently(lambda: self._cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES))
        self._workers.append(node)

    def take_away(self) -> None:
        """Take the latest node away, as when its machine loses power."""
        self._cluster.remove_node(self._workers.pop(), allow_graceful=False)


class Watched(Cluster):
    """A cluster that calls somebody when so many tasks are done."""

    def __init__(self, then: dict[int, Callable[[], None]]) -> None:
        super().__init__()
        self._then = then
        self.done = 0

    def pool(self, missing: int) -> Pool:
        """Return all nodes, watched."""
        pool = super().pool(missing)
        submit = pool.submit

        def watched(job: Job) -> Future[Spill]:
            future = submit(job)
            future.add_done_callback(self._count)
            return future

        pool.submit = watched
        return pool

    def _count(self, _future: Future[Spill]) -> None:
        self.done += 1
        self._then.pop(self.done, lambda: None)()


def _patiently(start: Callable[[], T]) -> T:
    """Start a node, again if need be: a raylet ends when its agent, a program of Python, is not up in 15 seconds.

    That time is fixed in Ray, and a busy machine may need longer.
    """
    for _ in range(_TRIES - 1):
        try:
            return start()
        except Exception as error:  # Ray raises no other
            if "timed out during startup" not in str(error):
                raise
    return start()


@contextlib.contextmanager
def nodes(count: int) -> Iterator[Nodes]:
    """Run a cluster, and connect to it."""
    head = {
        "num_cpus": 0,
        "include_dashboard": False,
        "object_store_memory": _STORE_BYTES,
    }
    cluster = _patiently(lambda: cluster_utils.Cluster(initialize_head=True, head_node_args=head))
    try:
        running = Nodes(cluster)
        for _ in range(count):
            running.add()
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield running
        finally:
            ray.shutdown()
    finally:
        cluster.shutdown()

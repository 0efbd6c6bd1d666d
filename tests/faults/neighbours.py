"""Hostile neighbours of a `serve`: crowds that connect and are silent, and those who guess passwords."""

from __future__ import annotations

import base64
import contextlib
import http.client
import resource
import socket
import ssl
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Self

from tests.serving import Served

CROWD = 5000
FILES = 1024


@contextlib.contextmanager
def files_for(crowd: int) -> Iterator[None]:
    """Let this process open so many files, while the context is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = crowd + 500
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"this machine lets nobody open {wanted} files"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted) if soft != resource.RLIM_INFINITY else soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def served_with_few_files(arguments: Sequence[object], **options: Any) -> Served:
    """Run `serve` as one that may open 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))
    try:
        return Served(arguments, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def crowd(address: tuple[str, int], size: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connect so often, send the same first bytes each time and say no more."""
    with contextlib.ExitStack() as all_of_them:
        found = []
        for _ in range(size):
            one = all_of_them.enter_context(socket.create_connection(address, timeout=30))
            with contextlib.suppress(OSError):  # it had to go already
                one.sendall(first)
            found.append(one)
        yield found


class Guessers:
    """Threads that ask for /metrics with wrong passwords, each as fast as it is answered; a context manager."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext | None = None,
        *,
        threads: int = 8,
        source: str = "127.0.0.1",
    ) -> None:
        self.answers: Counter[int] = Counter()
        self._address, self._context, self._source = address, context, source
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._guess, args=(number,)) for number in range(threads)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for each in self._threads:
            each.join()

    def _guess(self, number: int) -> None:
        guess = 0
        while not self._enough.is_set():
            made = (
                http.client.HTTPConnection(*self._address, timeout=30, source_address=(self._source, 0))
                if self._context is None
                else http.client.HTTPSConnection(
                    *self._address, timeout=30, source_address=(self._source, 0), context=self._context
                )
            )
            with contextlib.closing(made), contextlib.suppress(OSError, http.client.HTTPException):
                while not self._enough.is_set():
                    guess += 1
                    user = "alice" if guess % 2 else f"user{guess}"
                    login = base64.b64encode(f"{user}:{number}-{guess}".encode()).decode()
                    made.request("GET", "/metrics", headers={"Authorization": f"Basic {login}"})
                    answer = made.getresponse()
                    answer.read()
                    self.answers[answer.status] += 1


def scrape_times(served: Served, times: int) -> list[float]:
    """Scrape so often, over a new connection each time; return how long each took, seconds, shortest first."""
    found = []
    for _ in range(times):
        before = time.perf_counter()
        status, page = served.ask()
        found.append(time.perf_counter() - before)
        assert status == 200
        assert "pimetrics_build_info" in page
    return sorted(found)


def figures(seconds: Sequence[float]) -> str:
    """Write times as median and maximum, milliseconds."""
    return f"{statistics.median(seconds) * 1000:.1f} ms (at most {max(seconds) * 1000:.1f})"

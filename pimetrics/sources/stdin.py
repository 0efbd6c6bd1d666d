"""Standard input as a source: what a pipe has, as soon as it has it, and never held up by what becomes of it."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

BLOCK_BYTES: Final = 1 << 18
"""At most this much at once; `read(2)` returns what is there, so a live record never waits for a block to fill."""

BUFFER_BYTES: Final = 64 << 20
"""What waits to be taken, at most."""


def read_pipe(fd: int = 0) -> Iterator[bytes]:
    """Yield what comes through a pipe until it is closed."""
    while chunk := os.read(fd, BLOCK_BYTES):
        yield chunk


class PipeBuffer:
    """What has come through a pipe and was not taken yet.

    While it is taken (`taking`), a full buffer makes the writer wait, for less than a second at any speed of ours.
    While the ledger cannot be written nothing is taken; then what does not fit is dropped, since a monitor must never
    stop what it watches. A gap is closed with a line end, so that it costs the lines it cut and no other.

    Args:
        limit: Most bytes that wait.
        wake: Called when something has come.
    """

    def __init__(self, wake: Callable[[], None], limit: int = BUFFER_BYTES) -> None:
        self._wake = wake
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._room = threading.Condition()
        self._gap = False
        self._taking = True
        self._ended = False
        self.lost_bytes = 0
        """Bytes that were dropped."""

    def put(self, chunk: bytes) -> None:
        """Add what has come; from the reading thread."""
        with self._room:
            while self._size >= self._limit and self._taking:
                self._room.wait()
            if self._size >= self._limit:
                self.lost_bytes += len(chunk)
                self._gap = True
                return
            if self._gap:
                self._gap = False
                self._chunks.append(b"\n")
            self._chunks.append(chunk)
            self._size += len(chunk)
        self._wake()

    def end(self) -> None:
        """Nothing more will come."""
        with self._room:
            self._ended = True
        self._wake()

    def taking(self, *, on: bool) -> None:
        """Say whether the buffer is being emptied."""
        with self._room:
            self._taking = on
            self._room.notify_all()

    def take(self) -> bytes | None:
        """Return the next chunk; None when nothing waits."""
        with self._room:
            if not self._chunks:
                return None
            chunk = self._chunks.popleft()
            self._size -= len(chunk)
            self._room.notify_all()
            return chunk

    @property
    def finished(self) -> bool:
        """Whether all has been taken and nothing more will come."""
        with self._room:
            return self._ended and not self._chunks

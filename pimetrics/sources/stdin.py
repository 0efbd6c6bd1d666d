"""Standard input as a source: what a pipe has, as soon as it has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

BLOCK_BYTES: Final = 1 << 18
"""At most this much at once; `read(2)` returns what is there, so a live record never waits for a block to fill."""


def read_pipe(fd: int = 0) -> Iterator[bytes]:
    """Yield what comes through a pipe until it is closed."""
    while chunk := os.read(fd, BLOCK_BYTES):
        yield chunk

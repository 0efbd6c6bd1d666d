"""What a file holds, in a word: to tell whether it has changed since, whatever its times say."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

_BLOCK_BYTES: Final = 1 << 20


class Content(NamedTuple):
    """Size in bytes as it is on disk, and hash of the content."""

    size: int
    digest: str


def content_of(path: Path) -> Content | None:
    """Read a file and say what it holds; None when it cannot be read (whoever decodes it says so)."""
    found = blake2b(digest_size=16)
    size = 0
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                found.update(block)
                size += len(block)
    except OSError:
        return None
    return Content(size, found.hexdigest())

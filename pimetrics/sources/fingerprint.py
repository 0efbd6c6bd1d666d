"""Whether the bytes that were read of a file are still there: a hash of its first block and of the last one read.

Size and times cannot tell a file that grew from one that was cut and filled again beyond the old end; pi does exactly
that when it migrates an old session file in place.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Final, NamedTuple

BLOCK_BYTES: Final = 4096


class Fingerprint(NamedTuple):
    """The first `offset` bytes of a file, by hashes of their first and last block."""

    offset: int
    head: bytes
    tail: bytes

    def fits(self, fd: int) -> bool:
        """Whether the file still begins with those bytes, as far as the hashes tell."""
        return self == take(fd, self.offset)


NOTHING: Final = Fingerprint(0, b"", b"")


def take(fd: int, offset: int) -> Fingerprint:
    """Take the fingerprint of the first `offset` bytes of an open file."""
    if not offset:
        return NOTHING
    length = min(BLOCK_BYTES, offset)
    return Fingerprint(offset, _hash(os.pread(fd, length, 0)), _hash(os.pread(fd, length, offset - length)))


def extend(known: Fingerprint, fd: int, chunk: bytes) -> Fingerprint:
    """Return the fingerprint after `chunk`, which was read at the end of `known`.

    Takes the tail from the chunk where it can: the file may be rewritten under our hands.
    """
    offset = known.offset + len(chunk)
    head = known.head if known.offset >= BLOCK_BYTES else _hash((os.pread(fd, known.offset, 0) + chunk)[:BLOCK_BYTES])
    length = min(BLOCK_BYTES, offset)
    missing = length - len(chunk)
    before = os.pread(fd, missing, known.offset - missing) if missing > 0 else b""
    return Fingerprint(offset, head, _hash(before + chunk[-length:]))


def _hash(block: bytes) -> bytes:
    return blake2b(block, digest_size=12).digest()

"""How far a file was read: what a ledger keeps so that a restart neither loses nor reads again."""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """A file as it was when its rows, up to `offset`, went to the ledger.

    Attributes:
        path: Where it was.
        dev: Device.
        ino: Inode.
        size: Bytes; with the two times, what tells that it has changed.
        mtime_ns: Time of the last change of its content.
        ctime_ns: Time of the last change of its inode; cannot be set by `touch`.
        offset: Bytes read (of a compressed file: all of them).
        head: Fingerprint of its first bytes.
        tail: Fingerprint of the bytes before the offset.
        done: 1 when it was read to a definite end.
        errors: Extension errors counted in it; they have no key.
    """

    path: str
    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    offset: int
    head: bytes
    tail: bytes
    done: int = 0
    errors: int = 0

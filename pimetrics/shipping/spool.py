"""The bytes of a recording or session file, as a receiver gets them: decompressed, whole lines at a time."""

from __future__ import annotations

import os
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from pimetrics import delivery
from pimetrics.sources.compressed import read_chunks

_FIRST_LINE_BYTES: Final = 64 * 1024


class Batch(NamedTuple):
    """What one delivery holds.

    Attributes:
        offset: Where it begins.
        data: Its bytes.
        last: Whether nothing of the file is left behind it.
    """

    offset: int
    data: bytes
    last: bool


class LongLineError(Exception):
    """A line is longer than a receiver takes."""


class Spooled:
    """One file, open for reading.

    Attributes:
        size: Its bytes, decompressed.
        age_s: How long ago it was last written, seconds.

    Args:
        path: The file; compressed by the ending of its name.
        over: Whether it has its last byte: then a last line without LF counts too.

    Raises:
        OSError: It cannot be opened.
        SourceError: It cannot be decompressed.
    """

    def __init__(self, path: Path, *, over: bool) -> None:
        self._over = over
        self.age_s = max(0, int(time.time() - path.stat().st_mtime))
        if path.name.endswith((".gz", ".zst")):
            # A file without a name: to begin somewhere in the middle, what stands before must be there as well.
            with tempfile.TemporaryFile() as plain:
                for chunk in read_chunks(path, delivery.BATCH_BYTES):
                    plain.write(chunk)
                plain.flush()
                self._fd = os.dup(plain.fileno())
        else:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        self._name = path.name.removesuffix(".gz").removesuffix(".zst")
        self.size = os.fstat(self._fd).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def stream(self, generation: int) -> str | None:
        """Name the stream by what will not change: the file's name and its first line; None before it has one."""
        head = os.pread(self._fd, _FIRST_LINE_BYTES, 0)
        line, found, _ = head.partition(b"\n")
        if not found and len(head) < _FIRST_LINE_BYTES and not (self._over and head):
            return None
        whole = b"\n".join((os.fsencode(self._name), b"%d" % generation, line))
        return blake2b(whole, digest_size=16).hexdigest()

    def before(self, offset: int) -> str:
        """Return the fingerprint of what stands before an offset."""
        return delivery.fingerprint(*(os.pread(self._fd, length, at) for at, length in delivery.edges(offset)))

    def batch(self, offset: int) -> Batch:
        """Return the next whole lines from an offset on; nothing when there are none.

        Raises:
            LongLineError: The line there can not be delivered.
        """
        size = delivery.BATCH_BYTES
        while True:
            data = os.pread(self._fd, size, offset)
            if len(data) < size and offset + len(data) >= self.size and self._over:
                return Batch(offset, data, last=True)
            cut = data.rfind(b"\n") + 1
            if cut or len(data) < size:
                return Batch(offset, data[:cut], last=offset + cut >= self.size)
            if size >= delivery.MAX_BODY_BYTES:
                raise LongLineError
            size = min(size * 4, delivery.MAX_BODY_BYTES)

"""Files that grow: new bytes of files and folders, poll by poll."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pimetrics.sources.compressed import read_chunks
from pimetrics.sources.paths import find_files


class Piece(NamedTuple):
    """New bytes of a file.

    Attributes:
        path: The file.
        chunk: Its next bytes.
        written: When they were written at the latest, Unix seconds.
        fresh: True when the file is read from its start: what was read of it before is another content.
    """

    path: Path
    chunk: bytes
    written: float
    fresh: bool


class Follower:
    """Follows files and folders.

    Args:
        paths: Files, folders and patterns, as for a read.
        block: Most bytes of one piece.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], block: int = 1 << 20) -> None:
        self._paths = list(paths)
        self._block = block
        self._known: dict[Path, tuple[int, int]] = {}  # inode and offset

    def poll(self) -> Iterator[Piece]:
        """Yield what has come since the last poll."""
        for path in find_files(self._paths):
            info = path.stat()
            inode, offset = self._known.get(path, (info.st_ino, 0))
            fresh = offset == 0
            if inode != info.st_ino or info.st_size < offset:
                offset, fresh = 0, True
            if path.suffix in {".gz", ".zst"}:
                if fresh:
                    self._known[path] = info.st_ino, info.st_size
                    for chunk in read_chunks(path, self._block):
                        yield Piece(path, chunk, info.st_mtime, fresh)
                        fresh = False
                continue
            if info.st_size == offset:
                continue
            with path.open("rb", buffering=0) as file:
                file.seek(offset)
                while chunk := file.read(self._block):
                    offset += len(chunk)
                    self._known[path] = info.st_ino, offset
                    yield Piece(path, chunk, info.st_mtime, fresh)
                    fresh = False

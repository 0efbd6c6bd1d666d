"""Bytes of a file, decompressed by its ending."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard

from pimetrics.errors import SourceError
from pimetrics.names import printable


def read_chunks(path: Path, size: int) -> Iterator[bytes]:
    """Yield a file's bytes in pieces of at most `size`.

    A compressed file that is cut or damaged gives what can be read of it; the last line is then torn, which is for
    framing to tell.

    Raises:
        SourceError: It cannot be opened or read.
    """
    try:
        with _open(path) as file:
            while chunk := file.read(size):
                yield chunk
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError):
        return
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"{printable(str(path))} cannot be read ({reason}); check its permissions") from None


def _open(path: Path) -> IO[bytes]:
    if path.name.endswith(".gz"):
        return cast("BinaryIO", gzip.open(path, "rb"))
    if path.name.endswith(".zst"):
        return cast("BinaryIO", zstandard.open(path, "rb"))
    return path.open("rb", buffering=0)

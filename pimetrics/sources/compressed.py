"""Bytes of a file, decompressed where it is compressed.

By its ending and its first bytes: a plain file that is called `.gz` or `.zst` is read as it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import zstandard

from pimetrics.errors import SourceError
from pimetrics.names import printable

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # behind one byte of 0x50 to 0x5f
MAX_BYTES: Final = 2 << 30
"""Most that is read of a compressed file, decompressed: a few KB can hold terabytes. Recordings of the wordiest dialect
of pi stay far below; a plain file is as long as it is."""

_BLOCK_BYTES: Final = 16 * 1024
"""Compressed bytes taken at once: where a file is damaged, what this much would have given is lost."""


def read_chunks(path: Path, size: int) -> Iterator[bytes]:
    """Yield a file's bytes in pieces of at most `size`.

    A compressed file that is cut or damaged, or holds more than `MAX_BYTES`, gives what can be read of it; the last
    line is then torn, which is for framing to tell.

    Raises:
        SourceError: It cannot be opened or read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            yield from chunks_of(file, path.name, size)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"{printable(str(path))} cannot be read ({reason}); check its permissions") from None


def chunks_of(file: BinaryIO, name: str, size: int) -> Iterator[bytes]:
    """Do the same for a file that is open already, without a buffer, and stands at its start.

    Raises:
        OSError: It cannot be read.
    """
    head = file.read(4) if name.endswith((".gz", ".zst")) else b""
    file.seek(0)
    if name.endswith(".gz") and head.startswith(_GZIP):
        yield from _at_most(MAX_BYTES, _gunzip(file, size))
    elif name.endswith(".zst") and (head == _ZSTD or head[1:] == _ZSTD_SKIPPABLE):
        yield from _at_most(MAX_BYTES, _unzstd(file, size))
    else:
        while chunk := file.read(size):
            yield chunk


def _at_most(left: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[:left]
        left -= len(chunk)
        if left <= 0:
            return


def _gunzip(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Unlike `gzip.GzipFile`, give out all that comes before a fault, and no more at once than was asked for."""
    member = zlib.decompressobj(wbits=31)
    while block := file.read(_BLOCK_BYTES):
        while block:
            try:
                chunk = member.decompress(block, size)
            except zlib.error:
                return
            if chunk:
                yield chunk
            if not member.eof:
                block = member.unconsumed_tail
                continue
            block = member.unused_data.lstrip(b"\x00")  # members may follow each other, with padding between
            if block[:2] != _GZIP[: len(block)]:
                return
            member = zlib.decompressobj(wbits=31)


def _unzstd(file: BinaryIO, size: int) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
        try:
            while chunk := reader.read(size):
                yield chunk
        except zstandard.ZstdError:
            return

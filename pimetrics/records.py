"""What framing hands on: records with their place in the source, or rejects that say why there is none.

Vocabulary only. Sizes are bytes, offsets count from the start of the (decompressed) source, line numbers from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_LINE_BYTES: Final = 128 * 1024 * 1024
"""Longest line that is decoded. Pi's own longest records are base64 images of a few MiB; a line above the cap is
one reject with reason `too_long` and is never held in memory."""

TAIL_BYTES: Final = 2048
"""What is held of the end of a line whose middle is dropped: `receivedAt` stands last, and before it, in pi up to 0.83,
the usage of the message so far (under 400 bytes) and a few short fields."""

INVALID_JSON: Final = "invalid_json"
NOT_OBJECT: Final = "not_object"
INVALID_UTF8: Final = "invalid_utf8"
NUL_PADDING: Final = "nul_padding"
TRUNCATED: Final = "truncated"
TOO_LONG: Final = "too_long"
BLANK: Final = b" \t\r\v\f"
"""What a line may hold and still be blank."""

REJECT_REASONS: Final = (INVALID_JSON, NOT_OBJECT, INVALID_UTF8, NUL_PADDING, TRUNCATED, TOO_LONG)


def count_lines(data: bytes) -> int:
    """Count line ends: removing single bytes looks for them with `memchr`, five times as fast as `count`."""
    return len(data) - len(data.replace(b"\n", b""))


class Record(NamedTuple):
    """One line of a source, without its LF, a CR before it, or NULs in front.

    Attributes:
        data: The bytes of the line; of a line that framing was allowed to drop, its head and `...` its tail.
        offset: Byte offset of the first byte of the line in the source.
        line_number: Physical line, from 1.
        size: Bytes of the whole line without its ending, also when the middle was dropped.
        whole: False when the middle was dropped (see `framing.Framer`).
        ended: False when the source ended before the LF came: the line may be torn.
    """

    data: bytes
    offset: int
    line_number: int
    size: int
    whole: bool = True
    ended: bool = True


class Reject(NamedTuple):
    """A physical line that gave no record. `reason` is one of `REJECT_REASONS`."""

    reason: str
    offset: int
    line_number: int
    size: int


class Block:
    """Whole lines that came in one piece and need nothing said of each: no CR or NUL in them, none of them long.

    A record a line is made only for those that somebody asks for: for a line that is skipped it would cost more than
    the skipping.

    Attributes:
        data: The lines, each with its LF, blank ones included.
        offset: Byte offset of the first one in the source.
        line_number: Physical line of the first one, from 1.
    """

    __slots__ = ("_counted", "data", "line_number", "offset")

    def __init__(self, data: bytes, offset: int, line_number: int) -> None:
        self.data = data
        self.offset = offset
        self.line_number = line_number
        self._counted = (0, line_number)  # (start, number) of the line asked for last

    def record(self, start: int) -> Record:
        """Return the line that begins at an index of `data`, with its place."""
        last, number = self._counted
        if start < last:
            last, number = 0, self.line_number
        number += count_lines(self.data[last:start])
        self._counted = (start, number)
        line = self.data[start : self.data.index(b"\n", start)]
        return Record(line, self.offset + start, number, len(line))

    def records(self) -> Iterator[Record]:
        """Yield those of its lines that are not blank."""
        offset = self.offset
        for number, line in enumerate(self.data[:-1].split(b"\n"), self.line_number):
            if line.strip(BLANK):
                yield Record(line, offset, number, len(line))
            offset += len(line) + 1

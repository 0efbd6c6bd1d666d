"""Bytes to records, cut at LF and nowhere else.

The contract: `cut(chunk)` returns what the chunk completed, many lines in a `Block` where it can; `feed(chunk)` the
same, record by record; `finish()` returns the rest. Any split of the bytes into chunks gives the same records. No I/O,
no clock, and no look inside a record: whether a line is JSON is decoding's business. Only the framer knows whether LF
came, so it alone can tell a torn last line from a bad one (`Record.ended`).

Memory is bounded by the longest line that has to be kept: a line longer than `HOLD_BYTES` is shown to the injected
`keep`, and when that says no, only its head and tail are held. A line above the cap is one reject.

U+2028, U+2029 and U+0085 are ordinary characters (pi writes them raw inside strings), so nothing here may use
`splitlines`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pimetrics.records import (
    BLANK,
    MAX_LINE_BYTES,
    NUL_PADDING,
    TAIL_BYTES,
    TOO_LONG,
    Block,
    Record,
    Reject,
    count_lines,
)

HOLD_BYTES: Final = 1024 * 1024
"""A line is shown to `keep` once it is longer than this; shorter ones are held, so that decoding can check them."""

HEAD_BYTES: Final = 64 * 1024
"""What is shown to `keep`, and held of the start of a dropped line."""

_BOM: Final = b"\xef\xbb\xbf"


def _keep_all(_head: bytes) -> bool:
    return True


class Framer:
    """Cuts one source into records.

    Args:
        keep: Called once with the head of a line longer than `HOLD_BYTES`; False drops the middle of that line
            (`Record.whole` is then False).
        max_line: Longest line in bytes; a longer one that `keep` wants is one `too_long` reject.
    """

    def __init__(self, keep: Callable[[bytes], bool] = _keep_all, max_line: int = MAX_LINE_BYTES) -> None:
        self._keep = keep
        self._max_line = max_line
        self._offset = 0  # where the unfinished line starts
        self._number = 1
        self._parts: list[bytes] = []  # the unfinished line, as it came; only its head once `_tail` is set
        self._size = 0  # bytes of the unfinished line so far
        self._asked = False
        self._tail: bytes | None = None  # its last bytes, when its middle is dropped
        self._wanted = True  # what `keep` said

    @property
    def line_start(self) -> int:
        """Offset of the first byte that has not been given out as a record or reject."""
        return self._offset

    def cut(self, chunk: bytes) -> list[Block | Record | Reject]:
        """Take the next bytes; return the lines that they complete, in order."""
        if len(chunk) > HOLD_BYTES:
            return [item for at in range(0, len(chunk), HOLD_BYTES) for item in self.cut(chunk[at : at + HOLD_BYTES])]
        out: list[Block | Record | Reject] = []
        end = chunk.rfind(b"\n") + 1
        start = 0
        while start < end and (self._size or not self._offset):  # the first line of a source may begin with a BOM
            stop = chunk.index(b"\n", start)
            out += self._line(chunk[start:stop])
            start = stop + 1
        if start < end:
            data = chunk[start:end]
            if b"\r" not in data and b"\x00" not in data:
                out.append(Block(data, self._offset, self._number))
                self._offset += len(data)
                self._number += count_lines(data)
            else:
                for line in data[:-1].split(b"\n"):
                    out += self._line(line)
        self._grow(chunk[end:])
        return out

    def feed(self, chunk: bytes) -> list[Record | Reject]:
        """Do as `cut`, with a record a line (or a reject, or nothing for a blank one)."""
        out: list[Record | Reject] = []
        for item in self.cut(chunk):
            if isinstance(item, Block):
                out += item.records()
            else:
                out.append(item)
        return out

    def finish(self) -> list[Record | Reject]:
        """The source has ended: return its last line if it had no LF. The framer is then empty."""
        return self._close(ended=False) if self._size else []

    def _line(self, line: bytes) -> list[Record | Reject]:
        """Take a line to its end, and give it out."""
        self._grow(line)
        return self._close(ended=True)

    def _grow(self, piece: bytes) -> None:
        # Once `keep` was asked, the first part holds at least the head.
        if not piece:
            return
        self._size += len(piece)
        if self._tail is not None:
            self._tail = (self._tail + piece)[-TAIL_BYTES:]
            return
        self._parts.append(piece)
        if self._size > HOLD_BYTES and not self._asked:
            self._asked = True
            head = b"".join(self._parts)
            self._parts = [head]
            self._wanted = self._keep(head[:HEAD_BYTES])
        if not self._wanted or self._size > self._max_line:
            self._tail = b"".join(self._parts[-2:])[-TAIL_BYTES:]
            self._parts = [self._parts[0][:HEAD_BYTES]]

    def _close(self, *, ended: bool) -> list[Record | Reject]:
        """Give out the unfinished line, which ends here: one item, none when it is blank."""
        parts, tail, size, wanted = self._parts, self._tail, self._size, self._wanted
        offset, number = self._offset, self._number
        self._parts, self._tail, self._size, self._wanted, self._asked = [], None, 0, True, False
        self._offset += size + (1 if ended else 0)
        self._number += 1
        if tail is None:
            line = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()  # a long line is not held twice while it is decoded
            return _items(line, offset, number, ended=ended)
        if wanted:
            return [Reject(TOO_LONG, offset, number, size)]
        return [Record(parts[0] + tail.removesuffix(b"\r"), offset, number, size, whole=False, ended=ended)]


def _items(line: bytes, offset: int, number: int, *, ended: bool) -> list[Record | Reject]:
    """Turn one physical line into a record, a reject for NULs only, or nothing for a blank line."""
    size = len(line)
    if line[-1:] == b"\r":
        line = line[:-1]
    if line[:1] != b"{":
        if offset == 0 and line.startswith(_BOM):
            line = line[3:]
        if line[:1] == b"\x00":
            stripped = line.lstrip(b"\x00" + BLANK)
            if not stripped:
                return [Reject(NUL_PADDING, offset, number, size)]
            line = stripped
        if not line.strip(BLANK):
            return []
    return [Record(line, offset, number, size, ended=ended)]

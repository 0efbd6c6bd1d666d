"""Bytes to records, cut at LF and nowhere else.

The contract: `feed(chunk)` returns what the chunk completed, `finish()` returns the rest. Any split of the bytes into
chunks gives the same records. No I/O, no clock, and no look inside a record: whether a line is JSON is decoding's
business. Only the framer knows whether LF came, so it alone can tell a torn last line from a bad one
(`Record.ended`).

Memory is bounded by the longest line that has to be kept: a line that grows past `HEAD_BYTES` is shown to the injected
`keep`, and when that says no, only its head and tail are held. A line above the cap is one reject.

U+2028, U+2029 and U+0085 are ordinary characters (pi writes them raw inside strings), so nothing here may use
`splitlines`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pimetrics.records import MAX_LINE_BYTES, NUL_PADDING, TOO_LONG, Record, Reject

HEAD_BYTES: Final = 64 * 1024
"""A line is shown to `keep` once it is longer than this; shorter ones cost less to hold than to ask about."""

TAIL_BYTES: Final = 64
"""What is held of the end of a dropped line: `receivedAt`, the one field worth having, stands last."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\v\f"


def _keep_all(_head: bytes) -> bool:
    return True


class Framer:
    """Cuts one source into records.

    Args:
        keep: Called once with the head of a line that grew past `HEAD_BYTES`; False drops the middle of that line
            (`Record.whole` is then False).
        max_line: Longest line in bytes; a longer one that `keep` wants is one `too_long` reject.
    """

    def __init__(self, keep: Callable[[bytes], bool] = _keep_all, max_line: int = MAX_LINE_BYTES) -> None:
        self._keep = keep
        self._max_line = max_line
        self._parts: list[bytes] = []  # the unfinished line, as it came
        self._held = 0  # bytes in _parts
        self._tail = b""  # last bytes of a line whose middle is dropped
        self._dropping = False
        self._too_long = False
        self._asked = False
        self._size = 0  # bytes of the unfinished line so far
        self._offset = 0  # where the unfinished line starts
        self._line = 1

    @property
    def pending(self) -> int:
        """Bytes of the unfinished last line."""
        return self._size

    @property
    def line_start(self) -> int:
        """Offset of the first byte that has not been given out as a record or reject."""
        return self._offset

    def feed(self, chunk: bytes) -> list[Record | Reject]:
        """Take the next bytes; return the lines that they complete, in order (none, one or many)."""
        out: list[Record | Reject] = []
        if not chunk:
            return out
        first = 0
        if self._size:
            cut = chunk.find(b"\n")
            if cut < 0:
                self._grow(chunk)
                return out
            self._grow(chunk[:cut])
            self._close(out, ended=True)
            first = cut + 1
        last = chunk.rfind(b"\n", first) + 1
        if last > first:
            offset, number = self._offset, self._line
            for line in chunk[first : last - 1].split(b"\n"):
                size = len(line)
                if size > self._max_line:
                    out.append(Reject(TOO_LONG, offset, number, size))
                else:
                    item = _item(line, offset, number, ended=True)
                    if item is not None:
                        out.append(item)
                offset += size + 1
                number += 1
            self._offset, self._line = offset, number
        if last < len(chunk) and (last > first or first < len(chunk)):
            self._grow(chunk[max(last, first) :])
        return out

    def finish(self) -> list[Record | Reject]:
        """The source has ended: return its last line if it had no LF. The framer is then empty."""
        out: list[Record | Reject] = []
        if self._size:
            self._close(out, ended=False)
        return out

    def _grow(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._dropping:
            self._tail = (self._tail + piece)[-TAIL_BYTES:]
            return
        self._parts.append(piece)
        self._held += len(piece)
        if self._held > HEAD_BYTES and not self._asked:
            self._asked = True
            head = b"".join(self._parts)
            self._parts = [head]
            if not self._keep(head[:HEAD_BYTES]):
                self._drop(head)
        if not self._dropping and self._held > self._max_line:
            self._too_long = True
            self._drop(b"".join(self._parts))

    def _drop(self, held: bytes) -> None:
        self._dropping = True
        self._parts = [held[:HEAD_BYTES]]
        self._tail = held[-TAIL_BYTES:]
        self._held = 0

    def _close(self, out: list[Record | Reject], *, ended: bool) -> None:
        size = self._size
        if self._too_long:
            out.append(Reject(TOO_LONG, self._offset, self._line, size))
        elif self._dropping:
            data = self._parts[0] + self._tail
            out.append(Record(data, self._offset, self._line, size, whole=False, ended=ended))
        else:
            line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts = []
            item = _item(line, self._offset, self._line, ended=ended)
            if item is not None:
                out.append(item)
        self._offset += size + (1 if ended else 0)
        self._line += 1
        self._parts, self._held, self._tail, self._size = [], 0, b"", 0
        self._dropping = self._too_long = self._asked = False


def _item(line: bytes, offset: int, number: int, *, ended: bool) -> Record | Reject | None:
    """Turn one physical line into a record, a reject for NULs only, or None for a blank line."""
    size = len(line)
    if line[-1:] == b"\r":
        line = line[:-1]
    if line[:1] != b"{":
        if offset == 0 and line.startswith(_BOM):
            line = line[3:]
        if line[:1] == b"\x00":
            stripped = line.lstrip(b"\x00" + _BLANK)
            if not stripped:
                return Reject(NUL_PADDING, offset, number, size)
            line = stripped
        if not line.strip(_BLANK):
            return None
    return Record(line, offset, number, size, ended=ended)

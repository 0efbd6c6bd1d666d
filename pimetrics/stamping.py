"""Arrival times onto lines: `record` and `serve -` append one field, `receivedAt`, to each record that they read.

Events of a stream carry no time of their own, so what a later reader can know about latencies is what was written down
when they arrived. A stamped line is still one JSON object that any pi reader accepts.

Nothing is decoded. A line is stamped when it begins with `{` and ends with `}` (a CR may follow), is no longer than
`MAX_STAMPED_BYTES`, and does not already end with a stamp; every other line passes as it is, and so does a last line
without LF, since only its LF says that it is whole. No I/O, no clock. Memory is bounded by the chunk: a line is never
held, only the `}` that may turn out to be its last.
"""

from __future__ import annotations

import re
from typing import Final

from pimetrics.records import MAX_LINE_BYTES

STAMP_KEY: Final = b'"receivedAt"'

MAX_STAMPED_BYTES: Final = MAX_LINE_BYTES - 64
"""Longest line that is stamped; the margin keeps a stamp from pushing a line over the cap of its readers."""

_TAIL: Final = 128  # more than any stamp, with blanks in between
_BLOCK: Final = 28 * 1024  # Python searches larger ones in another way, with more to prepare for each hit
_NOWHERE: Final = b"\0"  # JSON has no such byte
# The end of nearly every record; not that of a stamp, which is a number, and not that of an empty object.
_USUAL_ENDS: Final = frozenset((b'"}', b"}}", b"]}", b"e}", b"l}"))
_BLANK: Final = b" \t\r"
# A raw quote in front of the key and `}` at the end of the line: in a JSON object this can only be its own last field.
_STAMPED: Final = re.compile(
    rb'[,{][ \t\r]*"receivedAt"[ \t\r]*:[ \t\r]*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[ \t\r]*\}\Z'
)


class Stamper:
    """Stamps the lines of one source, in order.

    The bytes that come out are the bytes that went in plus stamps; with a constant clock any split into chunks gives
    the same bytes. A line bears the time of the chunk that brought its LF.

    Args:
        max_line: Longest line in bytes, LF not counted, that is stamped.
    """

    def __init__(self, max_line: int = MAX_STAMPED_BYTES) -> None:
        self._max_line = max_line
        self._size = 0  # bytes of the unfinished line so far
        self._object = False  # the unfinished line begins with {
        self._bare = False  # and holds nothing but blanks and closing braces yet,
        self._braces = 0  # so many of them
        self._tail = b""  # its last bytes
        self._held = b""  # its } or }CR at the very end, not given out yet

    @property
    def mid_line(self) -> bool:
        """Whether the last byte fed was not the LF of a line."""
        return self._size > 0

    def feed(self, chunk: bytes, now_ms: int) -> bytes:
        """Take the next bytes and give back what can be passed on of them, stamped.

        Args:
            chunk: Any bytes, of any length.
            now_ms: When they arrived, in epoch milliseconds.
        """
        stamp = b'"receivedAt":%d' % now_ms
        first = 0
        out = []
        if self._size:
            first = chunk.find(b"\n") + 1
            if not first:
                return self._grow(chunk)
            out.append(self._close(chunk[:first], stamp))
        last = chunk.rfind(b"\n") + 1
        while first < last:
            end = chunk.rfind(b"\n", first, first + _BLOCK) + 1 or chunk.find(b"\n", first) + 1
            self._lines(chunk[first : end - 1], stamp, out)
            first = end
        out.append(self._grow(chunk[first:]))
        return b"".join(out)

    def finish(self) -> bytes:
        """The source has ended: give back what was held of its last line, unstamped. The stamper is then empty."""
        held = self._held
        self._size, self._tail, self._held = 0, b"", b""
        return held

    def _lines(self, lines: bytes, stamp: bytes, out: list[bytes]) -> None:
        """Stamp whole lines, given without the last LF: all at once where they are of the usual form.

        Where a line ends in `}}`, which is no stamp's end, and the next begins with `{"`, one replacement does both.
        Searching for that is slow, since brackets are everywhere. So each LF first becomes many bytes that are nowhere,
        which makes for a long needle; and one as long as what replaces it is replaced in place.
        """
        if _NOWHERE not in lines and len(lines) <= self._max_line:
            end = b"," + stamp + b"}\n"
            wide = _NOWHERE * (len(end) - 1)
            pieces = lines.replace(b"\n", wide).replace(b"}}" + wide + b'{"', b"}" + end + b'{"').split(wide)
            shortened = [
                piece[:-1]
                for piece in pieces
                if piece[:2] == b'{"'
                and (piece[-2:] in _USUAL_ENDS or (piece[-1:] == b"}" and not _ends_stamped(piece[-_TAIL:])))
            ]
            if len(shortened) == len(pieces):
                out += end.join(shortened), end
                return
        for line in lines.split(b"\n"):
            out += self._line(line, stamp), b"\n"

    def _line(self, line: bytes, stamp: bytes) -> bytes:
        """Stamp one whole line, given without its LF, if it is one to stamp."""
        if line[-2:] in _USUAL_ENDS and line[:2] == b'{"' and len(line) <= self._max_line:
            return line[:-1] + b"," + stamp + b"}"
        if line[:1] != b"{" or len(line) > self._max_line:
            return line
        end = b"\r" if line[-1:] == b"\r" else b""
        inner = line[: -1 - len(end)]
        if line[len(inner) :] != b"}" + end or _ends_stamped(line[-_TAIL:]):
            return line
        comma = b"," if inner[1:].strip(_BLANK) else b""
        return inner + comma + stamp + b"}" + end

    def _grow(self, piece: bytes) -> bytes:
        """Take a piece of a line that has no LF yet; hold back a closing brace at its end."""
        if not piece:
            return b""
        if not self._size:
            self._object = piece[:1] == b"{"
            self._bare = self._object
            self._braces = 0
            inside = piece[1:]
        else:
            inside = piece
        self._size += len(piece)
        if not self._object:
            return piece
        out = self._held + piece if self._held else piece
        if self._size > self._max_line:
            self._object = False
            self._held = b""
            return out
        self._remember(piece, inside)
        if out.endswith(b"}"):
            self._held = b"}"
        elif out.endswith(b"}\r"):
            self._held = b"}\r"
        else:
            self._held = b""
            return out
        return out[: -len(self._held)]

    def _remember(self, piece: bytes, inside: bytes) -> None:
        """Keep what the end of the line will be judged by; `inside` is the piece without the first brace."""
        if self._bare:
            self._bare = not inside.strip(_BLANK + b"}")
            self._braces += inside.count(b"}")
        self._tail = piece[-_TAIL:] if len(piece) >= _TAIL else (self._tail + piece)[-_TAIL:]

    def _close(self, ending: bytes, stamp: bytes) -> bytes:
        """Take the rest of a line that began in an earlier block, with its LF."""
        out = self._held + ending
        rest = ending[:-1]
        if self._object and self._size + len(rest) <= self._max_line:
            self._remember(rest, rest)
            end = b"\r\n" if self._tail.endswith(b"\r") else b"\n"
            if out.endswith(b"}" + end) and not _ends_stamped(self._tail):
                at = len(out) - len(end) - 1
                out = out[:at] + (b"" if self._bare and self._braces == 1 else b",") + stamp + out[at:]
        self.finish()
        return out


def _ends_stamped(tail: bytes) -> bool:
    return STAMP_KEY in tail and _STAMPED.search(tail.removesuffix(b"\r")) is not None

"""Framing: lines end at LF, and nowhere else."""

from __future__ import annotations

import pytest

from pimetrics import framing
from pimetrics.framing import Framer
from pimetrics.records import NUL_PADDING, TOO_LONG, Record, Reject

LINES = {
    "LF ends a line": (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    "a CR before it is dropped": (b'{"a":1}\r\n', [b'{"a":1}']),
    "only one CR is": (b'{"a":1}\r\r\n', [b'{"a":1}\r']),
    "a lone CR ends nothing": (b'{"a":"x\ry"}\n', [b'{"a":"x\ry"}']),
    "U+2028, U+2029 and U+0085 are characters": (
        '{"a":"\u2028\u2029\u0085"}\n'.encode(),
        ['{"a":"\u2028\u2029\u0085"}'.encode()],
    ),
    "a BOM at the start of a file passes": (b'\xef\xbb\xbf{"a":1}\n', [b'{"a":1}']),
    "anywhere else it is part of the line": (b'{"a":1}\n\xef\xbb\xbf{"b":2}\n', [b'{"a":1}', b'\xef\xbb\xbf{"b":2}']),
    "blank lines pass": (b'\n  \n\t\r\n{"a":1}\n\n', [b'{"a":1}']),
    "NULs before a record are stripped": (b'\x00\x00{"a":1}\n', [b'{"a":1}']),
    "a last line without LF is given at the end": (b'{"a":1}\n{"b"', [b'{"a":1}', b'{"b"']),
    "nothing is nothing": (b"", []),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_lines(name: str, step: int) -> None:
    """Each case gives its lines, in chunks of any size."""
    data, want = LINES[name]
    framer = Framer()
    found = [item for i in range(0, len(data), step) for item in framer.feed(data[i : i + step])] + framer.finish()
    assert [item.data for item in found if isinstance(item, Record)] == want
    assert len(found) == len(want)


def test_places_count_every_physical_line() -> None:
    """Offsets and line numbers are those of the file, blank lines and rejects included."""
    framer = Framer()
    found = [*framer.feed(b'\n{"a":1}\r\n\x00\x00\n{"b":2}'), *framer.finish()]
    assert found == [
        Record(b'{"a":1}', 1, 2, 8),
        Reject(NUL_PADDING, 10, 3, 2),
        Record(b'{"b":2}', 13, 4, 7, ended=False),
    ]
    assert framer.line_start == 20


def test_a_line_over_the_cap_is_one_reject() -> None:
    """Over the cap a line is counted and not held; the next line is read as ever."""
    framer = Framer(max_line=2 * framing.HOLD_BYTES)
    long = b"x" * (3 * framing.HOLD_BYTES)
    found = framer.feed(long) + framer.feed(b"tail\n{}\n")
    assert found == [Reject(TOO_LONG, 0, 1, len(long) + 4), Record(b"{}", len(long) + 5, 2, 2)]


def test_a_long_line_that_nobody_wants_is_dropped() -> None:
    """Its head and tail stay; `keep` is asked once, with the head."""
    asked: list[bytes] = []

    def keep(head: bytes) -> bool:
        asked.append(head)
        return False

    framer = Framer(keep)
    line = b"h" * framing.HOLD_BYTES + b"m" * 5_000_000 + b"t" * framing.TAIL_BYTES
    found = [item for i in range(0, len(line), 100_000) for item in framer.feed(line[i : i + 100_000])] + framer.feed(
        b"\r\n"
    )
    (record,) = found
    assert isinstance(record, Record)
    assert (record.whole, record.size, record.line_number) == (False, len(line) + 1, 1)
    assert record.data.startswith(b"h" * framing.HEAD_BYTES)
    assert record.data.endswith(b"t" * (framing.TAIL_BYTES - 1))
    assert asked == [b"h" * framing.HEAD_BYTES]

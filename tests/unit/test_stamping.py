"""What a stamped line looks like, and which lines are left alone."""

import json
import os
import time

import pytest

from pimetrics.stamping import MAX_STAMPED_BYTES, Stamper

NOW = 1796065800000
STAMP = b'"receivedAt":1796065800000'


def stamped(data: bytes, **kwargs: int) -> bytes:
    stamper = Stamper(**kwargs)
    return stamper.feed(data, NOW) + stamper.finish()


def test_a_record_gets_the_stamp_as_its_last_field():
    """The stamp stands last and everything before it is untouched, odd spacing included."""
    assert stamped(b'{"type": "a" , "x":{}}\n') == b'{"type": "a" , "x":{},' + STAMP + b"}\n"


def test_every_line_of_a_block_is_stamped():
    """Lines of the usual form, many in one chunk, all get it."""
    lines = [b'{"n":%d,"s":"}{"}' % n for n in range(1000)]
    out = stamped(b"\n".join(lines) + b"\n").split(b"\n")
    assert out == [line[:-1] + b"," + STAMP + b"}" for line in lines] + [b""]


@pytest.mark.parametrize("body", [b"{}", b"{ }", b"{ \t }", b"{\r}", b"{" + b" " * 300 + b"}"])
def test_an_empty_object_gets_no_comma(body):
    """An object without fields stays valid JSON."""
    for data in (body + b"\n", b'{"a":1}\n' + body + b'\n{"b":2}\n'):
        for line in stamped(data).splitlines() if b"\r" not in body else stamped(data).split(b"\n")[:-1]:
            assert json.loads(line)["receivedAt"] == NOW


@pytest.mark.parametrize("body", [b'{"a":1}', b"{}"])
def test_a_cr_stays_behind_the_brace(body):
    """CRLF lines stay CRLF lines."""
    out = stamped(body + b"\r\n")
    assert out.endswith(b"}\r\n")
    assert json.loads(out)["receivedAt"] == NOW


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"installing packages...",
        b'[{"a":1}]',
        b' {"a":1}',
        b'\xef\xbb\xbf{"a":1}',
        b'\x00{"a":1}',
        b'{"a":1} ',
        b'{"a":1',
        b"{",
        b"}",
        b"{\r",
        b'{"a":1}\r\r',
        b'{"a":1}\x00',
    ],
)
def test_other_lines_pass_as_they_are(line):
    """Stray text, blanks, torn lines and lines with something around the object are not touched."""
    data = b'{"a":1}\n' + line + b'\n{"b":2}\n'
    middle = stamped(data).split(b"\n")[1]
    assert middle == line
    assert stamped(line) == line


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"a","receivedAt":1700000000000}',
        b'{"receivedAt":1700000000000}',
        b'{"type": "a", "receivedAt": 1700000000000 }',
        b'{"type":"a","receivedAt":1.7e12}',
    ],
)
def test_a_stamp_that_is_there_stays(line):
    """Recording a recording changes nothing, by itself or between lines to stamp, with LF or CRLF."""
    assert stamped(line + b"\n") == line + b"\n"
    assert stamped(line + b"\r\n") == line + b"\r\n"
    between = stamped(b'{"a":1}\n' + line + b'\n{"b":2}\n').split(b"\n")
    assert between[1] == line
    assert STAMP in between[0]
    assert STAMP in between[2]


@pytest.mark.parametrize(
    "line",
    [
        b'{"entry":{"receivedAt":5}}',
        b'{"text":"x,\\"receivedAt\\":5"}',
        b'{"receivedAt":5,"type":"a"}',
        b'{"x,\\"receivedAt":5}',
        b'{"receivedAt":null}',
        b'{"receivedAtAll":5}',
    ],
)
def test_what_only_looks_like_a_stamp_is_none(line):
    """A key deeper down, inside a string, in front, or without a number does not count as a stamp."""
    out = stamped(line + b"\n")
    assert out == line[:-1] + b"," + STAMP + b"}\n"
    json.loads(out)


def test_a_torn_last_line_passes_and_loses_nothing():
    """Without LF nobody can know that a line is whole, so even one that looks so is left alone."""
    assert stamped(b'{"a":{"b":1}') == b'{"a":{"b":1}'
    assert stamped(b'{"a":1}\r') == b'{"a":1}\r'


def test_a_line_bears_the_time_of_its_lf():
    """A line that comes in pieces is stamped with the time at which its end came."""
    stamper = Stamper()
    out = stamper.feed(b'{"a":', 1) + stamper.feed(b"1}", 2) + stamper.feed(b'\n{"b":2}\n', 3)
    assert [json.loads(line)["receivedAt"] for line in out.splitlines()] == [3, 3]


def test_pieces_pass_at_once():
    """Nothing of a line is held back but a brace that may be its last."""
    stamper = Stamper()
    assert stamper.feed(b'{"a":"half', 1) == b'{"a":"half'
    assert stamper.feed(b' of it"}', 1) == b' of it"'
    assert stamper.mid_line
    assert stamper.feed(b"\r", 1) == b""
    assert stamper.feed(b"\n", 1) == b',"receivedAt":1}\r\n'
    assert not stamper.mid_line
    assert stamper.feed(b"prompt}", 1) == b"prompt}"


def test_over_long_lines_pass_as_they_are():
    """A line above the cap is not stamped, however it comes; the next one is."""
    long = b'{"a":"' + b"x" * 100 + b'"}'
    data = long + b'\n{"b":1}\n'
    expected = long + b'\n{"b":1,' + STAMP + b"}\n"
    assert stamped(data, max_line=100) == expected
    stamper = Stamper(max_line=100)
    assert b"".join(stamper.feed(data[n : n + 1], NOW) for n in range(len(data))) == expected
    assert STAMP in stamped(long + b"\n", max_line=len(long))


def test_memory_stays_flat_on_a_line_of_a_gigabyte():
    """A line far above the cap passes piece by piece and is never held."""
    import tracemalloc

    stamper = Stamper()
    piece = b'{"a":"' + b"x" * (1 << 20)
    tracemalloc.start()
    total = sum(len(stamper.feed(piece, NOW)) for _ in range(1024))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 1024 * len(piece) > MAX_STAMPED_BYTES
    assert peak < 8 << 20


def test_throughput_figure(capsys):
    """Stamping costs about as much as a copy (the figure is printed; noise never fails it)."""
    line = b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"' + b"x" * 160 + b'"}}\n'
    usual = line * 4000
    odd = (line * 9 + b"stray text\n") * 400
    with capsys.disabled():
        for name, data in (("usual lines", usual), ("with stray text", odd)):
            stamper = Stamper()
            start = time.perf_counter()
            for _ in range(20):
                out = stamper.feed(data, NOW)
            rate = 20 * len(data) / (time.perf_counter() - start) / 1e6
            os.write(2, f"\nstamping, {name}: {rate:.0f} MB/s\n".encode())
            assert out.count(b"receivedAt") == data.count(b"}}\n")

"""Stamping does not depend on how the bytes were cut, and adds stamps only."""

import itertools
import re

from hypothesis import example, given
from hypothesis import strategies as st

from pimetrics.stamping import Stamper

NOW = 1796065800000
LINES = st.one_of(
    st.sampled_from(
        [
            b"", b"{}", b"{ }", b"{}\r", b"{", b"}", b"{}}", b"{{}", b"{\r", b'{"a":1}', b'{"a":1}\r', b'{"a":{}}',
            b'{"a":1}\r\r', b'{"a":1,"receivedAt":5}', b'{"receivedAt":5}\r', b'{"receivedAt": 5 }', b"stray }",
            b'{"a":"' + b"x" * 150 + b'"}', b'{"a":' + b" " * 140 + b'1,"receivedAt":5}', b" {}", b'{"a":[]}{"b":1}',
            b'{"receivedAt"' + b" " * 130 + b":5}", b'{"a":"\xe2\x80\xa8"}', b"\x00\x00{}",
        ]
    ),
    st.text('{}\r "a:1,', max_size=12).map(str.encode),
    st.binary(max_size=20).map(lambda b: b"{" + b.replace(b"\n", b"") + b"}"),
)  # fmt: skip
STREAMS = st.tuples(st.lists(LINES, max_size=8), LINES).map(lambda t: b"".join(n + b"\n" for n in t[0]) + t[1])


def one_line(line: bytes, max_line: int) -> bytes:
    """The rule of the design, written the slow way."""
    body = line.removesuffix(b"\r")
    if not re.fullmatch(rb"\{.*\}", body, re.DOTALL) or len(line) > max_line:
        return line
    if re.search(
        rb'[,{][ \t\r]*"receivedAt"[ \t\r]*:[ \t\r]*-?\d+(\.\d+)?([eE][+-]?\d+)?[ \t\r]*\}\Z',
        line[-128:].removesuffix(b"\r"),
    ):
        return line
    comma = b"" if re.fullmatch(rb"\{[ \t\r]*\}", body) else b","
    return body[:-1] + comma + b'"receivedAt":%d}' % NOW + line[len(body) :]


def reference(data: bytes, max_line: int) -> bytes:
    *whole, torn = data.split(b"\n")
    return b"".join(one_line(line, max_line) + b"\n" for line in whole) + torn


@given(data=STREAMS, cuts=st.lists(st.integers(0, 400), max_size=12), max_line=st.sampled_from([5, 20, 160, 1 << 20]))
@example(data=b'{"a":1}\r\n{}\n', cuts=list(range(13)), max_line=1 << 20)
def test_any_split_gives_the_bytes_of_the_rule(data, cuts, max_line):
    """Fed in any pieces, the output is what the rule says for each line, byte for byte."""
    stamper = Stamper(max_line=max_line)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    out = b"".join([stamper.feed(piece, NOW) for piece in pieces]) + stamper.finish()
    assert out == reference(data, max_line)


@given(data=STREAMS)
def test_stamping_twice_is_stamping_once(data):
    """A recording of a recording is that recording."""
    first = Stamper()
    once = first.feed(data, NOW) + first.finish()
    second = Stamper()
    assert second.feed(once, NOW + 1) + second.finish() == once

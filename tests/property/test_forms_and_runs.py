"""Lines that are read in part, and runs of updates: whatever is done to their bytes, they give what decoding in full gives.

`test_shortcut_and_backends` reads record by record (`events=True`); here lines come in blocks, as a file gives them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimetrics.decoding import batch
from pimetrics.decoding.parse import Backend, Object, parse
from pimetrics.decoding.shortcut import contents
from pimetrics.records import Record
from tests.scribe import DIALECTS, Answer, Call, Plan, Prompt, play
from tests.strategies import PLANS, TEXTS, splits
from tests.support import Recording, assert_same, decode, lines, read, recordings, to_json

NASTY = st.sampled_from(
    (
        b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\t", b"\r", b"\x00", b"\x1f", b"\x7f", b"\xff", b"\xc3", b"0",
        b"-", b"e9", b".", b"null", b"1e400", b"12345678901234567890", b'","', b'":"', b'"},{"', b'\\"', b"\\\\", b"\\x",
        b"\\ud83d", b"\\u00e9", b"],", b'],"api":"', b',"isError":true', b',"type":"agent_end"', "\u2028".encode(), b"{}",
    )
)  # fmt: skip


def same(data: bytes) -> None:
    """Assert that rows and counts are those of decoding in full."""
    assert_same(read(data), read(data, shortcut=False))


@cache
def real_lines() -> list[list[bytes]]:
    """Return the lines of every recording and session file, a list a source."""
    sources = [each.stamped() for each in recordings()] + [each.stream() for each in recordings()]
    sources += [path.read_bytes() for each in recordings() for path in each.session_paths]
    return [source.split(b"\n") for source in sources]


VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')

OTHER_VALUES = st.sampled_from(
    (
        b'""', b'"a"', b"0", b"-1", b"1.5", b"1E400", b"-0.0", b"01", b"1.", b"99999999999999999999", b"null", b"true", b"{}", b"[]",
        b'{"a":1,"a":2}', b'"\\ud83d"', b'"\\ud83d\\ude00"', b'"\\/"', b'"\\u0041"', b'"a\\\\"', b"NaN", b'"\xff"', b'"\t"', b"946684799999",
        b"1796065800000.5", b"01796065800000", b"123456789012345678", b'"type"', b'"role"', b'"user"', b'"r\\u006fle"',
    )
)  # fmt: skip


def spoil(data: st.DataObject, line: bytes, others: list[bytes]) -> bytes:
    """Return a real line with one fault: bytes, a value or a key changed, a pair twice, torn, glued or fused."""
    kind = data.draw(st.sampled_from(("bytes", "value", "value", "pair", "torn", "glued", "fused")))
    at = data.draw(st.integers(0, len(line)))
    if kind == "bytes":
        return change(data, line)
    if kind == "torn":
        return line[:at]
    if kind == "glued":
        return line[:at] + data.draw(st.sampled_from(others))
    if kind == "fused":
        return line + data.draw(st.sampled_from((b"", b" ", b"\r", b"\x00", b","))) + data.draw(st.sampled_from(others))
    found = list((PAIR if kind == "pair" else VALUE).finditer(line))
    if not found:
        return line
    one = data.draw(st.sampled_from(found))
    if kind == "value":
        return line[: one.start()] + data.draw(OTHER_VALUES) + line[one.end() :]
    pair = one[1] + b":" + data.draw(OTHER_VALUES | st.just(one[2]))
    where = data.draw(st.sampled_from(found)).end()
    return line[:where] + b"," + pair + line[where:]


PAIR = re.compile(rb'("[A-Za-z]+"):("[^"\\]*"|[0-9.]+|true|false)')


@settings(max_examples=400)
@given(st.data())
def test_faults_in_real_lines_are_seen(data: st.DataObject) -> None:
    """A part of a recording, with a fault in some lines, gives what decoding each record in full gives."""
    source = data.draw(st.sampled_from(real_lines()))
    first = data.draw(st.integers(0, len(source) - 1))
    part = source[first : first + data.draw(st.sampled_from((2, 5, 20)))]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(part) - 1))
        part[at] = spoil(data, part[at], part)
    whole = b"\n".join(part)
    want = read(whole, shortcut=False)
    assert_same(read(whole), want)
    if data.draw(st.booleans()):
        assert_same(read(data.draw(splits(whole, 3))), want)


def change(data: st.DataObject, line: bytes, start: int = 0) -> bytes:
    """Return a line in which some bytes behind `start` were put in, taken out or replaced."""
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(start, len(line)))
        gone = data.draw(st.sampled_from((0, 0, 1, 2, 9)))
        line = line[:at] + data.draw(NASTY | st.just(b"")) + line[at + gone :]
    return line


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_of_a_session_file_is_seen(data: st.DataObject) -> None:
    """Nothing of a session file is skipped: a fault anywhere in it gives the same rows and rejects as without."""
    file = play(data.draw(PLANS)).file
    at = data.draw(st.integers(0, len(file) - 1))
    file[at] = change(data, file[at])
    same(lines(*file))


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_of_a_text_that_is_left_out_is_seen(data: st.DataObject) -> None:
    """The same where no text is too short to be left out; sizes are those of the decoded texts."""
    file = play(data.draw(PLANS)).file
    at = data.draw(st.sampled_from([i for i, line in enumerate(file) if b'"content":' in line]))
    if data.draw(st.booleans()):
        thinking = to_json({"type": "thinking", "thinking": data.draw(TEXTS), "thinkingSignature": data.draw(TEXTS)})
        file[at] = file[at].replace(b'"content":[{', b'"content":[' + thinking + b",{")
    if data.draw(st.booleans()):
        file[at] = change(data, file[at], file[at].index(b'"content":'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "LONG_BYTES", 0)
        patch.setattr(contents, "LONG_CONTENT", 0)
        same(lines(*file))


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_of_a_stream_is_seen(data: st.DataObject) -> None:
    """The same for a stream: what is skipped was proved to be a record."""
    stream = play(data.draw(PLANS)).stream
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] = change(data, stream[at])
    same(lines(*stream))


def shuffled(data: st.DataObject, value: Any) -> Any:
    """Return a value with the keys of some of its objects in another order."""
    if isinstance(value, list):
        return [shuffled(data, each) for each in value]
    if not isinstance(value, dict):
        return value
    keys = data.draw(st.permutations(list(value))) if data.draw(st.integers(0, 3)) == 0 else list(value)
    return {key: shuffled(data, value[key]) for key in keys}


@settings(max_examples=100)
@given(st.data())
def test_other_orders_and_other_writers_give_the_same(data: st.DataObject) -> None:
    """Keys in another order, other escapes and other spacing are read in full, with the same result."""
    session = play(data.draw(PLANS))
    out = []
    for line in data.draw(st.sampled_from((session.file, session.stream))):
        raw = json.loads(line)
        spaced = data.draw(st.sampled_from((None, None, None, (", ", ": "))))
        raw = shuffled(data, raw) if data.draw(st.booleans()) else raw
        out.append(json.dumps(raw, separators=spaced).encode() if spaced else to_json(raw))
    same(lines(*out))


ODD_VALUES = st.sampled_from(
    (None, 0, -1, 1.5, 2**53, 10**16, 1e300, "7", "", 'a"b\\', "\ud83d", True, [], {}, [1], {"a": 1})
)


@settings(max_examples=150)
@given(st.data())
def test_odd_values_give_the_same(data: st.DataObject) -> None:
    """A value of another type or out of range in any place of a message is what it is without the shortcut."""
    file = [json.loads(line) for line in play(data.draw(PLANS)).file]
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(file)
    for holder, key in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        holder[key] = data.draw(ODD_VALUES)
    same(b"".join(to_json(each) + b"\n" for each in file))


@settings(max_examples=60)
@given(st.data())
def test_runs_of_updates_do_not_depend_on_blocks(data: st.DataObject) -> None:
    """A run told as one event gives what its updates give one by one: any dialect, stamped or not, LF or CRLF, torn."""
    answers = st.builds(
        Answer,
        text=TEXTS,
        updates=st.integers(0, 12),
        calls=st.sampled_from(((), (Call(),))),
        stop=st.sampled_from(("stop", "aborted")),
    )
    prompts = tuple(Prompt(answers=(answer,)) for answer in data.draw(st.lists(answers, min_size=1, max_size=3)))
    plan = Plan(dialect=data.draw(st.sampled_from(DIALECTS)), prompts=prompts, stamps=data.draw(st.booleans()))
    whole = play(plan).stream_bytes
    if data.draw(st.integers(0, 3)) == 0:
        whole = whole.replace(b"\n", b"\r\n")
    whole = whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole
    want = read(whole, shortcut=False)
    assert_same(read(whole), want)
    assert_same(read(data.draw(splits(whole))), want)


@pytest.mark.parametrize("recording", recordings(), ids=lambda r: r.id)
def test_a_recording_in_blocks_gives_the_same(recording: Recording) -> None:
    """Streams and session files of every recording in one piece give what decoding each record in full gives."""
    same(recording.stamped())
    for path in recording.session_paths:
        same(path.read_bytes())


def test_what_pi_writes_is_not_decoded_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forms fit what a current pi writes: of its messages, tools and updates no line is decoded in full."""
    seen: list[bytes] = []

    def spy(records: Sequence[Record], backend: Backend) -> list[list[Object] | str]:
        seen.extend(record.data for record in records)
        return parse(records, backend)

    monkeypatch.setattr(batch, "parse", spy)
    answer = Answer(text='He said "no"\n', calls=(Call(), Call(outcome="error")), stop="toolUse", updates=5)
    session = play(Plan(prompts=(Prompt(answers=(answer, Answer(updates=3))),)))
    assert decode(session.file_bytes).records["message"] == 6
    assert decode(session.stream_bytes).records["message_update"] == 8
    rest = {line[: line.index(b'"', 9)] for line in seen if b'"role":"system"' not in line}
    assert rest == {b'{"type":"agent_settled'}


@pytest.mark.parametrize(
    "line", [b'{"type":"agent_start}', b'{"type":"session_', b'{"type":"message_end', b'{"type":"', b"{"]
)
def test_a_line_without_the_end_of_its_type_is_a_reject(line: bytes) -> None:
    """A line torn inside its type is one reject, wherever it stands."""
    same(lines(b'{"type":"turn_start"}', line, b'{"type":"turn_start"}'))
    assert read(lines(b'{"type":"turn_start"}', line)).stats.rejects == {"invalid_json": 1}

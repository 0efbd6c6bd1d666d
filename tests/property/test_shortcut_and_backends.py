"""Two ways to the same rows: the shortcut on or off, and both ijson backends."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scribe import Plan, play
from tests.strategies import GARBAGE, PLANS, TEXTS
from tests.support import CASES, Recording, Result, assert_same, lines, read, recordings, to_json

CASE_FILES = sorted(CASES.glob("*.jsonl"))

_UPDATE_B = b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"b"}}'


def both(data: bytes) -> tuple[Result, Result]:
    return read(data, events=True), read(data, events=True, shortcut=False)


@pytest.mark.parametrize("recording", recordings(), ids=lambda r: r.id)
def test_the_shortcut_changes_nothing_in_a_recording(recording: Recording) -> None:
    """Rows, totals and counts by type of every recording are the same with the shortcut on and off."""
    on, off = both(recording.stamped())
    assert_same(on, off)


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda p: p.name)
def test_the_shortcut_changes_nothing_in_a_case(path: object) -> None:
    """The same for the inputs of the public reports."""
    on, off = both(path.read_bytes())
    assert_same(on, off)


def damage(data: st.DataObject, good: list[bytes]) -> list[bytes]:
    """Return a stream with torn, fused, glued, lost, repeated and swapped lines."""
    out = list(good)
    for _ in range(data.draw(st.integers(0, 5))):
        at = data.draw(st.integers(0, len(out) - 1))
        line = out[at]
        other = out[data.draw(st.integers(0, len(out) - 1))]
        cut = data.draw(st.integers(0, len(line)))
        kind = data.draw(
            st.sampled_from(("torn", "headless", "fused", "glued", "lost", "again", "moved", "junk", "crlf", "empty"))
        )
        if kind == "torn":
            out[at] = line[:cut]
        elif kind == "headless":
            out[at] = line[cut:]
        elif kind == "fused":
            out[at] = line + data.draw(st.sampled_from((b"", b" ", b"\t"))) + other
        elif kind == "glued":  # the rest of a line was lost together with its end
            out[at] = line[:cut] + other
        elif kind == "lost":
            out[at] = b""
        elif kind == "again":
            out.insert(at, other)
        elif kind == "moved":
            out.insert(at, out.pop(data.draw(st.integers(0, len(out) - 1))))
        elif kind == "junk":
            out.insert(at, data.draw(GARBAGE)[0])
        elif kind == "crlf":
            out[at] = line + b"\r"
        else:
            out[at] = line + b"{}"
    return out


@settings(max_examples=150)
@given(st.data())
def test_the_shortcut_changes_nothing_in_damaged_streams(data: st.DataObject) -> None:
    """The same for generated streams that were torn, fused, glued, repeated and put out of order."""
    whole = b"".join(line + b"\n" for line in damage(data, play(data.draw(PLANS)).stream))
    on, off = both(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    assert_same(on, off)


@given(text=TEXTS)
@example(text='{"type":"agent_end"')
def test_text_that_looks_like_records_is_text(text: str) -> None:
    """A whole record inside a string is never taken for one."""
    delta = to_json({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": text}})
    on, off = both(lines(delta, {"type": "turn_start"}))
    assert_same(on, off)
    assert on.stats.records == {"message_update": 1, "turn_start": 1}


REPEATS = {
    "the first message_end is broken in the same way as its repeats": (
        b'{"type":"agent_start"}',
        b'{"type":"message_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":NaN}}}',
        b'{"type":"turn_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":NaN}},"toolResults":[]}',
        b'{"type":"agent_end","messages":[{"role":"assistant","timestamp":1796065800000,"usage":{"input":NaN}}],"willRetry":false}',
    ),
    "an agent_end that repeats nothing, then a turn_end that does": (
        b'{"type":"message_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}}}',
        b'{"type":"agent_end","messages":[],"willRetry":false}',
        b'{"type":"turn_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}},"toolResults":[]}',
    ),
    "a run begins on a fused line": (
        b'{"type":"message_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}}}',
        b'{"type":"turn_start"}{"type":"agent_start"}',
        b'{"type":"turn_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}},"toolResults":[]}',
    ),
    "a run begins on a line in another form": (
        b'{"type":"message_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}}}',
        b' {"type":"agent_start"}',
        b'{"type":"turn_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}},"toolResults":[]}',
    ),
    "a header in RPC form with its type last": (
        b'{"type":"message_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}}}',
        b'{"id":"x","type":"session"}',
        b'{"type":"turn_end","message":{"role":"assistant","timestamp":1796065800000,"usage":{"input":1}},"toolResults":[]}',
    ),
    "an impossible arrival stamp": (
        b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta"},"receivedAt":999999999999999}',
        b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta"},"receivedAt":0}',
    ),
    "an empty object behind a skipped record": (
        b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta"}}{}',
        b'{"type":"tool_execution_update","toolCallId":"a"}{}',
    ),
    "a torn update with another glued to it": (
        b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"a:' + _UPDATE_B,
        b'{"type":"message_update","assistantMessageEvent":' + _UPDATE_B,
    ),
}


@pytest.mark.parametrize("name", REPEATS)
@pytest.mark.parametrize("apart", [False, True], ids=["one chunk", "a chunk a line"])
def test_the_shortcut_knows_its_limits(name: str, apart: bool) -> None:
    """Where the bytes of a repeat prove nothing, the shortcut gives way to decoding."""
    chunks = [line + b"\n" for line in REPEATS[name]]
    given_as = chunks if apart else b"".join(chunks)
    assert_same(read(given_as, events=True), read(given_as, events=True, shortcut=False))


@pytest.mark.parametrize("recording", recordings(r"/(unicode_text|rpc_errors|killed9|threshold)$"), ids=lambda r: r.id)
def test_both_backends_agree_on_recordings(recording: Recording) -> None:
    """The C and the Python backend of ijson give the same rows; half emojis and a torn end included."""
    whole = recording.stream()
    assert_same(read(whole, backend="yajl2_c", shortcut=False), read(whole, backend="python", shortcut=False))


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda p: p.name)
def test_both_backends_agree_on_cases(path: object) -> None:
    """The same for the inputs of the public reports."""
    whole = path.read_bytes()
    assert_same(read(whole, backend="yajl2_c"), read(whole, backend="python"))


_ODD_VALUES = st.sampled_from(
    (
        "1", "-0", "01", "+1", "1.", ".5", "-.5", "-.0", "1.e5", "1e5", "1E+5", "1e400", "-1e400",
        "12345678901234567890", "9" * 400, "1" + "0" * 5000,
        "NaN", "Infinity", "-Infinity", "true", "tru", "null", "nul", '"a', '"\\ud83d"', '"\\ud83d\\ude00"', '"\\uDE00"', '"\\x"',
        '"\\u12"', '"\t"', '"\x7f"', '"\u2028"', "[]", "[1,]", "[,1]", "{}", '{"a":1,}', "{a:1}", "'a'", "/*c*/1", "1//c", "--1",
        "1 2", "\u00a01", "\x0c1", "\x0b1", "\ufeff1", "1e", "1e+", "-", "0x10", "1_000", "\u0661", '"\\"', '"\\\\"', "2" * 19, "1.5e-400",
    )
)  # fmt: skip


@settings(max_examples=250)
@given(
    st.lists(_ODD_VALUES, min_size=1, max_size=3),
    st.sampled_from(('{"type":"turn_start","x":%s}', "%s", '{"usage":{"input":%s}}', '{"type":"turn_start"}%s')),
)
def test_both_backends_agree_on_odd_json(values: list[str], frame: str) -> None:
    """Records and reject reasons do not depend on the backend, nor on the company that a line keeps."""
    physical = [(frame % value).encode() for value in values]
    whole = b"".join(line + b"\n" for line in physical)
    c, python = read(whole, backend="yajl2_c"), read(whole, backend="python")
    assert_same(c, python)
    if any(value.startswith("\ufeff") for value in values):
        return  # at the start of a file a BOM passes, so the company matters
    alone = [read(line + b"\n", backend="yajl2_c") for line in physical]
    assert sum(sum(each.stats.records.values()) for each in alone) == sum(c.stats.records.values())
    assert sum((each.stats.rejects for each in alone), start=type(c.stats.rejects)()) == c.stats.rejects


@given(st.lists(_ODD_VALUES, min_size=1, max_size=4))
def test_what_python_json_reads_is_read(values: list[str]) -> None:
    """A line that the json module of Python reads strictly is never rejected."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    for value in values:
        text = '{"type":"turn_start","x":' + value + "}"
        try:
            json.loads(text, parse_constant=refuse, parse_int=float)
        except (ValueError, RecursionError):
            continue
        assert not read(text.encode() + b"\n").stats.rejects, text


def test_a_plan_is_played_alike_twice() -> None:
    """The model is deterministic, so a failing example can be repeated."""
    assert play(Plan()).stream == play(Plan()).stream

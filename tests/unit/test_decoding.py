"""Decoding: lines to events, and what becomes of a line that is none."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from pimetrics.decoding import fields
from pimetrics.decoding.parse import find_backend, parse
from pimetrics.events import Header, MessageEnd, RunStart, SessionAnswered, SessionSwitched, TurnStart, UsageEntry
from pimetrics.records import Record
from tests.support import decode, lines, to_json

REJECTS = {
    "stray text": (b"npm warn", "invalid_json"),
    "half a record with its LF": (b'{"type":"turn_start"', "invalid_json"),
    "text behind a record": (b'{"type":"turn_start"} ok', "invalid_json"),
    "an open string behind a record": (b'{"type":"turn_start"}"a}', "invalid_json"),
    "NaN is not JSON": (b'{"type":"turn_start","x":NaN}', "invalid_json"),
    "an array": (b"[{}]", "not_object"),
    "a number": (b"17", "not_object"),
    "bytes that are no UTF-8": (b'{"type":"turn_start","x":"\xff"}', "invalid_utf8"),
    "a NUL inside": (b'{"type":"turn_\x00start"}', "invalid_json"),
}


@pytest.mark.parametrize("backend", ["yajl2_c", "python"])
@pytest.mark.parametrize("name", REJECTS)
def test_a_bad_line_is_one_reject(name: str, backend: str) -> None:
    """Each kind has its reason, with any backend, alone or in company."""
    line, reason = REJECTS[name]
    good = {"type": "turn_start"}
    found = decode(lines(good, line, good), backend=backend)
    assert [(r.reason, r.line_number) for r in found.rejects] == [(reason, 2)]
    assert found.events == [TurnStart(None), TurnStart(None)]


@pytest.mark.parametrize("backend", ["yajl2_c", "python"])
@pytest.mark.parametrize("end", [b"", b'{"type":"turn_start"}', b"\\"])
def test_a_line_torn_in_a_text_full_of_quotes_is_soon_done(end: bytes, backend: str) -> None:
    """A text of a megabyte, as of a JSON file that was read: looking at it again behind each quote would take hours."""
    line = b'{"type":"message","message":{"role":"user","content":"' + rb"\"a\":1," * 150_000 + end
    start = time.process_time()
    found = decode(line + b"\n" + lines({"type": "turn_start"}), backend=backend)
    assert time.process_time() - start < 5
    assert [each.reason for each in found.rejects] == ["invalid_json"]
    assert found.events == [TurnStart(None)]


def test_a_torn_last_line_is_truncated() -> None:
    """Only a last line without LF is truncated; one that parses is a record."""
    assert [r.reason for r in decode(b'{"type":"turn_start"}\n{"type":"tu').rejects] == ["truncated"]
    assert decode(b'{"type":"turn_start"}').events == [TurnStart(None)]


def test_fused_records_are_read_and_counted() -> None:
    """Whole objects back to back on one line are several records."""
    found = decode(b'{"type":"agent_start"} {"type":"turn_start"}\n{"type":"agent_start"}\n')
    assert found.events == [RunStart(None), TurnStart(None), RunStart(None)]
    assert (found.fused, found.records) == (1, {"agent_start": 2, "turn_start": 1})


@pytest.mark.parametrize("backend", ["yajl2_c", "python"])
def test_values_are_built_the_same_without_paths(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a line gives does not depend on how deep or long it is."""
    texts = [
        *(line for line, _ in REJECTS.values()),
        b'{"a":{"b":[1,[],{},[[{"c":null}]]],"d":""},"a":{"e":true}} {} {"f":[-0.0,1e400,12345678901234567890,1.5]}',
        b'{"half":"\\ud83d","":{"":[false]}}',
        b'{"open":[{"a":1}',
        b'{"a":1}]',
        b"[]",
        b"{}",
    ]
    records = [Record(text, 0, 1, len(text), ended=ended) for text in texts for ended in (True, False)]
    expected = repr(parse(records, find_backend(backend)))
    monkeypatch.setitem(parse.__globals__, "_PLAIN_BYTES", 0)
    monkeypatch.setitem(parse.__globals__, "_PLAIN_BRACKETS", 0)
    assert repr(parse(records, find_backend(backend))) == expected


@pytest.mark.parametrize("backend", ["yajl2_c", "python"])
def test_half_emojis_become_replacement_characters(backend: str) -> None:
    """A lone surrogate costs its own character, never the record."""
    raw = {"type": "session", "id": "a\ud83d", "cwd": "\U0001f600\udc00", "version": 3}
    (event,) = decode(lines(to_json(raw)), backend=backend).events
    assert event == Header("a\ufffd", "\U0001f600\ufffd", None, 3, None)


UNKNOWN = {
    "a new record type": ({"type": "moon_phase"}, {"record": 1}),
    "no type at all": ({"x": 1}, {"record": 1}),
    "a type that is no text": ({"type": 7}, {"record": 1}),
    "a new entry type of a session file": ({"type": "moon", "id": "a", "parentId": None}, {"entry": 1}),
    "a new role": ({"type": "message_end", "message": {"role": "moon"}}, {"role": 1}),
    "a new stop reason": (
        {"type": "message_end", "message": {"role": "assistant", "stopReason": "moon"}},
        {"stop_reason": 1},
    ),
    "a new field of a message": ({"type": "message_end", "message": {"role": "user", "moon": 1}}, {"field": 1}),
    "a message that is none": ({"type": "message_end", "message": 3}, {"field": 1}),
    "a new kind of usage entry": ({"type": "usage", "id": "a", "parentId": None, "kind": "moon"}, {"usage_kind": 1}),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_things_are_counted(name: str) -> None:
    """What this version does not know is normal input: counted by kind, never rejected."""
    raw, want = UNKNOWN[name]
    found = decode(lines(raw))
    assert found.unknown == want
    assert not found.rejects


USAGES: dict[str, tuple[Any, Any]] = {
    "absent": (None, None),
    "no number in it": ({"input": None, "cost": {}}, None),
    "no object": ("many", None),
    "zeros count": ({"input": 0}, (0, None, None)),
    "whole floats are counts": ({"input": 5.0, "cost": {"total": 1}}, (5, 1.0, False)),
    "a negative count is none": ({"input": -5, "output": 1}, (None, None, False)),
    "a count beyond JavaScript's integers is none": ({"input": 2**53, "output": 1}, (None, None, False)),
    "a boolean is no number": ({"input": True, "output": 1}, (None, None, False)),
    "a text is no number": ({"input": "5", "output": 1}, (None, None, False)),
    "a negative cost is invalid": ({"input": 1, "cost": {"total": -0.5}}, (1, None, True)),
    "so is one beyond any bill": ({"input": 1, "cost": {"total": 1e30}}, (1, None, True)),
    "a cost of null is absent": ({"input": 1, "cost": {"total": None}}, (1, None, False)),
}


@pytest.mark.parametrize("name", USAGES)
def test_usage(name: str) -> None:
    """A usage object that holds at least one number is a usage; each part stands for itself."""
    raw, want = USAGES[name]
    found = fields.usage(raw, Counter())
    if want is None:
        assert found is None
    else:
        assert found is not None
        assert (found.input, found.cost, found.cost_invalid or want[2]) == (want[0], want[1], want[2])


TIMES = {
    "2026-11-30T19:10:00.577Z": 1796065800577,
    "2026-11-30T19:10:00Z": 1796065800000,
    "2026-11-30T20:10:00+01:00": 1796065800000,
    "2026-11-30T19:10:00": 1796065800000,
    1796065800000: 1796065800000,
    "yesterday": None,
    "": None,
    -1: None,
    0: None,
    10**18: None,
    True: None,
    None: None,
}


@pytest.mark.parametrize("raw", TIMES)
def test_times(raw: Any) -> None:
    """ISO texts and epoch ms are times, in UTC where no zone is named; anything else is none."""
    want = None if raw is True else TIMES[raw]
    assert fields.time_iso(raw) == want


def test_rpc_responses_tell_only_the_session() -> None:
    """A fork that was cancelled or failed changes nothing, and messages that a response repeats are not messages."""
    found = decode(
        lines(
            {"id": "1", "type": "response", "command": "get_state", "success": True, "data": {"sessionId": "s"}},
            {"type": "response", "command": "fork", "success": True, "data": {"cancelled": False}},
            {"type": "response", "command": "fork", "success": True, "data": {"cancelled": True}},
            {"type": "response", "command": "clone", "success": False, "error": "no"},
            {
                "type": "response",
                "command": "get_messages",
                "success": True,
                "data": {"messages": [{"role": "assistant", "usage": {"input": 9}}]},
            },
        )
    )
    assert found.events == [SessionAnswered("s"), SessionSwitched()]
    assert found.records == {"response": 5}


def test_entries_shown_in_a_stream_have_no_place_in_its_tree() -> None:
    """Only paid work is taken from `entry_appended`: a message entry repeats a message."""
    entry = {"type": "usage", "id": "a", "parentId": "b", "kind": "cache_warm", "usage": {"input": 1}}
    repeat = {"type": "message", "id": "a", "parentId": "b", "message": {"role": "user"}}
    found = decode(lines({"type": "entry_appended", "entry": entry}, {"type": "entry_appended", "entry": repeat}))
    (event,) = found.events
    assert isinstance(event, UsageEntry)
    assert event.entry is None


def test_a_message_of_a_file_has_its_entry() -> None:
    """A `message` entry is a settled message with a place in the tree."""
    (event,) = decode(lines({"type": "message", "id": "a", "parentId": None, "message": {"role": "user"}})).events
    assert isinstance(event, MessageEnd)
    assert event.entry is not None
    assert (event.entry.id, event.entry.parent_id) == ("a", None)

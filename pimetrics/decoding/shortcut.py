"""A cheap look at the bytes of a record that decides whether it has to be decoded at all.

Most bytes of a stream are updates that a later record supersedes, and `turn_end` / `agent_end` repeat, byte for byte,
messages that `message_end` brought (measured: in all 810 such records of 160 recordings). This module recognises them
by their first bytes and makes the same events that decoding them would, so it is only an optimisation: switched off,
rows and counts are the same, and a property test holds that.

What makes it safe:

- an unescaped quote never stands inside a JSON string, so a pattern with quotes can only be structure;
- a record is skipped only when it is sound as far as bytes can tell: it ends with `}`, is UTF-8, holds no NUL, its
  braces and quotes come in pairs, and no object begins where none can begin (a torn record, or one with another glued
  to it, fails this; a record with odd braces in its text does too, and is only slower);
- a repeat is skipped only when the repeated bytes equal those seen (by length and 64-bit hash);
- anything in another form than pi writes is decoded in full;
- decoding tells what it found (`agrees`): where a record that begins or ends a run, or settles a message, was not what
  its first bytes said (fused, broken, keys in another order), the batch is decoded again without the shortcut.

What it does not see: a fault inside the body of a skipped record that keeps all of the above. Such a record counts by
its type, where decoding would have rejected the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pimetrics.decoding.fields import time_ms
from pimetrics.events import Event, Message, MessageStart, MessageUpdate, RunEnd, TurnEnd, Usage
from pimetrics.records import TAIL_BYTES, Record

_TYPE: Final = b'{"type":"'
_UPDATE: Final = b'{"type":"message_update",'
_STEP: Final = b'"assistantMessageEvent":{"type":"'
_USAGE: Final = b'"usage":{"'
_START: Final = b'{"type":"message_start","message":{"role":"'
_END: Final = b'{"type":"message_end","message":'
_TURN_END: Final = b'{"type":"turn_end","message":'
_TURN_RESULTS: Final = b',"toolResults":['
_RUN_END: Final = b'{"type":"agent_end","messages":['
_STEP_WITHIN: Final = 700
"""The longest `usage` object that pi writes is under 400 bytes."""

_STATEFUL: Final = frozenset({"session", "agent_start", "agent_end", "message_end"})
"""Types that decide what counts as a repeat, here and in reducing."""

_STATEFUL_BYTES: Final = frozenset(kind.encode() for kind in _STATEFUL)

_MISPLACED: Final = re.compile(
    rb'\{"(?:(?<![:,\[]\{")|(?:id":"[^"]*",")?type":"(?:message_|turn_|agent_|tool_execution_|bash_execution_|auto_'
    rb'|compaction_|queue_|entry_|session|summarization_|thinking_level_|extension_|response"|custom))'
)
"""An object that begins where none can begin, or as only whole records do. (One search that starts with two literal
bytes is four times as fast as counting.)"""

_TAIL_USAGE: Final = re.compile(rb'"usage":(\{"[^{}]*(?:\{[^{}]*\})?[^{}]*\})')

_STAMP: Final = re.compile(rb',"receivedAt":([0-9]{1,15})\}$')
_RUN_TAIL: Final = re.compile(rb'\](?:,"willRetry":(true|false))?(?:,"receivedAt":[0-9]{1,15})?\}')
_TURN_TAIL: Final = re.compile(rb'\](?:,"receivedAt":[0-9]{1,15})?\}')

DROPPABLE: Final = frozenset({b"message_update", b"tool_execution_update", b"bash_execution_update"})
"""Types whose bodies are never needed: framing may drop them however long they are."""

_SILENT_ROLES: Final = frozenset({b"user", b"toolResult", b"system", b"custom"})

Skim = tuple[str, Event | None]


class Shortcut:
    """Looks at records in the order of their source.

    Args:
        load_message: Decodes a `message_start` line when somebody needs what it held.
        load_usage: Decodes a `message_update` line when somebody needs its usage.
    """

    def __init__(
        self, load_message: Callable[[bytes], Message | None], load_usage: Callable[[bytes], Usage | None]
    ) -> None:
        self._load_message = load_message
        self._load_usage = load_usage
        self._ended: list[tuple[int, int]] = []  # (length, hash) of the message_end bodies of this run
        self._answer = -1  # index in it of the last assistant message

    @staticmethod
    def keep(head: bytes) -> bool:
        """Tell framing whether a long line has to be held: no, when its body is never needed."""
        return _type_of(head) not in DROPPABLE

    def look(self, record: Record) -> Skim | None:
        """Return (type, event or None) of a record that need not be decoded; None when it must be."""
        data = record.data
        if not data.startswith(_TYPE) or (record.whole and not record.ended):
            return None
        kind = data[9 : data.find(b'"', 9, 60)]
        if kind == b"message_update":
            return self._update(record) if record.whole else self._dropped(record)
        if not record.whole:
            return (kind.decode(), None) if _ends(data) else None
        if kind == b"message_end":
            self._note(data)
            return None
        if kind == b"turn_end":
            return self._turn_end(data)
        if kind == b"message_start":
            return self._message_start(data)
        if kind == b"agent_end":
            return self._run_end(data)
        if kind in DROPPABLE:
            return (kind.decode(), None) if _sound(data) else None
        if kind in {b"agent_start", b"session"}:
            self.forget()
        return None

    def look_at_dropped(self, record: Record) -> Skim | None:
        """Do as `look` for a record whose middle is gone; every other one must be decoded."""
        return None if record.whole else self.look(record)

    @staticmethod
    def agrees(record: Record, kinds: list[str]) -> bool:
        """Whether the types that decoding found on a line are what the first bytes said, where that matters."""
        seen = _type_of(record.data)
        if len(kinds) == 1 and kinds[0] not in _STATEFUL and seen not in _STATEFUL_BYTES:
            return True
        return [k for k in kinds if k in _STATEFUL] == ([seen.decode()] if seen in _STATEFUL_BYTES else [])

    def forget(self) -> None:
        """Take nothing that comes for a repeat of what came."""
        self._ended.clear()
        self._answer = -1

    def _update(self, record: Record) -> Skim | None:
        data = record.data
        at = data.find(_STEP, 25, _STEP_WITHIN)
        if at < 0 or (at != 25 and data[25 : 25 + len(_USAGE)] != _USAGE) or not _sound(data):
            return None
        at += len(_STEP)
        is_delta = data[at : data.find(b'"', at, at + 40)].endswith(b"_delta")
        return "message_update", MessageUpdate(lambda: self._load_usage(data), is_delta, stamp(data))

    def _dropped(self, record: Record) -> Skim | None:
        if not _ends(record.data):
            return None
        data = record.data
        at = data.find(_STEP, 25, _STEP_WITHIN)
        step = b"" if at < 0 else data[at + len(_STEP) : data.find(b'"', at + len(_STEP), at + len(_STEP) + 40)]
        # The usage stands at the head (from 0.84.2), before that in the message at the tail; what is between is gone.
        if data[25 : 25 + len(_USAGE)] == _USAGE and at > 0:
            reported = data[25 : at - 1]
        else:
            found = _TAIL_USAGE.findall(data[-TAIL_BYTES:])
            reported = b'"usage":' + found[-1] if found else b""
        line = b'{"type":"message_update",%b}' % reported
        load = (lambda: self._load_usage(line)) if reported else (lambda: None)
        return "message_update", MessageUpdate(load, step.endswith(b"_delta"), stamp(data))

    def _message_start(self, data: bytes) -> Skim | None:
        role = data[len(_START) : data.find(b'"', len(_START), len(_START) + 20)] if data.startswith(_START) else b""
        if role == b"assistant" and _sound(data):
            return "message_start", MessageStart(lambda: self._load_message(data), stamp(data))
        return ("message_start", None) if role in _SILENT_ROLES and _sound(data) else None

    def _note(self, data: bytes) -> None:
        if not data.startswith(_END):
            return
        stamped = _STAMP.search(data, max(0, len(data) - 40))
        body = data[len(_END) : stamped.start() if stamped else -1]
        if body.startswith(b'{"role":"assistant"'):
            self._answer = len(self._ended)
        self._ended.append((len(body), hash(body)))

    def _turn_end(self, data: bytes) -> Skim | None:
        if self._answer < 0 or not data.startswith(_TURN_END):
            return None
        at = self._match(data, len(_TURN_END), [self._ended[self._answer]])
        if at < 0 or not data.startswith(_TURN_RESULTS, at):
            return None
        at = self._match(data, at + len(_TURN_RESULTS), self._ended[self._answer + 1 :])
        if at < 0 or not _TURN_TAIL.fullmatch(data, at):
            return None
        return "turn_end", TurnEnd((), stamp(data))

    def _run_end(self, data: bytes) -> Skim | None:
        at = self._match(data, len(_RUN_END), self._ended) if data.startswith(_RUN_END) else -1
        self.forget()
        tail = _RUN_TAIL.fullmatch(data, at) if at >= 0 else None
        if tail is None:
            return None
        will_retry = tail.group(1)
        return "agent_end", RunEnd((), None if will_retry is None else will_retry == b"true", stamp(data))

    @staticmethod
    def _match(data: bytes, at: int, bodies: list[tuple[int, int]]) -> int:
        """Return where the comma-separated bodies that should stand at `at` end, or -1."""
        for index, (length, digest) in enumerate(bodies):
            if index:
                if data[at : at + 1] != b",":
                    return -1
                at += 1
            if hash(data[at : at + length]) != digest:
                return -1
            at += length
        return at


def stamp(data: bytes) -> int | None:
    """Return the arrival stamp that stands last in a record, epoch ms."""
    found = _STAMP.search(data, max(0, len(data) - 40))
    return time_ms(int(found.group(1))) if found else None


def _type_of(head: bytes) -> bytes:
    end = head.find(b'"', 9, 60) if head.startswith(_TYPE) else -1
    return head[9:end] if end > 0 else b""


def _ends(data: bytes) -> bool:
    return data[-1:] == b"}"


_BEFORE_NO_END: Final = (b"{", b" ", b"\t", b"\r")
"""What stands before the last brace only when another object, an empty one, was fused to the record."""


def _sound(data: bytes) -> bool:
    if data[-1:] != b"}" or data[-2:-1] in _BEFORE_NO_END or b"\x00" in data:
        return False
    if data.count(b"{") != data.count(b"}") or _MISPLACED.search(data, 1):
        return False
    quotes = data.count(b'"') - (data.count(b'\\"') if b"\\" in data else 0)
    if quotes % 2:
        return False
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

"""Records that say again what `message_end` says: `message_start` before it, `turn_end` and `agent_end` after it.

A repeat is skipped only when the repeated bytes equal those of the `message_end` records of its run, by length and
64-bit hash (their bodies may be large, and a run long). A `message_start` is skipped when the record that follows says
the same, or, of an answer, when it matches the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from pimetrics.decoding.shortcut.grammar import MESSAGE, STAMP, Pattern
from pimetrics.decoding.shortcut.stamps import STAMPED, stamp
from pimetrics.events import Event, Message, MessageStart, RunEnd, TurnEnd

_START: Final = b'{"type":"message_start","message":{"role":"'
_ANSWER_START: Final = _START + b'assistant"'
_START_TYPE: Final = b'{"type":"message_start","message":'
_ANSWER: Final = Pattern(rb'\{"type":"message_start","message":%b%b\}' % (MESSAGE, STAMP))
_END: Final = b'{"type":"message_end","message":'
_TURN_END: Final = b'{"type":"turn_end","message":'
_TURN_RESULTS: Final = b',"toolResults":['
_RUN_END: Final = b'{"type":"agent_end","messages":['
_RUN_TAIL: Final = re.compile(rb'\](?:,"willRetry":(true|false))?%b\}' % STAMP)
_TURN_TAIL: Final = re.compile(rb"\]%b\}" % STAMP)
_LINE_END: Final = re.compile(rb"%b\}\n" % STAMP)

_SILENT_ROLES: Final = frozenset({b"user", b"toolResult", b"system", b"custom"})


class Repeats:
    """Knows the messages that this run has settled.

    Args:
        load_message: Decodes a `message_start` line when somebody needs what it held.
    """

    def __init__(self, load_message: Callable[[bytes], Message | None]) -> None:
        self._load_message = load_message
        self._ended: list[tuple[int, int]] = []  # (length, hash) of the message_end bodies of this run
        self._answer = -1  # index in it of the last assistant message

    def forget(self) -> None:
        """Take nothing that comes for a repeat of what came."""
        self._ended.clear()
        self._answer = -1

    def message_start(self, line: bytes, data: bytes, at: int) -> tuple[str, Event | None] | None:
        """Look at a `message_start`; None when it must be decoded in full. What follows it stands in `data` at `at`."""
        if line.startswith(_ANSWER_START):
            answer = _ANSWER.fullmatch(line)
            return answer and ("message_start", MessageStart(partial(self._load_message, line), stamp(line)))
        role = line[len(_START) : line.find(b'"', len(_START), len(_START) + 20)] if line.startswith(_START) else b""
        if role not in _SILENT_ROLES or not data.startswith(_END, at):
            return None
        stamped = STAMPED.search(line, max(0, len(line) - 40))
        body = line[len(_START_TYPE) : stamped.start() if stamped else -1]
        at += len(_END)
        if not data.startswith(body, at) or not _LINE_END.match(data, at + len(body)) or not _has_one_role(body):
            return None
        return "message_start", None  # a record if that is one, and all is decoded again if that is none

    def note(self, data: bytes) -> None:
        """Take note of a `message_end` in a form that leaves no doubt what its message is."""
        stamped = STAMPED.search(data, max(0, len(data) - 40))
        body = data[len(_END) : stamped.start() if stamped else -1]
        if body.startswith(b'{"role":"assistant"'):
            self._answer = len(self._ended)
        self._ended.append((len(body), hash(body)))

    def turn_end(self, data: bytes) -> tuple[str, Event | None] | None:
        """Look at a `turn_end`; None when it must be decoded in full."""
        if self._answer < 0 or not data.startswith(_TURN_END):
            return None
        at = self._match(data, len(_TURN_END), [self._ended[self._answer]])
        if at < 0 or not data.startswith(_TURN_RESULTS, at):
            return None
        at = self._match(data, at + len(_TURN_RESULTS), self._ended[self._answer + 1 :])
        if at < 0 or not _TURN_TAIL.fullmatch(data, at):
            return None
        return "turn_end", TurnEnd((), stamp(data))

    def run_end(self, data: bytes) -> tuple[str, Event | None] | None:
        """Look at an `agent_end`; None when it must be decoded in full."""
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


def _has_one_role(body: bytes) -> bool:
    """Whether no second key of a message can be its role, however it is written."""
    return body.count(b'"role"') == 1 and b"\\u006" not in body and b"\\u007" not in body

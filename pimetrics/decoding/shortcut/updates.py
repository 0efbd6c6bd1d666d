"""Runs of `message_update` records: known by their bytes, told as one event.

An update is skipped when its bytes prove that it is a record. Nothing of it is decoded for that; all that is left of a
run is how many there were, when the first piece came, and the last one, whose usage is decoded if somebody asks.

- *Pieces* (from 0.84): the start of an update, up to what it adds, is the same for as long as the reported usage is;
  it is matched once against the form that pi gives it, and from then on compared. What is added is one JSON string,
  matched by the grammar of strings.
- *Whole messages* (to 0.83): an update repeats the message twice. The message is that of the update before it with the
  new piece put in at the end of the text that grows, so it is enough to compare bytes. The first of a row, and any
  other that does more, has to be `sound` instead, and to hold the same message twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pimetrics.decoding.fields import time_ms
from pimetrics.decoding.shortcut.grammar import ASCII_CHARACTERS, CHARACTERS, OBJECT, USAGE
from pimetrics.decoding.shortcut.sound import is_sound, is_utf8, stamp
from pimetrics.events import MessageUpdate, Usage
from pimetrics.records import TAIL_BYTES

UPDATE: Final = b'{"type":"message_update",'
_EVENT: Final = b'"assistantMessageEvent":{"type":"'
_USAGE: Final = b'"usage":{"'
_EVENT_WITHIN: Final = 700
"""The longest `usage` object that pi writes is under 400 bytes."""

_HEAD: Final = re.compile(rb'\{"type":"message_update",(?:"usage":%b,)?"assistantMessageEvent":\{"type":"' % USAGE)
_STEP: Final = re.compile(
    (
        rb'(?:text|thinking|toolcall)_(?:(delta)","contentIndex":INDEX,"delta":"(CHARACTERS)"'
        rb'|start","contentIndex":INDEX(?:,"id":STRING,"toolName":STRING)?'
        rb'|end","contentIndex":INDEX,(?:"content":STRING|"toolCall":\{"type":"toolCall","id":STRING,"name":STRING,'
        rb'"arguments":OBJECT\}))(?:,"partial":|\}(?:,"receivedAt":([0-9]{1,15}))?\}$)'
    )
    .replace(b"INDEX", b"(?:0|[1-9][0-9]{0,5})")
    .replace(b"OBJECT", OBJECT)
    .replace(b"STRING", b'"%b"' % CHARACTERS)
    .replace(b"CHARACTERS", CHARACTERS)
)
_PIECE: Final = re.compile(rb'(%b)"(?:,"partial":|\}(?:,"receivedAt":([0-9]{1,15}))?\}$)' % ASCII_CHARACTERS)
"""The rest of a line after `"delta":"`, where what is added is ASCII."""

_AGAIN: Final = b'},"message":'
_END: Final = re.compile(rb'(?:,"receivedAt":([0-9]{1,15}))?\}$')
_GROWING: Final = re.compile(rb'"(?:,"thinkingSignature":"[^"]*")?(?:,"(?:index|streamIndex)":[0-9]+)?\}\],"api":"')
"""From the end of the text that grows to the end of the content."""

_TAIL_USAGE: Final = re.compile(rb'"usage":(\{"[^{}]*(?:\{[^{}]*\})?[^{}]*\})')

Seen = tuple[bool, int | None]
"""Whether an update brought a piece, and its arrival stamp."""


class Updates:
    """Knows how the updates of the message in progress begin.

    Args:
        load_usage: Decodes an update line when somebody needs its usage.
    """

    def __init__(self, load_usage: Callable[[bytes], Usage | None]) -> None:
        self._load_usage = load_usage
        self._head = UPDATE + _EVENT  # what the next update is expected to begin with
        self._until_piece = b"\n"  # the same, to the text that it adds; nothing begins with this
        self._before = self._after = b""  # the message of the last update, cut where its text grows

    def take(self, lines: Sequence[bytes], first: int) -> tuple[int, MessageUpdate | None]:
        """Return how many lines from `first` on are updates that need not be decoded, and one event for them all."""
        at = first
        has_delta = False
        received: int | None = None
        until, start = self._until_piece, len(self._until_piece)
        while at < len(lines):
            line = lines[at]
            if line.startswith(until) and (piece := _PIECE.match(line, start)) is not None:
                if piece.end() == len(line) and (piece.lastindex == 1 or received is not None):
                    has_delta = True
                    at += 1
                    continue
                seen = self._look_at_piece(line, piece)
            else:
                seen = self._look(line) if line.startswith(UPDATE) else None
                until, start = self._until_piece, len(self._until_piece)
            if seen is None:
                break
            at += 1
            if seen[0]:
                has_delta = True
                if received is None:
                    received = seen[1]
        if at == first:
            return 0, None
        return at - first, MessageUpdate(partial(self._load_usage, lines[at - 1]), has_delta, received)

    def _look_at_piece(self, line: bytes, piece: re.Match[bytes]) -> Seen | None:
        """Look at an update that begins as the last one did and adds some ASCII; `piece` is what it adds."""
        if piece.end() < len(line):
            return self._whole(line, piece.end(), piece[1])
        return True, _time(piece[2])

    def _look(self, line: bytes) -> Seen | None:
        """Look at any update."""
        if not line.startswith(self._head):
            head = _HEAD.match(line)
            if head is None:
                return self._sound(line)
            self._head = head[0]
        step = _STEP.match(line, len(self._head))
        if step is None or not is_utf8(line):
            return None
        if step[1] is not None:
            self._until_piece = line[: step.start(2)]
        if step.end() < len(line):
            return self._whole(line, step.end(), step[2])
        return step[1] is not None, _time(step[3])

    def _whole(self, line: bytes, at: int, piece: bytes | None) -> Seen | None:
        """Look at an update whose message stands at `at` and again behind it; None as a piece: it adds none."""
        if piece is not None and self._after:
            before = self._before + piece
            message = before + self._after
            twice = message + _AGAIN + message
            if line.startswith(twice, at) and (end := _END.match(line, at + len(twice))) is not None:
                self._before = before
                return True, _time(end[1])
        end = _END.search(line, max(at, len(line) - 40))
        if end is None:
            return self._sound(line)
        size = (end.start() - at - len(_AGAIN)) // 2
        message = line[at : at + size]
        if line[at + size : end.start()] != _AGAIN + message or not is_sound(message):
            return self._sound(line)
        self._before = self._after = b""
        grows = _GROWING.search(message, max(0, len(message) - _EVENT_WITHIN))
        if grows is not None:
            self._before, self._after = message[: grows.start()], message[grows.start() :]
        return piece is not None, _time(end[1])

    @staticmethod
    def _sound(line: bytes) -> Seen | None:
        at = line.find(_EVENT, len(UPDATE), _EVENT_WITHIN)
        if at < 0 or (at != len(UPDATE) and not line.startswith(_USAGE, len(UPDATE))) or not is_sound(line):
            return None
        at += len(_EVENT)
        return line[at : line.find(b'"', at, at + 40)].endswith(b"_delta"), stamp(line)

    def dropped(self, data: bytes) -> tuple[str, MessageUpdate] | None:
        """Look at an update whose middle is gone."""
        if data[-1:] != b"}":
            return None
        at = data.find(_EVENT, len(UPDATE), _EVENT_WITHIN)
        step = b"" if at < 0 else data[at + len(_EVENT) : data.find(b'"', at + len(_EVENT), at + len(_EVENT) + 40)]
        # The usage stands at the head (from 0.84.2), before that in the message at the tail; what is between is gone.
        if data.startswith(_USAGE, len(UPDATE)) and at > 0:
            reported = data[len(UPDATE) : at - 1]
        else:
            found = _TAIL_USAGE.findall(data[-TAIL_BYTES:])
            reported = b'"usage":' + found[-1] if found else b""
        line = b'{"type":"message_update",%b}' % reported
        load = partial(self._load_usage, line) if reported else _no_usage
        return "message_update", MessageUpdate(load, step.endswith(b"_delta"), stamp(data))


def _time(digits: bytes | None) -> int | None:
    return None if digits is None else time_ms(int(digits))


def _no_usage() -> None:
    return None

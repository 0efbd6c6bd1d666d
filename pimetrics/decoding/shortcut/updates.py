"""Runs of `message_update` records: known by their bytes, told as one event.

An update is skipped when its bytes prove that it is a record of this type: it matches the grammar of JSON in a form
that pi writes. Nothing of it is decoded for that; all that is left of a run is how many there were, when the first
piece came, and the last one, whose usage is decoded if somebody asks.

- *Pieces* (from 0.84): one search takes a run of them, whole lines, in one go. What stands before the piece is the same
  for as long as the reported usage is, and is only compared.
- *Whole messages* (to 0.83): an update repeats the message twice. The message is that of the update before it with the
  new piece put in at the end of the text that grows, so it is enough to compare bytes. Any other has to match the
  grammar, once, and to be there twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from pimetrics.decoding.fields import time_ms
from pimetrics.decoding.shortcut.grammar import CHARACTERS, MESSAGE, OBJECT, STRING, USAGE, Pattern
from pimetrics.decoding.shortcut.stamps import stamp
from pimetrics.events import MessageUpdate, Usage
from pimetrics.records import TAIL_BYTES, count_lines

UPDATE: Final = b'{"type":"message_update",'
_EVENT: Final = b'"assistantMessageEvent":{"type":"'
_USAGE: Final = b'"usage":{"'
_EVENT_WITHIN: Final = 700
"""The longest `usage` object that pi writes is under 400 bytes."""


def _form(pattern: bytes) -> bytes:
    for short, full in _PARTS.items():
        pattern = pattern.replace(short, full)
    return pattern


_PARTS: Final = {
    b"<HEAD>": rb'\{"type":"message_update",(?:"usage":<USAGE>,)?"assistantMessageEvent":\{"type":"',
    b"<DELTA>": rb'(?:text|thinking|toolcall)_delta","contentIndex":<INDEX>,"delta":"',
    b"<EDGE>": (
        rb'(?:text|thinking|toolcall)_(?:start","contentIndex":<INDEX>(?:,"id":<STRING>,"toolName":<STRING>)?'
        rb'|end","contentIndex":<INDEX>,(?:"content":<STRING>|"toolCall":<OBJECT>))'
    ),
    b"<DONE>": rb"\}(?:,<STAMP>)?\}\n",
    b"<STAMP>": rb'"receivedAt":(?:0|[1-9][0-9]{0,14})',
    b"<USAGE>": USAGE,
    b"<OBJECT>": OBJECT,
    b"<STRING>": STRING,
    b"<CHARACTERS>": CHARACTERS,
    b"<INDEX>": b"(?:0|[1-9][0-9]{0,5})",
    b"<MESSAGE>": MESSAGE,
}

_PIECES: Final = Pattern(
    _form(rb'(<HEAD>)(?:<DELTA><CHARACTERS>"|<EDGE>)<DONE>(?:\1(?:<DELTA><CHARACTERS>"|<EDGE>)<DONE>)*+')
)
"""Lines with the same usage that add a piece to a text, or begin or end one. (No group inside what is repeated: `re` of
Python 3.11 loses its place there.)"""

_WHOLE: Final = Pattern(_form(rb'<HEAD>(?:<DELTA>(<CHARACTERS>)"|<EDGE>),"partial":'))
"""The start of a line that repeats the message."""

_MESSAGE: Final = Pattern(_form(b"<MESSAGE>"))
_END: Final = re.compile(_form(rb"(?:,(<STAMP>))?\}\n"))
_FIRST_STAMP: Final = re.compile(_form(rb'_delta","contentIndex":[0-9]++,"delta":"<CHARACTERS>"\},(<STAMP>)'))

_DELTA: Final = b'_delta","contentIndex":'
_STAMPED: Final = b'},"receivedAt":'
_AGAIN: Final = b'},"message":'
_GROWING: Final = re.compile(rb'"(?:,"thinkingSignature":"[^"]*")?(?:,"(?:index|streamIndex)":[0-9]+)?\}\],"api":"')
"""From the end of the text that grows to the end of the content."""

_TAIL_USAGE: Final = re.compile(rb'"usage":(\{"[^{}]*(?:\{[^{}]*\})?[^{}]*\})')


class Updates:
    """Knows the message in progress.

    Args:
        load_usage: Decodes an update line when somebody needs its usage.
    """

    def __init__(self, load_usage: Callable[[bytes], Usage | None]) -> None:
        self._load_usage = load_usage
        self._before = self._after = b""  # the message of the last update, cut where its text grows

    def take(self, data: bytes, first: int) -> tuple[int, int, MessageUpdate | None]:
        """Take the lines from `first` on that are updates and need not be decoded.

        Returns:
            Where they end, how many they are, and one event for them all.
        """
        at = first
        while (pieces := _PIECES.match(data, at)) is not None:
            at = pieces.end()
        if at == first:
            return self._take_whole(data, first)
        run = data[first:at]
        last = run[run.rfind(b"\n", 0, -1) + 1 : -1]
        has_delta = _DELTA in run
        received = None
        if has_delta and _STAMPED in run and (found := _FIRST_STAMP.search(run)) is not None:
            received = _time(found[1])
        return at, count_lines(run), MessageUpdate(partial(self._load_usage, last), has_delta, received)

    def _take_whole(self, data: bytes, first: int) -> tuple[int, int, MessageUpdate | None]:
        """Take lines that repeat the message."""
        number = 0
        at = last = first
        has_delta = False
        received: int | None = None
        while (start := _WHOLE.match(data, at)) is not None:
            end = self._repeated(data, start)
            if end is None:
                break
            number += 1
            last, at = at, end.end()
            if start[1] is not None:
                has_delta = True
                if received is None and end[1] is not None:
                    received = _time(end[1])
        if not number:
            return first, 0, None
        return at, number, MessageUpdate(partial(self._load_usage, data[last : at - 1]), has_delta, received)

    def _repeated(self, data: bytes, start: re.Match[bytes]) -> re.Match[bytes] | None:
        """Check the message that stands behind `start`, and again behind that; return the end of the line."""
        at = start.end()
        piece = start[1]
        if piece is not None and self._after:
            before = self._before + piece
            message = before + self._after
            if data.startswith(message, at):
                end = _again(data, at + len(message), message)
                if end is not None:
                    self._before = before
                    return end
        found = _MESSAGE.match(data, at)
        if found is None:
            return None
        message = found[0]
        end = _again(data, found.end(), message)
        if end is not None:
            self._before = self._after = b""
            grows = _GROWING.search(message, max(0, len(message) - _EVENT_WITHIN))
            if grows is not None:
                self._before, self._after = message[: grows.start()], message[grows.start() :]
        return end

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


def _again(data: bytes, at: int, message: bytes) -> re.Match[bytes] | None:
    """Return the end of a line that repeats a message at `at`."""
    if not data.startswith(_AGAIN, at) or not data.startswith(message, at + len(_AGAIN)):
        return None
    return _END.match(data, at + len(_AGAIN) + len(message))


def _time(stamp: bytes) -> int | None:
    return time_ms(int(stamp[stamp.index(b":") + 1 :]))


def _no_usage() -> None:
    return None

"""A cheap look at the bytes of a record that decides whether it has to be decoded in full, in part, or not at all.

Most bytes of a stream are updates that a later record supersedes (`updates`), `message_start`, `turn_end` and
`agent_end` repeat, byte for byte, messages that `message_end` brings (`repeats`; measured: in all 810 such records of
160 recordings), and most values of the rest are never asked for (`forms`). This package recognises them by their bytes
and makes the same events that decoding them in full would, so it is only an optimisation: switched off, rows and counts
are the same, and property tests hold that.

What makes it safe:

- an unescaped quote never stands inside a JSON string, so a pattern with quotes can only be structure;
- what is taken from a record in part is decoded by ijson, and that proves the rest (see `forms`);
- a record is skipped only when its bytes prove that it is one, of its type: they match the `grammar` of JSON, or equal
  those of a record that was proved (`repeats`: by length and 64-bit hash);
- anything in another form than pi writes is decoded in full;
- decoding tells what it found: where a record that begins or ends a run, or settles a message, was not what its first
  bytes said (fused, broken, keys in another order), the batch is decoded again without the shortcut.

What it does not see: a fault in the middle of an update longer than framing holds, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from pimetrics.decoding.shortcut import forms
from pimetrics.decoding.shortcut.forms import Cut
from pimetrics.decoding.shortcut.grammar import BLOCKS, OBJECT, SCALAR, STAMP, Pattern
from pimetrics.decoding.shortcut.repeats import Repeats
from pimetrics.decoding.shortcut.updates import UPDATE, Updates
from pimetrics.events import Event, Message, Usage
from pimetrics.records import Record

__all__ = ["Cut", "Shortcut", "Skim"]

_TYPE: Final = b'{"type":"'
_MESSAGE_START: Final = b'{"type":"message_start"'

_STATEFUL: Final = frozenset({"session", "agent_start", "agent_end", "message_end"})
"""Types that decide what counts as a repeat, here and in reducing."""

_STATEFUL_BYTES: Final = frozenset(kind.encode() for kind in _STATEFUL)

DROPPABLE: Final = frozenset({b"message_update", b"tool_execution_update", b"bash_execution_update"})
"""Types whose bodies are never needed: framing may drop them however long they are."""

_SILENT: Final = Pattern(
    rb'\{"type":"[a-z_]+"(?:,"(?!(?:type|receivedAt)")[A-Za-z]++":(?:%b|\{"content":%b(?:,"details":%b)?\}|%b))*+%b\}'
    % (SCALAR, BLOCKS, OBJECT, OBJECT, STAMP)
)

Skim = tuple[str, Event | None]
"""The type of a record that need not be decoded, and its event."""


class Shortcut:
    """Looks at records in the order of their source.

    Args:
        load_message: Decodes a `message_start` line when somebody needs what it held.
        load_usage: Decodes a `message_update` line when somebody needs its usage.

    Attributes:
        updates: Takes a run of updates off some lines (`Updates.take`).
        forget: Takes nothing that comes for a repeat of what came (`Repeats.forget`).
    """

    def __init__(
        self, load_message: Callable[[bytes], Message | None], load_usage: Callable[[bytes], Usage | None]
    ) -> None:
        self._updates = Updates(load_usage)
        self._repeats = repeats = Repeats(load_message)
        self.forget = repeats.forget
        self.updates = self._updates.take
        looks: dict[str, Callable[[bytes], Skim | Cut | None]] = {
            **{kind: form.cut for kind, form in forms.FORMS.items()},
            "message": forms.message_entry,
            "message_end": partial(_message_end, repeats),
            "turn_end": repeats.turn_end,
            "agent_end": repeats.run_end,
            "agent_start": partial(_start, repeats),
            "session": partial(_start, repeats),
            "tool_execution_update": _silent,
            "bash_execution_update": _silent,
        }
        self._looks = {_TYPE + kind.encode() + b'"': look for kind, look in looks.items()}

    @staticmethod
    def keep(head: bytes) -> bool:
        """Tell framing whether a long line has to be held: no, when its body is never needed."""
        return _type_of(head) not in DROPPABLE

    def update(self, line: bytes) -> Skim | None:
        """Look at a line that may be an update."""
        if not line.startswith(UPDATE):
            return None
        _, number, event = self.updates(line + b"\n", 0)
        return ("message_update", event) if number else None

    def look(self, line: bytes, data: bytes = b"", at: int = 0) -> Skim | Cut | None:
        """Look at a line that is no update; None when it must be decoded in full. `data` goes on behind it at `at`."""
        look = self._looks.get(line[: line.find(b'"', 9, 60) + 1])
        if look is not None:
            return look(line)
        if line.startswith(_MESSAGE_START):
            return self._repeats.message_start(line, data, at)
        return None

    def look_at_dropped(self, record: Record) -> Skim | None:
        """Look at a record whose middle is gone; any other one must be decoded in full."""
        if record.whole:
            return None
        kind = _type_of(record.data)
        if kind == b"message_update":
            return self._updates.dropped(record.data)
        return (kind.decode(), None) if record.data[-1:] == b"}" else None

    @staticmethod
    def agrees(record: Record, kinds: list[str]) -> bool:
        """Whether the types that decoding found on a line are what the first bytes said, where that matters."""
        seen = _type_of(record.data)
        if len(kinds) == 1 and kinds[0] not in _STATEFUL and seen not in _STATEFUL_BYTES:
            return True
        return [k for k in kinds if k in _STATEFUL] == ([seen.decode()] if seen in _STATEFUL_BYTES else [])


def _message_end(repeats: Repeats, line: bytes) -> Cut | None:
    cut = forms.message_end(line)
    if cut is None:
        repeats.forget()
    else:
        repeats.note(line)
    return cut


def _start(repeats: Repeats, line: bytes) -> Cut | None:
    repeats.forget()
    return forms.FORMS[_type_of(line).decode()].cut(line)


def _type_of(head: bytes) -> bytes:
    end = head.find(b'"', 9, 60) if head.startswith(_TYPE) else -1
    return head[9:end] if end > 0 else b""


def _silent(line: bytes) -> Skim | None:
    """Look at a record that says nothing but that it was there."""
    return (_type_of(line).decode(), None) if _SILENT.fullmatch(line) else None

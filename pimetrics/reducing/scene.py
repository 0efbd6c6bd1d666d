"""What all reducers need to know of the moment: the anchor, the model in force, the prompt, the place in the tree.

A stream is one line of events, so the scene just moves on. A session file is a tree in file order: before an entry is
reduced, the scene of its parent is set up again (`enter`), so anchors and models are those of the entry's own branch,
which a fork copies verbatim, and not those of an abandoned branch that happens to stand above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pimetrics import keys
from pimetrics.events import Call, Entry, Header, Message, MessageEnd
from pimetrics.keys import Key
from pimetrics.rows import Part, Row

DAY_MS = 86_400_000

_NO_ANCHOR = frozenset({"bashExecution", "custom", "hookMessage"})
"""Roles that anchor nothing. Direct commands are no events of a stream; a custom message has one time in the stream and
another in the file (pi takes the clock twice), extensions may write one that the stream never shows, and old files call
its role hookMessage until pi migrates them."""


_NO_CALLS: Final[Mapping[str, Call]] = MappingProxyType({})


class Place(NamedTuple):
    """What is in force at one point of a session.

    Attributes:
        anchor: Name of the last settled message; None before the first.
        time: Time of that message, epoch ms.
        ended: When the agent's last message was written (session files), epoch ms.
        answer: Name of the last assistant message, the parent of tool calls.
        answered: When that message was written (session files), epoch ms.
        calls: Tool calls that it asked for, by id.
        prompt: Name of the prompt.
        prompt_id: row_id of the prompt.
    """

    anchor: Key | None = None
    time: int | None = None
    ended: int | None = None
    provider: str | None = None
    model: str | None = None
    response_model: str | None = None
    thinking: str | None = None
    answer: Key | None = None
    answered: int | None = None
    calls: Mapping[str, Call] = _NO_CALLS
    prompt: Key | None = None
    prompt_id: str | None = None


class Moment(NamedTuple):
    """The time of a row and where it is from, and the name of the message it is about."""

    key: Key
    time: int | None
    time_source: str | None


class Scene:
    """The shared state of one source's reducers."""

    def __init__(self, source: str) -> None:
        self.rows: list[Row] = []
        self.part = Part(source)
        self.headed = False  # a header says which session this is
        self.here = Place()
        self.first_record: str | None = None
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.is_file = False
        self._places: dict[str, Place] = {}
        self._linked = False  # the entries of this file name their parents
        self._messages: dict[Key, int] = {}  # identities seen in this source, how often
        self._numbers: dict[Key, int] = {}  # the same for everything that is no message

    def begin(self, header: Header | None) -> None:
        """Start the next part of the source."""
        self.part = Part(self.part.source, self.part.number + 1)
        self.headed = header is not None
        if header is not None:
            self.part.session_id, self.part.cwd, self.part.time = header.session_id, header.cwd, header.time
            self.here = Place()
            self.is_file = self._linked = False
            self.first_time = self.last_time = None
            self._places.clear()
            self._messages = {}
            self._numbers = {}

    @property
    def anchor(self) -> Key:
        """Name of the last settled message, or what stands in for it."""
        return self.here.anchor or self.root

    @property
    def root(self) -> Key:
        """What stands in where no message came before."""
        return keys.root_key(self.part.session_id, self.first_record)

    def emit(
        self, table: str, key: Key, values: dict[str, Any], entry_id: str | None = None, *, in_prompt: bool = True
    ) -> None:
        """Give out a row; the prompt in force is added to it."""
        if in_prompt:
            values["prompt_id"] = self.here.prompt_id
        self.rows.append(Row(table, key, values, self.part, entry_id))

    def number(self, key: Key) -> int:
        """Return how often this name was used before in this source."""
        seen = self._numbers.get(key, 0)
        self._numbers[key] = seen + 1
        return seen

    def known(self, key: Key) -> bool:
        """Whether a name was used before in this source."""
        return key in self._numbers

    # --- the tree ---------------------------------------------------------------------------------------------------

    def enter(self, entry: Entry) -> bool:
        """Set up the scene of an entry's parent; False when the same entry was there already."""
        self.is_file = True
        if entry.id is None:
            return True
        part = self.part
        if entry.id in self._places:
            return False
        parent = entry.parent_id
        if parent is not None:
            self._linked = self._linked or parent in self._places
        if parent == part.leaf or (parent not in self._places and not (parent is None and self._linked)):
            # Also where the parent is not in this file, or a writer names none at all: the entries are one line.
            part.parents[entry.id] = part.leaf
            if parent is not None and parent != part.leaf:
                self.here = self.here._replace(anchor=None)  # what stands before is not known: its line was lost
            return True
        part.branched = True
        part.parents[entry.id] = parent
        self.here = self._places[parent] if parent is not None else Place(thinking=self.here.thinking)
        return True

    def leave(self, entry: Entry) -> None:
        """Remember the scene that an entry leaves to its children."""
        self.see_time(entry.time)
        if entry.id is not None:
            self._places[entry.id] = self.here
            self.part.leaf = entry.id

    # --- messages ---------------------------------------------------------------------------------------------------

    def settle(self, event: MessageEnd) -> Moment:
        """Name a settled message and make it the anchor of what follows."""
        message, entry = event.message, event.entry
        identity = message.identity
        seen = self._messages.get(identity, 0)
        self._messages[identity] = seen + 1
        key = keys.message_key(identity, seen)
        time, source = moment_of(message.timestamp, entry.time if entry else None, event.received_ms)
        self.see_time(time)
        if message.role in _NO_ANCHOR:
            return Moment(key, time, source)
        ended = entry.time if entry else None
        if message.role == "assistant":
            self.here = self.here._replace(
                anchor=key,
                time=time,
                ended=ended,
                provider=message.provider,
                model=message.model,
                response_model=message.response_model,
                answer=key,
                answered=ended,
                calls={call.id: call for call in message.calls} if message.calls else _NO_CALLS,
            )
        else:
            if message.role != "toolResult":
                ended = self.here.ended
            self.here = self.here._replace(anchor=key, time=time, ended=ended)
        return Moment(key, time, source)

    def anchor_at(self, message: Message) -> None:
        """Make a message that is settled the anchor again, after others of before it were filled in."""
        identity = message.identity
        seen = self._messages.get(identity, 0)
        if seen and message.role not in _NO_ANCHOR:
            self.here = self.here._replace(anchor=keys.message_key(identity, seen - 1), time=message.timestamp)

    def settled_like(self, alias: Key) -> int:
        """Return how many settled messages of this source have the alias."""
        return sum(n for identity, n in self._messages.items() if identity[:4] == alias)

    # --- time -------------------------------------------------------------------------------------------------------

    def see_time(self, time: int | None) -> None:
        """Note a time seen in this part."""
        if time is None:
            return
        if self.first_time is None or time < self.first_time:
            self.first_time = time
        if self.last_time is None or time > self.last_time:
            self.last_time = time

    def when(self, received_ms: int | None, entry_time: int | None = None) -> dict[str, Any]:
        """Return time and time_source of something that has no time of its own."""
        if entry_time is not None:
            return {"time": entry_time, "time_source": "entry"}
        if received_ms is not None:
            self.see_time(received_ms)
            return {"time": received_ms, "time_source": "arrival"}
        if self.here.time is not None:
            return {"time": self.here.time, "time_source": "anchor"}
        if self.part.time is not None:
            return {"time": self.part.time, "time_source": "anchor"}
        return {"time": None, "time_source": None}


def moment_of(timestamp: int | None, entry_time: int | None, received_ms: int | None) -> tuple[int | None, str | None]:
    """Return the time of a message and where it is from.

    Its own timestamp, unless it has none or one that is more than a day off the time its entry was written.
    """
    if timestamp is not None and (entry_time is None or abs(timestamp - entry_time) <= DAY_MS):
        return timestamp, "message"
    if entry_time is not None:
        return entry_time, "entry"
    if received_ms is not None:
        return received_ms, "arrival"
    return None, None


def seconds(first_ms: float | None, last_ms: float | None) -> float | None:
    """Return the length between two times in seconds; None when one is missing or they are the wrong way round."""
    if first_ms is None or last_ms is None or last_ms < first_ms:
        return None
    return (last_ms - first_ms) / 1000

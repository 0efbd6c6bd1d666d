"""Tool calls: starts paired with ends by `toolCallId`, whatever the order they end in.

A stream shows a start, an end, and a toolResult message; a session file only the call in the answer and the toolResult.
All name the same fact: the answer that asked for the call, and its id. A call whose answer is not known yet (the line
was lost) waits for `turn_end`, which repeats the answer.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from pimetrics import keys
from pimetrics.events import Call, MessageEnd, ToolEnd, ToolStart
from pimetrics.keys import Key
from pimetrics.reducing.scene import Moment, Place, Scene, seconds

_ABORTED = ("Command aborted", "Operation aborted")
"""How the error text of a tool ends that was stopped by the user (pi's bash tool, pi's agent loop)."""


class _Open(NamedTuple):
    call: Call
    parent_call_id: str | None
    answer: Key | None  # the answer that listed it; None while that is not known
    place: Place
    when: dict[str, Any]
    received_ms: int | None
    running: bool


class _Ended(NamedTuple):
    opened: _Open
    tool: str
    outcome: str
    length: tuple[float, str] | None
    result_bytes: int | None
    entry_id: str | None


class Tools:
    """Reduces tool calls."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._open: dict[str, list[_Open]] = {}
        self._orphans: list[_Ended] = []  # ended, and no answer listed them yet
        self._told: Counter[str] = Counter()  # ids whose end came, and their toolResult has not
        self._turn: tuple[Key | None, str | None] = (None, None)  # an answer and its turn_id

    @property
    def running(self) -> Counter[str]:
        """Names of the tools that run now, how often each."""
        return Counter(each.call.tool for line in self._open.values() for each in line if each.running)

    def start(self, event: ToolStart) -> None:
        """A call begins to run."""
        self._push(self._made(event.call, event.parent_call_id, event.received_ms, running=True))

    def end(self, event: ToolEnd) -> None:
        """A call has run."""
        opened = self._pop(event.call_id) or self._unopened(event.call_id, event.tool, event.parent_call_id)
        if event.duration_ms is not None:
            length: tuple[float, str] | None = event.duration_ms / 1000, "reported"
        else:
            took = seconds(opened.received_ms, event.received_ms)
            length = None if took is None else (took, "arrival")
        self._told[event.call_id] += 1
        outcome = _outcome(event.error_text, is_error=event.is_error)
        self._give(_Ended(opened, event.tool, outcome, length, event.result_bytes, None))

    def message(self, event: MessageEnd, _moment: Moment) -> None:
        """An answer lists its calls; a toolResult ends one, unless its end was told before."""
        message, entry = event.message, event.entry
        if message.role == "assistant":
            self._answered(event)
            return
        if message.role != "toolResult" or message.tool_call_id is None:
            return
        if entry is not None:
            self._nested(event)
        elif self._told[message.tool_call_id] > 0:
            self._told[message.tool_call_id] -= 1
            return
        opened = self._pop(message.tool_call_id) or self._unopened(message.tool_call_id, message.tool, None)
        length: tuple[float, str] | None = None
        if message.duration_ms is not None:
            length = message.duration_ms / 1000, "reported"
        elif entry is not None:
            took = seconds(self._scene.here.answered, entry.time)
            length = None if took is None else (took, "entry")
        outcome = _outcome(message.last_text, is_error=message.is_error)
        entry_id = entry.id if entry else None
        self._give(_Ended(opened, message.tool or "", outcome, length, message.content_bytes, entry_id))

    def close(self) -> None:
        """The run or the source is over: what still runs will not end, what has no answer will not get one."""
        for line in self._open.values():
            for opened in line:
                self._row(_Ended(opened, "", "unfinished", None, None, None))
        for ended in self._orphans:
            self._row(ended)
        self._open.clear()
        self._orphans.clear()
        self._told.clear()

    def _answered(self, event: MessageEnd) -> None:
        self._told.clear()
        if event.entry is None:
            orphans, self._orphans = self._orphans, []
            for ended in orphans:
                opened = ended.opened
                self._give(ended._replace(opened=opened._replace(answer=self._parent(opened.call.id))))
        elif event.message.stop_reason == "toolUse":
            # In a file the results follow. An answer that was cut off asked for calls that were never made.
            for call in event.message.calls:
                self._push(self._made(call, None, None, running=False))

    def _nested(self, event: MessageEnd) -> None:
        """Calls that the tool made itself; a stream has shown them as they ran."""
        for call in event.message.calls:
            parent = call.id.rpartition("/")[0]  # pi names them PARENT/1, PARENT/2, ...
            opened = self._made(call, parent or event.message.tool_call_id, None, running=False)
            length = None if call.duration_ms is None else (call.duration_ms / 1000, "reported")
            outcome = call.status if call.status in {"ok", "error", "unfinished"} else "ok"
            self._row(_Ended(opened, call.tool, outcome, length, None, event.entry.id if event.entry else None))

    def _parent(self, call_id: str) -> Key | None:
        """Return the answer in force, when it asked for the call or for the call that made it."""
        here = self._scene.here
        while call_id:
            if call_id in here.calls:
                return here.answer
            call_id = call_id.rpartition("/")[0]
        return None

    def _unopened(self, call_id: str, tool: str | None, parent_call_id: str | None) -> _Open:
        call = self._scene.here.calls.get(call_id) or Call(call_id, tool or "", None)
        return self._made(call, parent_call_id, None, running=False)

    def _made(self, call: Call, parent_call_id: str | None, received_ms: int | None, *, running: bool) -> _Open:
        scene = self._scene
        when = scene.when(received_ms, scene.here.answered)
        return _Open(call, parent_call_id, self._parent(call.id), scene.here, when, received_ms, running)

    def _push(self, opened: _Open) -> None:
        self._open.setdefault(opened.call.id, []).append(opened)

    def _pop(self, call_id: str) -> _Open | None:
        """Take the first open call of that id; the answer in force goes before older ones, since ids are reused."""
        line = self._open.get(call_id)
        if line is None:
            return None
        answer = self._scene.here.answer
        index = next((i for i, each in enumerate(line) if each.answer == answer), 0)
        opened = line.pop(index)
        if not line:
            del self._open[call_id]
        return opened

    def _give(self, ended: _Ended) -> None:
        # Where no message at all came before, none was lost: the call has no answer.
        if ended.opened.answer is None and not self._scene.is_file and self._scene.here.anchor is not None:
            self._orphans.append(ended)
        else:
            self._row(ended)

    def _row(self, ended: _Ended) -> None:
        opened = ended.opened
        if opened.answer != self._turn[0]:
            self._turn = opened.answer, None if opened.answer is None else keys.row_id("turns", opened.answer)
        name: Key = ("tool", opened.answer or self._scene.root, opened.call.id)
        values: dict[str, Any] = {
            "turn_id": self._turn[1],
            "prompt_id": opened.place.prompt_id,
            "tool": ended.tool or opened.call.tool,
            "tool_call_id": opened.call.id,
            "parent_tool_call_id": opened.parent_call_id,
            "outcome": ended.outcome,
            "args_bytes": opened.call.args_bytes,
            "result_bytes": ended.result_bytes,
            **opened.when,
        }
        values["duration_s"], values["duration_source"] = ended.length or (None, None)
        key = (*name, self._scene.number(name))
        self._scene.emit("tool_calls", key, values, ended.entry_id, in_prompt=False)


def _outcome(error_text: str, *, is_error: bool) -> str:
    if not is_error:
        return "ok"
    return "aborted" if error_text.rstrip().endswith(_ABORTED) else "error"

"""Events to rows: one reducer a matter, all fed by one `Reduction`, which knows one source.

The contract: `feed(events)` returns the rows that the events complete, in order; `finish()` says that the source is
over and returns what was left open as unfinished. No I/O, no clock, no globals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from pimetrics.events import (
    CompactionEnd,
    CompactionShown,
    CompactionStart,
    Event,
    ExtensionError,
    Header,
    Message,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelChanged,
    QueueUpdate,
    RetryEnd,
    RetryStart,
    RunEnd,
    RunStart,
    SessionAnswered,
    SessionNamed,
    SessionSwitched,
    Settled,
    SummaryRetryFinished,
    SummaryRetryScheduled,
    SummaryRetryStart,
    ThinkingLevelChanged,
    ToolEnd,
    ToolStart,
    TreeEntry,
    TurnEnd,
    TurnStart,
    UsageEntry,
)
from pimetrics.reducing.compactions import Compactions
from pimetrics.reducing.messages import Messages
from pimetrics.reducing.queue import Queue
from pimetrics.reducing.retries import Retries
from pimetrics.reducing.runs import Runs
from pimetrics.reducing.scene import Scene
from pimetrics.reducing.tools import Tools
from pimetrics.reducing.tree import Tree
from pimetrics.rows import Part, Row

__all__ = ["Reduction"]

_Handler = Callable[["Reduction", Any], None]


def _in_tree(handler: _Handler) -> _Handler:
    """Let an event that is an entry of a session file be handled at its place in the tree."""

    def handle(self: Reduction, event: Any) -> None:
        entry = event.entry
        if entry is None:
            handler(self, event)
        elif self._scene.enter(entry):
            handler(self, event)
            self._scene.leave(entry)

    return handle


class Reduction:
    """Reduces one source.

    Args:
        source: Its name.
    """

    def __init__(self, source: str) -> None:
        self._scene = scene = Scene(source)
        self._is_rpc = False
        self.extension_errors = 0
        self._told: Counter[Any] = Counter()  # identities of this run's messages, to know what a repeat adds
        self._messages = Messages(scene)
        self._tools = Tools(scene)
        self._retries = Retries(scene)
        self._compactions = Compactions(scene)
        self._runs = Runs(scene)
        self._queue = Queue(scene)
        self._tree = Tree(scene)

    def feed(self, events: Sequence[Event]) -> list[Row]:
        """Reduce events; return their rows."""
        scene = self._scene
        if scene.rows:
            scene.rows = []
        handlers = self._HANDLERS
        for event in events:
            if self._runs.undecided and type(event) is not RetryStart:
                self._runs.decide(retried=False)
            handlers[type(event)](self, event)
        self._tree.session(self._origin)
        return scene.rows

    def finish(self) -> list[Row]:
        """The source is over; return what was left open."""
        self._scene.rows = []
        self._close()
        self._tree.session(self._origin)
        return self._scene.rows

    # --- what is going on now, for gauges ---------------------------------------------------------------------------

    @property
    def tools_running(self) -> Counter[str]:
        """Names of the tools that run now."""
        return self._tools.running

    @property
    def running_since(self) -> int | None:
        """Start of the run in progress, epoch ms (0 when unknown); None without one."""
        return self._runs.running_since

    @property
    def queued(self) -> dict[str, int]:
        """Messages that wait, by queue."""
        return self._queue.depths

    @property
    def first_record(self) -> str | None:
        """Stable hash of the first record; stands in for an anchor where nothing else does. Set before `feed`."""
        return self._scene.first_record

    @first_record.setter
    def first_record(self, name: str) -> None:
        self._scene.first_record = name

    @property
    def part(self) -> Part:
        """The part of the source that is read now."""
        return self._scene.part

    @property
    def last_time(self) -> int | None:
        """Latest time seen, epoch ms."""
        return self._scene.last_time

    @property
    def is_session_file(self) -> bool:
        """Whether the source is a session file, as far as it was read."""
        return self._scene.is_file

    # --- sessions ---------------------------------------------------------------------------------------------------

    @property
    def _origin(self) -> str:
        return "session_file" if self._scene.is_file else "rpc" if self._is_rpc else "stream"

    def _header(self, event: Header) -> None:
        self._close()
        self._tree.session(self._origin)
        self._scene.begin(event)
        self._told.clear()
        self._is_rpc = False
        self._tree.header(event)

    def _switched(self, _event: SessionSwitched) -> None:
        self._is_rpc = True
        self._tree.session(self._origin)
        self._scene.begin(None)
        self._scene.here = self._scene.here._replace(anchor=None)  # what stands before is another session's

    def _answered(self, event: SessionAnswered) -> None:
        if not self._scene.headed:
            self._is_rpc = True
            if self._scene.part.session_id not in {None, event.session_id}:
                self._switched(SessionSwitched())
            self._scene.part.session_id = event.session_id

    # --- messages ---------------------------------------------------------------------------------------------------

    def _message_end(self, event: MessageEnd) -> None:
        entry = event.entry
        if entry is None:
            self._told[event.message.identity] += 1
            moment = self._scene.settle(event)
            self._runs.message(event, moment)
        else:
            if not self._scene.enter(entry):
                return
            is_prompt = self._tree.before(event)
            moment = self._scene.settle(event)
            self._tree.message(event, moment, is_prompt=is_prompt)
        self._messages.end(event, moment)
        self._tools.message(event, moment)
        self._retries.message(event, moment)
        if entry is not None:
            self._scene.leave(entry)

    def _fill_in(self, messages: tuple[Message, ...], received_ms: int | None, *, whole_run: bool) -> None:
        """Settle the messages that a repeat shows and `message_end` never brought (its line was lost)."""
        shown: Counter[Any] = Counter()
        filled_in = False
        for message in messages:
            identity = message.identity
            shown[identity] += 1
            known = self._told[identity]
            if known < (shown[identity] if whole_run else 1):
                self._message_end(MessageEnd(message, received_ms, None))
                filled_in = True
        if filled_in and whole_run:
            self._scene.anchor_at(messages[-1])

    # --- work -------------------------------------------------------------------------------------------------------

    def _run_start(self, event: RunStart) -> None:
        cut_off = self._messages.close()
        self._told.clear()
        self._runs.run_start(event, cut_off)

    def _turn_end(self, event: TurnEnd) -> None:
        self._fill_in(event.messages, event.received_ms, whole_run=False)
        self._runs.turn_end(event)

    def _run_end(self, event: RunEnd) -> None:
        self._fill_in(event.messages, event.received_ms, whole_run=True)
        self._told.clear()
        cut_off = self._messages.close()
        self._tools.close()
        self._runs.run_end(event, cut_off)

    def _settled(self, event: Settled) -> None:
        self._retries.close_turn()
        cut_off = self._messages.close()
        self._tools.close()
        self._runs.settled(event, cut_off)

    def _retry_start(self, event: RetryStart) -> None:
        self._runs.retry_start(event)
        self._retries.start(event)

    def _compaction_end(self, event: CompactionEnd) -> None:
        self._compactions.end(event)
        self._retries.compacted(event)

    def _extension_error(self, _event: ExtensionError) -> None:
        self.extension_errors += 1

    def _close(self) -> None:
        cut_off = self._messages.close()
        self._tools.close()
        self._compactions.close()
        self._retries.close()
        self._runs.close(cut_off)
        self._queue.close()
        self._tree.close()

    # A table of the class: bound methods in one of each source would hold their source in a cycle, and a daemon lets go
    # of sources for months.
    _HANDLERS: ClassVar[Mapping[type, _Handler]] = {
        Header: _header,
        SessionSwitched: _switched,
        SessionAnswered: _answered,
        SessionNamed: _in_tree(lambda self, event: self._tree.named(event)),
        ModelChanged: _in_tree(lambda self, event: self._tree.model(event)),
        ThinkingLevelChanged: _in_tree(lambda self, event: self._tree.thinking(event)),
        TreeEntry: _in_tree(lambda _self, _event: None),
        UsageEntry: _in_tree(lambda self, event: self._messages.entry(event)),
        MessageStart: lambda self, event: self._messages.start(event),
        MessageUpdate: lambda self, event: self._messages.update(event),
        MessageEnd: _message_end,
        RunStart: _run_start,
        TurnStart: lambda self, event: self._runs.turn_start(event),
        TurnEnd: _turn_end,
        RunEnd: _run_end,
        Settled: _settled,
        ToolStart: lambda self, event: self._tools.start(event),
        ToolEnd: lambda self, event: self._tools.end(event),
        RetryStart: _retry_start,
        RetryEnd: lambda self, event: self._retries.end(event),
        SummaryRetryScheduled: lambda self, e: self._retries.schedule(e, compacting=self._compactions.compacting),
        SummaryRetryStart: lambda self, e: self._retries.attempt(e, compacting=self._compactions.compacting),
        SummaryRetryFinished: lambda self, _e: self._retries.finished(compacting=self._compactions.compacting),
        CompactionStart: lambda self, event: self._compactions.start(event),
        CompactionEnd: _in_tree(_compaction_end),
        CompactionShown: lambda self, event: self._compactions.shown(event.compaction),
        QueueUpdate: lambda self, event: self._queue.update(event),
        ExtensionError: _extension_error,
    }

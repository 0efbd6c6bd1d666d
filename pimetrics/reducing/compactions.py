"""Compactions: starts paired with ends first in, first out (they can overlap), and their summaries' usage."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from pimetrics import keys
from pimetrics.events import CompactionEnd, CompactionStart
from pimetrics.keys import Key
from pimetrics.reducing.messages import usage_values
from pimetrics.reducing.scene import Scene, seconds


class _Open(NamedTuple):
    reason: str | None
    anchor: Key
    when: dict[str, Any]
    received_ms: int | None


class Compactions:
    """Reduces compactions of streams and of session files."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._open: list[_Open] = []
        self._settled: Counter[Key] = Counter()  # by anchor
        self._shown: set[Key] = set()  # told by their entries, and perhaps told again as they end

    @property
    def compacting(self) -> bool:
        """Whether a compaction is open."""
        return bool(self._open)

    def start(self, event: CompactionStart) -> None:
        """A compaction begins."""
        scene = self._scene
        self._open.append(_Open(event.reason, scene.anchor, scene.when(event.received_ms), event.received_ms))

    def shown(self, event: CompactionEnd) -> None:
        """A stream shows the entry of a compaction, which it may also have told of as it ended."""
        name = self._name(event, event.reason)
        if not self._scene.known(name):
            self.end(event)
            self._shown.add(name)

    def end(self, event: CompactionEnd) -> None:
        """A compaction has ended, or stands in a session file as done."""
        scene = self._scene
        anchor = scene.anchor
        entry = event.entry
        opened = self._pop(event.reason) if entry is None else None
        reason = event.reason or (opened.reason if opened else None)
        outcome = _outcome(event)
        name = self._name(event, reason)
        key = (*name, 0 if name in self._shown else scene.number(name))
        self._shown.discard(name)
        self._settled[anchor] += 1
        when = opened.when if opened else scene.when(event.received_ms, entry.time if entry else None)
        took = seconds(opened.received_ms, event.received_ms) if opened else None
        entry_id = entry.id if entry else None
        scene.emit(
            "compactions",
            key,
            when
            | {
                "reason": reason,
                "outcome": outcome,
                "tokens_before": event.tokens_before,
                "tokens_after": event.tokens_after,
                "duration_s": took,
                "duration_source": None if took is None else "arrival",
                "will_retry": event.will_retry,
                "cost_usd": event.usage.cost if event.usage else None,
            },
            entry_id,
        )
        if event.usage is not None:
            here = scene.here
            scene.emit(
                "usage",
                key,
                usage_values(event.usage)
                | when
                | {
                    "operation": "compaction",
                    "provider": here.provider,
                    "model": here.model,
                    "response_model": here.response_model,
                },
                entry_id,
            )

    def close(self) -> None:
        """The source is over: what is still open has no end."""
        for opened in self._open:
            self._settled[opened.anchor] += 1
            key = keys.open_key(opened.anchor, self._settled[opened.anchor])
            self._scene.emit("compactions", key, opened.when | {"reason": opened.reason, "outcome": "unfinished"})
        self._open.clear()

    def _name(self, event: CompactionEnd, reason: str | None) -> Key:
        anchor = self._scene.anchor
        if event.done:
            return keys.compaction_key(anchor, event.tokens_before, event.summary_hash)
        return keys.compaction_key(anchor, reason, _outcome(event), event.error)

    def _pop(self, reason: str | None) -> _Open | None:
        index = next((i for i, each in enumerate(self._open) if reason is None or each.reason == reason), 0)
        return self._open.pop(index) if self._open else None


def _outcome(event: CompactionEnd) -> str:
    return "ok" if event.done else "aborted" if event.aborted else "failed"

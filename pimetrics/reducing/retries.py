"""Retries: one row an attempt, of the agent's own turns and of the summaries that compactions and branches ask for.

An attempt is given out when it is announced (its outcome unknown then) and again when its outcome is known: failed when
another attempt followed, else how the series ended.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pimetrics.events import (
    CompactionEnd,
    MessageEnd,
    RetryEnd,
    RetryStart,
    SummaryRetryScheduled,
    SummaryRetryStart,
)
from pimetrics.keys import Key
from pimetrics.names import error_type
from pimetrics.reducing.scene import Moment, Scene
from pimetrics.rows import UNFINISHED

_CANCELLED: Final = "Retry cancelled"


class _Attempt(NamedTuple):
    number: int | None
    key: Key
    values: dict[str, Any]


class Retries:
    """Reduces retries of turns and of summaries."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._turn: _Attempt | None = None
        self._discarded: dict[str, Any] = {}  # the answer that a retry would throw away
        self._waiting: list[SummaryRetryScheduled] = []  # announced, scope not known yet
        self._summary: _Attempt | None = None
        self._summary_scope: str | None = None

    def message(self, event: MessageEnd, _moment: Moment) -> None:
        """Remember the answer that a retry would throw away."""
        message = event.message
        if message.role == "assistant":
            usage = message.usage
            self._discarded = {
                "provider": message.provider,
                "model": message.response_model or message.model,
                "discarded_tokens": usage.tokens if usage else None,
                "discarded_cost_usd": usage.cost if usage else None,
            }

    # --- turns ------------------------------------------------------------------------------------------------------

    def start(self, event: RetryStart) -> None:
        """Another attempt at a turn is announced."""
        if self._turn is not None:
            # Numbers that do not rise are a new series: the end of the old one was lost.
            follows = (event.attempt or 0) > (self._turn.number or 0)
            self._end_turn("failed" if follows else UNFINISHED)
        values = self._values("turn", event) | self._discarded
        self._discarded = {}
        self._turn = self._announce("turn", event.attempt, values)

    def end(self, event: RetryEnd) -> None:
        """The series is over."""
        if event.success:
            self._end_turn("success")
        else:
            self._end_turn("aborted" if event.final_error == _CANCELLED else "exhausted")

    def _end_turn(self, outcome: str) -> None:
        if self._turn is not None:
            self._finish(self._turn, outcome)
            self._turn = None

    # --- summaries --------------------------------------------------------------------------------------------------

    def schedule(self, event: SummaryRetryScheduled, *, compacting: bool) -> None:
        """Another attempt at a summary is announced; an open compaction is what it is for."""
        self._waiting.append(event)
        if compacting:
            self._scoped("compaction")

    def attempt(self, event: SummaryRetryStart, *, compacting: bool) -> None:
        """The attempt begins, and names its scope (or an open compaction does)."""
        self._scoped(event.scope or ("compaction" if compacting else "branch_summary"))

    def finished(self, *, compacting: bool) -> None:
        """The series is over; a compaction that encloses it tells how, and nothing does for a branch summary."""
        self._scoped("compaction" if compacting else "branch_summary")
        if self._summary_scope == "branch_summary":
            self._end_summary("success")

    def compacted(self, event: CompactionEnd) -> None:
        """The compaction that enclosed the series has ended."""
        if event.entry is not None:
            return
        self._scoped("compaction")
        if self._summary_scope == "compaction":
            self._end_summary("success" if event.done else "aborted" if event.aborted else "exhausted")

    def _scoped(self, scope: str) -> None:
        for event in self._waiting:
            if self._summary is not None:
                follows = (event.attempt or 0) > (self._summary.number or 0)
                self._end_summary("failed" if follows else UNFINISHED)
            self._summary_scope = scope
            self._summary = self._announce(scope, event.attempt, self._values(scope, event))
        self._waiting.clear()

    def _end_summary(self, outcome: str) -> None:
        if self._summary is not None:
            self._finish(self._summary, outcome)
        self._summary = self._summary_scope = None

    # --- both -------------------------------------------------------------------------------------------------------

    def close_turn(self) -> None:
        """The prompt is over: a series of its turns that is still open has no end."""
        self._end_turn(UNFINISHED)

    def close(self) -> None:
        """The source is over."""
        self._end_turn(UNFINISHED)
        self._scoped("compaction" if self._summary_scope == "compaction" else "branch_summary")
        self._end_summary(UNFINISHED)

    def _values(self, scope: str, event: RetryStart | SummaryRetryScheduled) -> dict[str, Any]:
        return self._scene.when(event.received_ms) | {
            "scope": scope,
            "attempt": event.attempt,
            "max_attempts": event.max_attempts,
            "delay_s": None if event.delay_ms is None else event.delay_ms / 1000,
            "error_type": error_type(event.error),
        }

    def _announce(self, scope: str, attempt: int | None, values: dict[str, Any]) -> _Attempt:
        name: Key = ("retry", self._scene.anchor, scope, attempt)
        key = (*name, self._scene.number(name))
        self._scene.emit("retries", key, dict(values))
        return _Attempt(attempt, key, values)

    def _finish(self, attempt: _Attempt, outcome: str) -> None:
        self._scene.emit("retries", attempt.key, attempt.values | {"outcome": outcome})

"""Prompts, runs and turns: the units of work.

A *turn* is one answer and its tools; session files give turns too. A *run* is `agent_start` to `agent_end`; a retry
or a compaction starts another one for the same *prompt*, which lasts to `agent_settled` (from 0.80.4), before that to
the next run that a user message begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pimetrics import keys
from pimetrics.events import MessageEnd, RetryStart, RunEnd, RunStart, Settled, TurnEnd, TurnStart
from pimetrics.keys import Key
from pimetrics.reducing.scene import Moment, Scene, seconds
from pimetrics.rows import UNFINISHED

_OUTCOMES = {"error": "error", "aborted": "aborted"}


class _Turn:
    """A turn in progress."""

    def __init__(self, when: dict[str, Any], received_ms: int | None) -> None:
        self.when = when
        self.received_ms = received_ms
        self.key: Key | None = None
        self.values: dict[str, Any] = {}


class _Run:
    """A run in progress."""

    def __init__(self, when: dict[str, Any], received_ms: int | None) -> None:
        self.when = when
        self.received_ms = received_ms
        self.key: Key | None = None
        self.begun = False  # a message other than the system's has come
        self.turns = 0
        self.outcome = "ok"


class _Prompt:
    """A prompt in progress (streams)."""

    def __init__(self, when: dict[str, Any], received_ms: int | None) -> None:
        self.when = when
        self.received_ms = received_ms
        self.key: Key | None = None
        self.runs = 0
        self.turns = 0
        self.outcome: str | None = None


class _Held(NamedTuple):
    """A row that may still turn out to be `retried`."""

    table: str
    key: Key
    values: dict[str, Any]


class Runs:
    """Reduces the units of work of a stream."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._prompt: _Prompt | None = None
        self._run: _Run | None = None
        self._turn: _Turn | None = None
        self._held: list[_Held] = []
        self._settles = False  # this pi writes agent_settled

    @property
    def running_since(self) -> int | None:
        """Start of the run in progress, epoch ms (0 when unknown); None without one."""
        return None if self._run is None else self._run.when["time"] or 0

    def run_start(self, event: RunStart, cut_off: Key | None) -> None:
        """A run begins; one that is still open was cut off, perhaps in the middle of the answer `cut_off`."""
        self._close_run(cut_off)
        when = self._scene.when(event.received_ms)
        self._run = _Run(when, event.received_ms)
        if self._prompt is None:
            self._open_prompt(when, event.received_ms)

    def turn_start(self, event: TurnStart) -> None:
        """A turn begins; one that is still open was cut off."""
        self._cut_turn(None)
        self._turn = _Turn(self._scene.when(event.received_ms), event.received_ms)

    def message(self, event: MessageEnd, moment: Moment) -> None:
        """A user message may begin a prompt; an answer names its turn and its run."""
        message, run = event.message, self._run
        if message.role == "user":
            if run is not None and not run.begun:
                self._prompted(event, moment)
            elif run is None and self._prompt is None:
                self._open_prompt({"time": moment.time, "time_source": moment.time_source}, event.received_ms)
                self._name_prompt(moment)
        if moment.time is not None:
            # RPC output has no header: the first work in it has no time before its first message.
            for begun in (self._prompt, run, self._turn):
                if begun is not None and begun.when["time"] is None:
                    begun.when = {"time": moment.time, "time_source": "anchor"}
        if run is not None and message.role != "system":
            run.begun = True
        if message.role != "assistant":
            return
        self._name_prompt(None)
        outcome = _OUTCOMES.get(message.stop_reason or "", "ok")
        if run is not None:
            run.outcome = outcome
            run.key = run.key or moment.key
        if self._turn is not None and self._turn.key is not None:
            self.turn_end(TurnEnd((), None))  # its end was lost, and so was the start of the next
        if self._turn is None:
            self._turn = _Turn({"time": moment.time, "time_source": moment.time_source}, None)
        self._turn.key = moment.key
        self._turn.values = {
            "provider": message.provider,
            "model": message.response_model or message.model,
            "outcome": outcome,
            "tools": len(message.calls),
        }

    def turn_end(self, event: TurnEnd) -> None:
        """A turn has ended."""
        turn = self._turn or _Turn(self._scene.when(event.received_ms), None)
        self._turn = None
        if self._run is not None:
            self._run.turns += 1
        if self._prompt is not None:
            self._prompt.turns += 1
        values = turn.when | (turn.values or {"outcome": "ok"})
        values |= _length(turn.received_ms, event.received_ms)
        self._give("turns", turn.key or self._nameless("turn"), values, may_retry=values["outcome"] == "error")

    def run_end(self, event: RunEnd, cut_off: Key | None) -> None:
        """A run has ended; before 0.75.4 only what follows says whether it is retried."""
        self._cut_turn(cut_off)
        run = self._run or _Run(self._scene.when(event.received_ms), None)
        self._run = None
        self._name_prompt(None)
        values = run.when | {"outcome": run.outcome, "turns": run.turns}
        values |= _length(run.received_ms, event.received_ms)
        if self._prompt is not None:
            self._prompt.runs += 1
            self._prompt.outcome = run.outcome
        self._give("runs", run.key or self._nameless("run"), values, may_retry=run.outcome == "error")
        if event.will_retry is not None:
            self._settles = True
            self.decide(retried=event.will_retry)

    def retry_start(self, _event: RetryStart) -> None:
        """The run that has just ended is tried again."""
        self.decide(retried=True)

    def settled(self, event: Settled, cut_off: Key | None) -> None:
        """The prompt is done."""
        self._settles = True
        self._close_run(cut_off)
        self._close_prompt("aborted" if event.aborted else None, event.received_ms)

    def decide(self, *, retried: bool) -> None:
        """Give out the rows that waited to know whether their run is retried."""
        held, self._held = self._held, []
        for table, key, values in held:
            if retried:
                values["outcome"] = "retried"
            self._scene.emit(table, key, values)

    @property
    def undecided(self) -> bool:
        """Whether rows wait for the next event to say that their run is retried."""
        return bool(self._held) and self._run is None

    def _close_run(self, cut_off: Key | None) -> None:
        """The open run, if there is one, will not end."""
        self.decide(retried=False)
        self._cut_turn(cut_off)
        run, self._run = self._run, None
        if run is not None:
            self._name_prompt(None)
            key = run.key or cut_off or self._nameless("run")
            self._scene.emit("runs", key, run.when | {"outcome": UNFINISHED, "turns": run.turns})
            if self._prompt is not None:
                self._prompt.runs += 1
                self._prompt.outcome = UNFINISHED

    def close(self, cut_off: Key | None) -> None:
        """The source is over."""
        self._close_run(cut_off)
        self._close_prompt(UNFINISHED if self._settles else None, None)

    # --- turns ------------------------------------------------------------------------------------------------------

    def _cut_turn(self, cut_off: Key | None) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        values = turn.when | turn.values | {"outcome": UNFINISHED}
        self._scene.emit("turns", turn.key or cut_off or self._nameless("turn"), values)

    def _give(self, table: str, key: Key, values: dict[str, Any], *, may_retry: bool) -> None:
        values["prompt_id"] = self._scene.here.prompt_id
        if may_retry:
            self._held.append(_Held(table, key, values))
        else:
            self._scene.emit(table, key, values)

    def _nameless(self, kind: str) -> Key:
        name: Key = (kind, self._scene.anchor)
        return (*name, self._scene.number(name))

    # --- prompts ----------------------------------------------------------------------------------------------------

    def _prompted(self, event: MessageEnd, moment: Moment) -> None:
        """A run begins with a user message: a new prompt, also where no agent_settled ended the one before."""
        prompt = self._prompt
        if prompt is not None and prompt.key is not None:
            self._close_prompt(None, None)
            prompt = None
        when = {"time": moment.time, "time_source": moment.time_source}
        if prompt is None:
            self._open_prompt(when, event.received_ms)
        else:
            prompt.when = when
        self._name_prompt(moment)

    def _open_prompt(self, when: dict[str, Any], received_ms: int | None) -> None:
        self._prompt = _Prompt(when, received_ms)
        self._scene.here = self._scene.here._replace(prompt=None, prompt_id=None)

    def _name_prompt(self, moment: Moment | None) -> None:
        prompt = self._prompt
        if prompt is None or prompt.key is not None:
            return
        prompt.key = moment.key if moment else self._nameless("prompt")
        prompt_id = keys.row_id("prompts", prompt.key)
        self._scene.here = self._scene.here._replace(prompt=prompt.key, prompt_id=prompt_id)

    def _close_prompt(self, outcome: str | None, received_ms: int | None) -> None:
        prompt = self._prompt
        if prompt is None:
            return
        self._name_prompt(None)
        self._prompt = None
        if prompt.key is None:
            return
        values = prompt.when | {
            "outcome": outcome or prompt.outcome or "ok",
            "turns": prompt.turns,
            "runs": prompt.runs,
        }
        start = prompt.when["time"] if prompt.when["time_source"] == "message" else prompt.received_ms
        values |= _length(start if received_ms is not None else None, received_ms)
        self._scene.emit("prompts", prompt.key, values, in_prompt=False)
        self._scene.here = self._scene.here._replace(prompt=None, prompt_id=None)


def _length(first_ms: int | None, last_ms: int | None) -> dict[str, Any]:
    took = seconds(first_ms, last_ms)
    return {"duration_s": took, "duration_source": None if took is None else "arrival"}

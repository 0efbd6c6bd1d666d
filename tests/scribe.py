"""Plays a plan of a session and writes what pi would: the event stream, the session file, and the truth of both.

A small model of pi, made from the wire reference and checked against the recordings by eye; the property tests use it to
make sessions that nobody recorded. What it leaves out: extensions, images, tree navigation inside a run, version 1 and 2
files, overlapping compactions, nested tool calls, branch summaries.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support import stamped, to_json

START_MS = 1_796_065_800_000


@dataclass(frozen=True)
class Dialect:
    """What a version of pi writes."""

    name: str
    cumulative: bool = False
    auto_names: bool = False
    update_usage: bool = False
    settles: bool = True
    durations: bool = False
    system: bool = False
    compaction_usage: bool = False
    queue: bool = True


DIALECTS = (
    Dialect("0.58.4", cumulative=True, auto_names=True, settles=False, queue=False),
    Dialect("0.73.1", cumulative=True, settles=False),
    Dialect("0.80.10", cumulative=True),
    Dialect("0.84.0", compaction_usage=True),
    Dialect("1.6.0", update_usage=True, durations=True, system=True, compaction_usage=True),
)


@dataclass(frozen=True)
class Call:
    """A tool call."""

    tool: str = "bash"
    outcome: str = "ok"
    ms: int = 30


@dataclass(frozen=True)
class Answer:
    """An assistant message, the failed tries before it, and its tools."""

    text: str = "Tea."
    tokens: tuple[int, int, int, int] = (10, 5, 0, 0)
    cost: float = 0.001
    calls: tuple[Call, ...] = ()
    backwards: bool = False  # tools end in the order last to first
    updates: int = 1
    tries: int = 0  # failed tries before it
    stop: str = "stop"
    step_ms: int = 7
    model: str = "quill-small"


@dataclass(frozen=True)
class Compaction:
    """A compaction after a run."""

    reason: str = "threshold"
    outcome: str = "ok"
    tries: int = 0


@dataclass(frozen=True)
class Prompt:
    """A user message and the work on it."""

    text: str = "What is there?"
    answers: tuple[Answer, ...] = (Answer(),)
    compaction: Compaction | None = None
    warm: bool = False
    queued: int = 0
    branch: bool = False  # the user goes back to the start of the tree first


@dataclass(frozen=True)
class Plan:
    """A session."""

    dialect: Dialect = DIALECTS[-1]
    prompts: tuple[Prompt, ...] = (Prompt(),)
    stamps: bool = False
    rpc: bool = False
    id: str = "01a22ddd-0000-7000-8000-000000000001"
    cwd: str = "/home/dev/shop"


@dataclass
class Truth:
    """What happened, counted apart from anything that reads it."""

    tokens: Counter[tuple[str, str]] = field(default_factory=Counter)  # (operation, kind)
    pico: Counter[str] = field(default_factory=Counter)  # by operation
    requests: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    tools: Counter[tuple[str, str]] = field(default_factory=Counter)  # (tool, outcome)
    retries: Counter[tuple[str, str]] = field(default_factory=Counter)  # (scope, outcome)
    compactions: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    runs: int = 0
    prompts: int = 0


@dataclass
class Session:
    """What a plan gives."""

    stream: list[bytes]
    file: list[bytes]
    truth: Truth

    @property
    def stream_bytes(self) -> bytes:
        return b"".join(line + b"\n" for line in self.stream)

    @property
    def file_bytes(self) -> bytes:
        return b"".join(line + b"\n" for line in self.file)

    def fork(self, at: int, session_id: str) -> bytes:
        """Return the file of a fork that copied the first `at` entries."""
        header = {
            "type": "session", "version": 3, "id": session_id, "timestamp": _iso(START_MS + 9_000_000),
            "cwd": "/home/dev/shop", "parentSession": "/home/dev/old_01a22ddd.jsonl",
        }  # fmt: skip
        return b"".join(line + b"\n" for line in [to_json(header), *self.file[1 : 1 + at]])


def play(plan: Plan) -> Session:
    """Write the session of a plan."""
    return _Pi(plan).run()


class _Pi:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.dialect = plan, plan.dialect
        self.now = START_MS
        self.stream: list[bytes] = []
        self.file: list[bytes] = []
        self.truth = Truth()
        self.leaf: str | None = None
        self.entries = self.calls = 0
        self.run_messages: list[dict[str, Any]] = []

    def run(self) -> Session:
        plan = self.plan
        header = {"type": "session", "version": 3, "id": plan.id, "timestamp": _iso(self.now), "cwd": plan.cwd}
        self.file.append(to_json(header))
        if plan.rpc:
            self.event("response", command="get_state", success=True, data={"sessionId": plan.id})
        else:
            self.event(**header)
        self.entry("model_change", provider="quill", modelId="quill-small")
        for prompt in plan.prompts:
            if prompt.branch:
                self.leaf = None
            self.prompt(prompt)
        return Session(self.stream, self.file, self.truth)

    def event(self, type: str, **values: Any) -> None:  # noqa: A002  the name on the wire
        line = to_json({"type": type} | values)
        self.stream.append(stamped(line, self.now) if self.plan.stamps else line)

    def entry(self, type: str, **values: Any) -> dict[str, Any]:  # noqa: A002
        self.entries += 1
        here = f"{self.entries:08x}"
        made = {"type": type, "id": here, "parentId": self.leaf, "timestamp": _iso(self.now)} | values
        self.file.append(to_json(made))
        self.leaf = here
        return made

    def settle(self, message: dict[str, Any]) -> None:
        self.event("message_end", message=message)
        self.entry("message", message=message)
        self.run_messages.append(message)

    def prompt(self, prompt: Prompt) -> None:
        self.now += 1000
        self.truth.prompts += 1
        self.begin_run()
        if self.dialect.system and not self.truth.requests:
            system = {"role": "system", "content": "", "timestamp": self.now}
            self.event("message_start", message=system)
            self.settle(system)
        self.now += 1
        user = {"role": "user", "content": [{"type": "text", "text": prompt.text}], "timestamp": self.now}
        self.event("message_start", message=user)
        self.settle(user)
        if prompt.queued and self.dialect.queue:
            self.event("queue_update", steering=[], followUp=["later"] * prompt.queued)
            self.event("queue_update", steering=[], followUp=[])
        for number, answer in enumerate(prompt.answers):
            if number:
                self.event("turn_start")
            self.answer(answer)
            if number == 0 and prompt.warm and self.dialect.update_usage:
                self.warm()
            if answer.stop != "toolUse":
                break
        self.end_run(will_retry=False)
        if prompt.compaction:
            self.compact(prompt.compaction)
        if self.dialect.settles:
            self.event("agent_settled")

    def begin_run(self) -> None:
        self.truth.runs += 1
        self.run_messages = []
        self.event("agent_start")
        self.event("turn_start")

    def end_run(self, *, will_retry: bool) -> None:
        more = {"willRetry": will_retry} if self.dialect.settles else {}
        self.event("agent_end", messages=self.run_messages, **more)

    def answer(self, answer: Answer) -> None:
        for number in range(1, answer.tries + 1):
            failed = Answer("", (3, 0, 0, 0), 0.0, stop="error", updates=0, step_ms=answer.step_ms)
            self.event("turn_end", message=self.message(failed, []), toolResults=[])
            self.end_run(will_retry=True)
            self.event(
                "auto_retry_start", attempt=number, maxAttempts=3, delayMs=120, errorMessage="529 overloaded_error"
            )
            self.truth.retries["turn", "success" if number == answer.tries else "failed"] += 1
            self.now += 120
            self.begin_run()
        blocks = []
        for call in answer.calls:
            self.calls += 1
            blocks.append((f"call_{self.calls % 3}", call))  # ids are reused, as some providers do
        message = self.message(answer, blocks)
        if answer.tries:
            self.event("auto_retry_end", success=True, attempt=answer.tries)
        results = self.tools(blocks, backwards=answer.backwards) if answer.stop == "toolUse" else []
        self.event("turn_end", message=message, toolResults=results)

    def message(self, answer: Answer, blocks: list[tuple[str, Call]]) -> dict[str, Any]:
        self.now += answer.step_ms
        self.truth.turns += 1
        started = self.now
        names = {"api": "openai-completions", "provider": "quill", "model": answer.model}
        begun = {
            "role": "assistant",
            "content": [],
            **names,
            "usage": _usage((0, 0, 0, 0), 0),
            "stopReason": "pending",
            "timestamp": started,
        }
        self.event("message_start", message=begun)
        usage = _usage(answer.tokens, answer.cost)
        for number in range(answer.updates):
            self.now += 1
            self.update({"type": "text_delta", "contentIndex": 0, "delta": answer.text}, begun, usage, number)
        content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}]
        content += [
            {"type": "toolCall", "id": i, "name": c.tool, "arguments": {"command": c.outcome}} for i, c in blocks
        ]
        message = begun | {"content": content, "usage": usage, "stopReason": answer.stop}
        if answer.stop == "error":
            message["errorMessage"] = "529 overloaded_error"
        if self.dialect.durations:
            message["durationMs"] = answer.updates + 1
        self.settle(message)
        self.truth.requests += 1
        self.truth.stops[answer.stop] += 1
        self.spent("turn", answer.tokens, answer.cost)
        return message

    def update(self, step: dict[str, Any], begun: dict[str, Any], usage: dict[str, Any], number: int) -> None:
        if self.dialect.cumulative:
            so_far = begun | {"content": [{"type": "text", "text": step["delta"] * (number + 1)}], "usage": usage}
            self.event("message_update", assistantMessageEvent=step | {"partial": so_far}, message=so_far)
        elif self.dialect.update_usage:
            self.event("message_update", usage=usage, assistantMessageEvent=step)
        else:
            self.event("message_update", assistantMessageEvent=step)

    def tools(self, blocks: list[tuple[str, Call]], *, backwards: bool) -> list[dict[str, Any]]:
        for call_id, call in blocks:
            self.event("tool_execution_start", toolCallId=call_id, toolName=call.tool, args={"command": call.outcome})
        texts = {"ok": "done", "error": "exit 1", "aborted": "no\nCommand aborted"}
        for call_id, call in reversed(blocks) if backwards else blocks:
            self.now += call.ms
            values: dict[str, Any] = {"durationMs": call.ms} if self.dialect.durations else {}
            result = {"content": [{"type": "text", "text": texts[call.outcome]}]}
            is_error = call.outcome != "ok"
            self.event("tool_execution_update", toolCallId=call_id, toolName=call.tool, args={}, partialResult=result)
            self.event(
                "tool_execution_end", toolCallId=call_id, toolName=call.tool, result=result, isError=is_error, **values
            )
            self.truth.tools[call.tool, call.outcome] += 1
        results = []
        for call_id, call in blocks:
            content = [{"type": "text", "text": texts[call.outcome]}]
            message = {
                "role": "toolResult",
                "toolCallId": call_id,
                "toolName": call.tool,
                "content": content,
                "isError": call.outcome != "ok",
                **({"durationMs": call.ms} if self.dialect.durations else {}),
                "timestamp": self.now,
            }
            self.event("message_start", message=message)
            self.settle(message)
            results.append(message)
        return results

    def warm(self) -> None:
        usage = _usage((1, 1, 900, 0), 0.0001)
        entry = self.entry("usage", kind="cache_warm", provider="quill", model="quill-small", usage=usage)
        self.event("entry_appended", entry=entry)
        self.spent("cache_warm", (1, 1, 900, 0), 0.0001)

    def compact(self, plan: Compaction) -> None:
        prefix = "auto_" if self.dialect.auto_names else ""
        why = {} if self.dialect.auto_names else {"reason": plan.reason}
        self.event(f"{prefix}compaction_start", reason=plan.reason)
        if self.dialect.compaction_usage:
            for number in range(1, plan.tries + 1):
                self.event(
                    "summarization_retry_scheduled", attempt=number, maxAttempts=3, delayMs=50, errorMessage="529"
                )
                self.event("summarization_retry_attempt_start", source="compaction")
                ended = {"ok": "success", "failed": "exhausted", "aborted": "aborted"}[plan.outcome]
                self.truth.retries["compaction", ended if number == plan.tries else "failed"] += 1
            if plan.tries:
                self.event("summarization_retry_finished")
        self.now += 40
        self.truth.compactions[plan.outcome] += 1
        if plan.outcome != "ok":
            extra = {"errorMessage": "no summary"} if plan.outcome == "failed" else {}
            self.event(f"{prefix}compaction_end", **why, aborted=plan.outcome == "aborted", willRetry=False, **extra)
            return
        usage = {"usage": _usage((50, 9, 0, 0), 0.002)} if self.dialect.compaction_usage else {}
        result = {"summary": "So far.", "firstKeptEntryId": "00000001", "tokensBefore": 5000, **usage}
        shown = result | ({"estimatedTokensAfter": 900} if self.dialect.settles else {})  # not in the file
        self.event(f"{prefix}compaction_end", **why, result=shown, aborted=False, willRetry=False)
        self.entry("compaction", **result)
        if usage:
            self.spent("compaction", (50, 9, 0, 0), 0.002)

    def spent(self, operation: str, tokens: tuple[int, int, int, int], cost: float) -> None:
        for kind, amount in zip(("input", "output", "cache_read", "cache_write"), tokens, strict=True):
            self.truth.tokens[operation, kind] += amount
        self.truth.pico[operation] += round(cost * 10**12)


def _usage(tokens: tuple[int, int, int, int], cost: float) -> dict[str, Any]:
    names = ("input", "output", "cacheRead", "cacheWrite")
    parts = dict.fromkeys(names, 0)
    return dict(zip(names, tokens, strict=True)) | {"totalTokens": sum(tokens), "cost": parts | {"total": cost}}


def _iso(ms: int) -> str:
    when = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"

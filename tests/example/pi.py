"""A model of pi for the example archive: what happens in a session goes to its file and to the recording of the run.

It makes no choices (`story` does) and counts what it writes in `books`. Shapes and orders are those of the recordings;
what differs between versions of pi is a `Dialect` of `tests.scribe`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.bench.parts import Model, iso, system_message
from tests.example.books import Books, Spent, Sum
from tests.scribe import Dialect
from tests.support import stamped, to_json

Record = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call: how long it takes in ms, and what it gives back."""

    tool: str
    args: Record
    ms: int
    text: str
    outcome: str = "ok"
    spent: Spent | None = None


@dataclass(frozen=True)
class Reply:
    """An answer of a model. Times in ms: to the first piece, and in all.

    Attributes:
        kept: False when pi was killed before the answer was whole: only updates tell of it.
    """

    spent: Spent
    thinking: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    first_ms: int = 400
    ms: int = 2000
    stop: str = "stop"
    error: str = ""
    kept: bool = True


class Pi:
    """One session: its file, and the recordings of the runs that were recorded."""

    def __init__(self, books: Books, session_id: str, cwd: str, now: int, parent: Pi | None = None) -> None:
        self.books = books
        self.id = session_id
        self.now = now
        self.start = now
        self.own = Sum()
        self.model: Model | None = None
        self.level = "low"
        self.leaf: str | None = None
        self.streams: list[tuple[int, list[bytes]]] = []
        self.header: Record = {"type": "session", "version": 3, "id": session_id, "timestamp": iso(now), "cwd": cwd}
        if parent is not None:
            self.header["parentSession"] = f"/home/mira/.pi/agent/sessions/{parent.folder}/{parent.name}"
        self.entries: list[Record] = []
        self.spent: dict[str, Spent] = {}
        self.copied = Sum()
        self._stream: list[bytes] | None = None
        self._made = 0
        self._kept: list[Record] = []  # messages of the run

    @property
    def name(self) -> str:
        """Its file name, as pi makes it."""
        return f"{iso(self.start).replace(':', '-').replace('.', '-')}_{self.id}.jsonl"

    @property
    def folder(self) -> str:
        """The folder of its project."""
        return f"--{self.header['cwd'].strip('/').replace('/', '-')}--"

    # --- a process of pi --------------------------------------------------------------------------------------------

    def open(self, dialect: Dialect, model: Model, *, recorded: bool, rpc: bool = False) -> None:
        """Pi starts, or is started again on this session."""
        self.dialect = dialect
        self._stream = [] if recorded else None
        if self._stream is not None:
            self.streams.append((self.now, self._stream))
            if rpc:
                self.event("response", command="get_state", success=True, data={"sessionId": self.id})
            else:
                self.event(**self.header)
        if model != self.model:
            self.model = model
            self.entry("model_change", provider=model.provider, modelId=model.name)
            if not self._made - 1:
                self.entry("thinking_level_change", thinkingLevel=self.level)

    def copy(self, other: Pi, upto: str) -> None:
        """Begin with what another session holds on the branch that ends at an entry: a fork."""
        by_id = {entry["id"]: entry for entry in other.entries}
        place: str | None = upto
        branch: list[Record] = []
        while place is not None:
            branch.append(by_id[place])
            place = branch[-1]["parentId"]
        self.entries = branch[::-1]
        self.leaf, self._made, self.model = upto, 0x8000, other.model
        for entry in self.entries:
            if entry["id"] in other.spent:
                self.copied.add(other.spent[entry["id"]])

    def close(self) -> None:
        """The session is over: what lies off the branch that it ended on was abandoned."""
        parents = {entry["id"]: entry["parentId"] for entry in self.entries}
        place, branch = self.leaf, set()
        while place is not None:
            branch.add(place)
            place = parents[place]
        for entry_id, spent in self.spent.items():
            if entry_id not in branch:
                self.books.abandoned.add(spent)
        told = {"cwd": self.header["cwd"], "own": self.own.as_json()}
        self.books.sessions[self.id] = told | ({"copied": self.copied.as_json()} if self.copied.rows else {})
        self.books.copied.join(self.copied)

    def event(self, type: str, **values: Any) -> None:  # noqa: A002  the name on the wire
        """A record of the stream, stamped with the time it arrived."""
        if self._stream is not None:
            self._stream.append(stamped(to_json({"type": type} | values), self.now))

    def entry(self, type: str, spent: Spent | None = None, /, **values: Any) -> str:  # noqa: A002
        """An entry of the file; returns its id."""
        self._made += 1
        here = f"{(self._made * 2654435761 + self.start) & 0xFFFFFFFF:08x}"
        self.entries.append({"type": type, "id": here, "parentId": self.leaf, "timestamp": iso(self.now)} | values)
        self.leaf = here
        if spent is not None:
            self.spent[here] = spent
            self.own.add(spent)
        return here

    def _book(self, operation: str, spent: Spent) -> None:
        assert self.model is not None
        self.books.spend(operation, spent, self.model)

    def _wire(self, spent: Spent) -> Record:
        return spent.wire(reasoning=self.dialect.settles, flagged=self.dialect.durations)

    def _settle(self, message: Record, operation: str = "", spent: Spent | None = None) -> None:
        self.event("message_end", message=message)
        self.entry("message", spent, message=message)
        self._kept.append(message)
        if spent is not None:
            self._book(operation, spent)

    # --- prompts, runs, turns ---------------------------------------------------------------------------------------

    def prompt(self, text: str, *, queued: int = 0) -> None:
        """The user asks; a run begins."""
        self.books.prompts += 1
        self.run()
        if self.dialect.system and not any("message" in entry for entry in self.entries):
            system = json.loads(system_message(self.now))
            self.event("message_start", message=system)
            self._settle(system)
        self.now += 3
        user = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": self.now}
        self.event("message_start", message=user)
        self._settle(user)
        for depth in (queued, 0) if queued and self.dialect.queue else ():
            self.event("queue_update", steering=[], followUp=["later"] * depth)

    def run(self) -> None:
        """`agent_start` and the first turn of a run."""
        self._kept = []
        self.event("agent_start")
        self.event("turn_start")

    def end_run(self, outcome: str, *, will_retry: bool = False) -> None:
        """`agent_end`."""
        if self._stream is not None:
            self.books.runs[outcome] += 1
        more = {"willRetry": will_retry} if self.dialect.settles else {}
        self.event("agent_end", messages=self._kept, **more)

    def settled(self, *, aborted: bool = False) -> None:
        """`agent_settled`: all work on the prompt is done."""
        if self.dialect.settles:
            self.event("agent_settled", **({"aborted": aborted} if self.dialect.durations else {}))

    def turn(self, reply: Reply, *, after_retry: int = 0) -> None:
        """A turn: an answer and its tools. `after_retry` is the attempt that it ends."""
        message = self._answer(reply)
        if not reply.kept:
            return
        if after_retry:
            self.end_retry(after_retry, "success")
        results = self._tools(message, reply.calls) if reply.calls else []
        self.event("turn_end", message=message, toolResults=results)

    def next_turn(self) -> None:
        """Another turn of the run begins."""
        self.now += 9
        self.event("turn_start")

    def _answer(self, reply: Reply) -> Record:
        model, dialect, started = reply.spent.model, self.dialect, self.now
        content: list[Record] = []
        if reply.thinking:
            content.append({"type": "thinking", "thinking": reply.thinking, "thinkingSignature": "c2lnbmVk"})
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        calls = [
            {"type": "toolCall", "id": f"call_{self._made:x}_{number}", "name": call.tool, "arguments": call.args}
            for number, call in enumerate(reply.calls)
        ]
        begun: Record = {
            "role": "assistant", "content": [], "api": model.api, "provider": model.provider, "model": model.name,
            "usage": self._wire(Spent(model)), "stopReason": "stop" if dialect.cumulative else "pending",
            "timestamp": started,
        }  # fmt: skip
        usage = self._wire(reply.spent)
        if content or not reply.error:
            self.now = started + reply.first_ms
            self.event("message_start", message=begun)
            self._updates(begun, content, usage, started + reply.ms)
        self.now = started + reply.ms
        message = begun | {"content": content + calls, "usage": usage, "stopReason": reply.stop}
        if not reply.kept:
            told = dialect.cumulative or dialect.update_usage
            self.books.unfinished.add(reply.spent if told else Spent(model))
            self.books.runs["unfinished"] += 1
            return message
        if reply.error:
            message["errorMessage"] = reply.error
        elif not dialect.cumulative or dialect.settles:
            message["responseId"] = f"msg_{self.start & 0xFFFFF:05x}{self._made:04x}"
        if dialect.durations:
            message |= {"durationMs": reply.ms, "thinkingLevel": self.level}
        self._settle(message, "turn", reply.spent)
        self.books.turns += 1
        self.books.stops[reply.stop] += 1
        return message

    def _updates(self, begun: Record, content: list[Record], usage: Record, until: int) -> None:
        """Two pieces a block: enough for a time to the first token, and short."""
        pieces = [
            (index, block, text)
            for index, block in enumerate(content)
            for text in _halves(block["text"] if block["type"] == "text" else block["thinking"])
        ]
        begin, sofar = self.now, ""
        for number, (index, block, piece) in enumerate(pieces):
            self.now = begin + (until - begin) * number // len(pieces)
            step = {"type": f"{block['type']}_delta", "contentIndex": index, "delta": piece}
            sofar = piece if number and pieces[number - 1][0] != index else sofar + piece
            if self.dialect.cumulative:
                shown = block | {block["type"]: sofar}
                partial = begun | {"content": [*content[:index], shown], "usage": usage}
                self.event("message_update", assistantMessageEvent=step | {"partial": partial}, message=partial)
            elif self.dialect.update_usage:
                self.event("message_update", usage=usage, assistantMessageEvent=step)
            else:
                self.event("message_update", assistantMessageEvent=step)

    def _tools(self, message: Record, calls: tuple[Call, ...]) -> list[Record]:
        """Run the calls of a message side by side; results follow in call order when the last has ended."""
        ids = [block["id"] for block in message["content"] if block["type"] == "toolCall"]
        self.now += 6
        begin = self.now
        for call_id, call in zip(ids, calls, strict=True):
            self.event("tool_execution_start", toolCallId=call_id, toolName=call.tool, args=call.args)
        for call_id, call in sorted(zip(ids, calls, strict=True), key=lambda pair: pair[1].ms):
            self.now = begin + call.ms
            named = {"toolCallId": call_id, "toolName": call.tool}
            result = {"content": [{"type": "text", "text": call.text}]}
            took = {"durationMs": call.ms} if self.dialect.durations else {}
            self.event("tool_execution_end", **named, result=result, isError=call.outcome != "ok", **took)
            self.books.tools[call.tool, call.outcome] += 1
        results = []
        for call_id, call in zip(ids, calls, strict=True):
            told: Record = {
                "role": "toolResult", "toolCallId": call_id, "toolName": call.tool,
                "content": [{"type": "text", "text": call.text}],
            }  # fmt: skip
            spent = call.spent if self.dialect.compaction_usage else None
            if spent is not None:
                told["usage"] = self._wire(spent)
            told["isError"] = call.outcome != "ok"
            if self.dialect.durations:
                told["durationMs"] = call.ms
            told["timestamp"] = self.now
            self.event("message_start", message=told)
            self._settle(told, "tool", spent)
            results.append(told)
        return results

    # --- what goes wrong, and what keeps the context small ----------------------------------------------------------

    def fail(self, reply: Reply, attempt: int, delay_ms: int, error_type: str) -> None:
        """An answer that is an error, thrown away; pi waits and tries again in another run."""
        message = self._answer(reply)
        self.event("turn_end", message=message, toolResults=[])
        self.end_run("retried", will_retry=True)
        self.event("auto_retry_start", attempt=attempt, maxAttempts=3, delayMs=delay_ms, errorMessage=reply.error)
        self.leave_out()
        if self._stream is not None:
            self.books.errors[error_type] += 1
            self.books.backoff_ms += delay_ms
            self.books.discarded.add(reply.spent)
            if attempt > 1:
                self.books.retries["failed"] += 1
        self.now += delay_ms

    def leave_out(self) -> None:
        """The failed answer is kept out of the context from here on (from 0.87)."""
        if self.dialect.system:
            self.entry("context_edit", targetId=self.leaf, replacement=None)
            self.event("entry_appended", entry=self.entries[-1])

    def refuse(self, reply: Reply) -> None:
        """An answer that is an error and ends its run."""
        message = self._answer(reply)
        self.event("turn_end", message=message, toolResults=[])
        self.end_run("error")

    def end_retry(self, attempt: int, outcome: str, error: str = "") -> None:
        """The series is over: success, exhausted or aborted."""
        more = {} if outcome == "success" else {"finalError": "Retry cancelled" if outcome == "aborted" else error}
        self.event("auto_retry_end", success=outcome == "success", attempt=attempt, **more)
        if self._stream is not None:
            self.books.retries[outcome] += 1

    def compact(self, reason: str, before: int, after: int, spent: Spent, ms: int, *, will_retry: bool = False) -> None:
        """The context is replaced by a summary."""
        self.event("compaction_start", reason=reason)
        self.now += ms
        result: Record = {
            "summary": "## Goal\nMake the report exact.\n\n## Done\n- tests added\n- rounding mended",
            "firstKeptEntryId": self.leaf, "tokensBefore": before,
            "details": {"readFiles": ["src/report.py"], "modifiedFiles": ["src/report.py"]},
        }  # fmt: skip
        paid = self.dialect.compaction_usage
        if paid:
            result["usage"] = self._wire(spent)
        shown = result | ({"estimatedTokensAfter": after} if self.dialect.settles else {})  # not in the file
        self.event("compaction_end", reason=reason, result=shown, aborted=False, willRetry=will_retry)
        self.entry("compaction", spent if paid else None, **result, fromHook=False)
        if paid:
            self._book("compaction", spent)
        self.books.compactions[reason if self._stream is not None else "unknown", "ok"] += 1

    def fail_compaction(self, reason: str, ms: int) -> None:
        """A summary that was refused: only a stream tells of it."""
        if self._stream is None:
            return
        self.event("compaction_start", reason=reason)
        self.now += ms
        told = "Auto-compaction failed: 400: summary refused"
        self.event("compaction_end", reason=reason, aborted=False, willRetry=False, errorMessage=told)
        self.books.compactions[reason, "failed"] += 1

    def warm(self, spent: Spent) -> None:
        """Pi keeps the cache warm while a tool runs: paid work without a message."""
        model = spent.model
        usage = self._wire(spent)
        self.entry("usage", spent, kind="cache_warm", provider=model.provider, model=model.name, usage=usage)
        self.event("entry_appended", entry=self.entries[-1])
        self._book("cache_warm", spent)

    def go_back(self, to: str, summary: Spent | None) -> None:
        """The user goes back in the tree, with or without a summary of what is left behind."""
        left = self.leaf
        self.leaf = to
        if summary is not None and self.dialect.compaction_usage:
            told = "The user explored another way before.\n\n## Goal\nTry a table."
            self.entry("branch_summary", summary, fromId=left, summary=told, usage=self._wire(summary))
            self._book("branch_summary", summary)

    def name_it(self, name: str) -> None:
        """The user gives the session a name."""
        self.entry("session_info", name=name)


def _halves(text: str) -> tuple[str, ...]:
    middle = len(text) // 2
    return (text[:middle], text[middle:]) if middle else (text,)

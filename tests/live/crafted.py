"""Builds session files with every kind of spend, and keeps its own sum of what each holds.

The sum is a second witness: pi's answer is compared with it too, so a file that pi reads differently from what was
meant (or not at all) cannot pass unseen.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FIRST_MS = 1_793_786_400_000
"""Time of the first header (2026-11-04): any fixed time that is no one's session."""

STEP_MS = 7_013
WIRE_NAMES = {"input": "input", "output": "output", "cache_read": "cacheRead", "cache_write": "cacheWrite"}
RATES = {"input": 3.1, "output": 15.7, "cache_read": 0.31, "cache_write": 3.9}
"""USD for a million tokens; odd enough that the costs are no round doubles."""


def usage(input: int = 0, output: int = 0, cache_read: int = 0, cache_write: int = 0, **more: Any) -> dict[str, Any]:  # noqa: A002
    """Return a usage object as pi writes it; `more` adds fields such as `reasoning` and `cacheWrite1h`."""
    tokens = {"input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write}
    parts = {WIRE_NAMES[name]: RATES[name] * count / 1e6 if count else 0 for name, count in tokens.items()}
    return {
        **{WIRE_NAMES[name]: count for name, count in tokens.items()},
        "totalTokens": sum(tokens.values()),
        "cost": {**parts, "total": sum(parts.values())},
        **more,
    }


@dataclass
class Spend:
    """What a session holds, as `report --json` names it; cost in USD."""

    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WIRE_NAMES, 0))
    cost_usd: float = 0.0
    rows: int = 0

    def add(self, one: dict[str, Any]) -> None:
        """Add a usage object."""
        for name, wire in WIRE_NAMES.items():
            self.tokens[name] += one[wire]
        self.cost_usd += one["cost"]["total"]
        self.rows += 1


class Session:
    """A session file in the making: entries are appended after the entry `at`, which can be moved to branch off.

    Args:
        session_id: Id in the header.
        cwd: Working directory in the header; pi refuses a session whose folder is gone.
        version: Format of the file. Version 1 has no entry ids: every entry follows the line before it.
        parent: File the session was forked from.
        start_ms: Time of the header, epoch ms.
    """

    def __init__(
        self, session_id: str, cwd: Path, version: int = 3, parent: Path | None = None, start_ms: int = FIRST_MS
    ) -> None:
        self.spend = Spend()
        self.at: str | None = None
        self._version = version
        self._ms = start_ms
        self._ids = 0
        header: dict[str, Any] = {"type": "session", "id": session_id, "timestamp": _iso(start_ms), "cwd": str(cwd)}
        if version > 1:
            header["version"] = version
        if parent is not None:
            header["parentSession"] = str(parent)
        self.entries: list[dict[str, Any]] = [header]

    def entry(self, kind: str, /, **fields: Any) -> str:
        """Append an entry after `at` and move there; returns its id."""
        self._ids += 1
        self._ms += STEP_MS
        number = f"{self._ids:08x}"
        place = {"id": number, "parentId": self.at} if self._version > 1 else {}
        self.entries.append({"type": kind, **place, "timestamp": _iso(self._ms), **fields})
        self.at = number
        return number

    def user(self, text: str) -> str:
        """A prompt."""
        message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": self._ms + STEP_MS}
        return self.entry("message", message=message)

    def assistant(
        self, spent: dict[str, Any], *calls: str, stop: str = "stop", model: str = "model-a", **more: Any
    ) -> str:
        """An answer; `calls` are ids of tool calls it asks for."""
        content: list[dict[str, Any]] = [{"type": "text", "text": "ok"}]
        content += [{"type": "toolCall", "id": call, "name": "ask", "arguments": {"item": call}} for call in calls]
        message = {
            "role": "assistant",
            "content": content,
            "api": "openai-completions",
            "provider": "prov-x",
            "model": model,
            "usage": spent,
            "stopReason": "toolUse" if calls else stop,
            "timestamp": self._ms + STEP_MS // 2,
            **more,
        }
        self.spend.add(spent)
        return self.entry("message", message=message)

    def tool_result(self, call: str, spent: dict[str, Any] | None = None, **more: Any) -> str:
        """The result of a tool call, with the usage of the tool's own model work where it had any."""
        message = {
            "role": "toolResult",
            "toolCallId": call,
            "toolName": "ask",
            "content": [{"type": "text", "text": "41"}],
            "isError": False,
            "timestamp": self._ms + STEP_MS,
            **more,
        }
        if spent is not None:
            message["usage"] = spent
            self.spend.add(spent)
        return self.entry("message", message=message)

    def paid(self, kind: str, spent: dict[str, Any], /, **fields: Any) -> str:
        """An entry that is no message and has a usage: compaction, branch_summary, usage."""
        self.spend.add(spent)
        return self.entry(kind, usage=spent, **fields)

    def fork(self, session_id: str, cwd: Path, parent: Path) -> Session:
        """Return a new session that begins with a verbatim copy of the branch that leads to `at`."""
        start_ms = self._ms + STEP_MS
        other = Session(session_id, cwd, self._version, parent, start_ms)
        by_id = {entry["id"]: entry for entry in self.entries[1:]}
        branch, place = [], self.at
        while place is not None:
            branch.append(copy.deepcopy(by_id[place]))
            place = branch[-1]["parentId"]
        other.entries += reversed(branch)
        other.at, other._ids, other._ms = self.at, self._ids + 0x100, start_ms
        for entry in branch:
            spent = entry.get("usage") or entry.get("message", {}).get("usage")
            if spent:
                other.spend.add(spent)
        return other

    def write(self, path: Path) -> Path:
        """Write the file as pi does: one compact JSON object a line."""
        lines = [json.dumps(entry, separators=(",", ":"), ensure_ascii=False) for entry in self.entries]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def messages(cwd: Path) -> Session:
    """Answers alone: two models, reasoning, cache reads, a one-hour cache write, a model that answers under another name."""
    session = Session("crafted-messages", cwd)
    session.entry("model_change", provider="prov-x", modelId="model-a")
    session.entry("thinking_level_change", thinkingLevel="high")
    session.user("first")
    session.assistant(usage(1013, 217, 4096, reasoning=128), thinkingLevel="high", durationMs=3100)
    session.user("second")
    session.assistant(usage(17, 331, 4096, 2048, cacheWrite1h=1536), model="model-b", responseModel="model-b-2026")
    session.entry("label", targetId=session.at, label="good")
    session.entry("session_info", name="a name")
    return session


def every_kind(cwd: Path) -> Session:
    """Every kind of spend that pi 1.6 writes, nested tool calls and entries without any."""
    session = Session("crafted-every-kind", cwd)
    session.user("go")
    session.assistant(usage(1000, 100), "call-1", "call-2")
    nested = {
        "calls": [{"id": "call-1/1", "name": "read", "arguments": {"path": "a"}, "status": "ok", "durationMs": 12}],
        "complete": True,
    }
    session.tool_result("call-1", usage(120, 14, reasoning=3), nestedCalls=nested, durationMs=151)
    session.tool_result("call-2", isError=True)
    kept = session.assistant(usage(1310, 44, 900))
    summarised = {"summary": "so far", "firstKeptEntryId": kept, "tokensBefore": 2310}
    session.paid("compaction", usage(2210, 61), **summarised)
    session.entry("compaction", **(summarised | {"summary": "of an old pi, without usage"}))
    warm = {"provider": "prov-x", "model": "model-a"}
    session.paid("usage", usage(3, 1, 120_400, cacheWrite1h=0), kind="cache_warm", **warm)
    session.paid("usage", usage(5, 2), kind="kind_of_the_future", **warm)
    session.entry("custom", customType="note", data={"usage": {"input": 999_999}})
    session.entry("custom_message", customType="say", content="hello", display=True)
    session.paid("branch_summary", usage(200, 20), fromId=kept, summary="another way")
    session.user("again")
    session.assistant(usage(50, 5))
    return session


def failures(cwd: Path) -> Session:
    """Errors and aborts that cost tokens, an error that cost none, and an answer cut by its length."""
    session = Session("crafted-failures", cwd)
    session.user("go")
    session.assistant(usage(870, 1, 300), stop="error", errorMessage="Overloaded")
    session.assistant(usage(), stop="error", errorMessage="529 Overloaded")
    session.assistant(usage(881, 90, 300), stop="aborted", errorMessage="Request was aborted")
    session.user("once more")
    session.assistant(usage(900, 1000), stop="length")
    return session


def branches(cwd: Path) -> Session:
    """Two branches left behind, one with a tool call, and the one that the session ended on."""
    session = Session("crafted-branches", cwd)
    start = session.user("go")
    session.assistant(usage(400, 40))
    session.at = start
    session.assistant(usage(401, 41), "call-1")
    session.tool_result("call-1", usage(31, 7))
    session.assistant(usage(460, 13))
    session.at = start
    session.assistant(usage(402, 42))
    return session


def twins(cwd: Path) -> Session:
    """The same answer twice in one file, to the last token: two requests that were both paid."""
    session = Session("crafted-twins", cwd)
    session.user("go")
    session.assistant(usage(77, 7))
    before = copy.deepcopy(session.entries[-1]["message"])
    session.assistant(usage(77, 7))
    session.entries[-1]["message"] = before
    return session


def old_format(cwd: Path, version: int) -> Session:
    """A session of an old pi: version 1 has no ids, version 2 has the role hookMessage."""
    session = Session(f"crafted-version-{version}", cwd, version)
    session.user("go")
    session.assistant(usage(100, 10), "call-1")
    session.tool_result("call-1")
    session.assistant(usage(150, 15, 90))
    kept = {"firstKeptEntryIndex": 2} if version == 1 else {"firstKeptEntryId": session.at}
    session.entry("compaction", summary="so far", tokensBefore=250, **kept)
    if version == 2:
        session.entry("message", message={"role": "hookMessage", "content": "hook", "timestamp": FIRST_MS})
    session.assistant(usage(50, 5))
    return session


def sessions(cwd: Path) -> dict[str, Session]:
    """Return every crafted session that stands alone."""
    return {
        "messages": messages(cwd),
        "every_kind": every_kind(cwd),
        "failures": failures(cwd),
        "branches": branches(cwd),
        "twins": twins(cwd),
        "version_1": old_format(cwd, 1),
        "version_2": old_format(cwd, 2),
    }


def family(cwd: Path, folder: Path) -> tuple[dict[Path, Session], Spend]:
    """Write a session, a fork of it and a fork of the fork; return them by file, and what the three hold together.

    The copied prefixes are the same spend, so together they hold the first in full and the own part of each fork.
    """
    paths = [folder / f"{name}.jsonl" for name in ("a-parent", "b-fork", "c-fork-of-fork")]
    first = every_kind(cwd)
    second = first.fork("crafted-fork", cwd, paths[0])
    first.user("in the parent only")
    first.assistant(usage(61, 6))
    together = copy.deepcopy(first.spend)

    own = [usage(62, 16), usage(63, 26, 11)]
    second.user("in the fork only")
    second.assistant(own[0])
    third = second.fork("crafted-fork-of-fork", cwd, paths[1])
    third.user("in the fork of the fork only")
    third.assistant(own[1])
    for spent in own:
        together.add(spent)
    files = dict(zip(paths, (first, second, third), strict=True))
    for path, session in files.items():
        session.write(path)
    return files, together

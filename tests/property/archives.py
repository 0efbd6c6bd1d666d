"""Archives that nobody recorded: sessions, forks, copies, streams and RPC output of the same work, in many files.

An archive is made from a list of plans by plain code, so a failing example shrinks to few plans with small numbers.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

START_MS = 1_796_065_800_000
HOUR_MS = 3_600_000

FORKS = ("by path", "by name", "by id", "silent")
HOMES = ("pi", "plain", "gzip")


@dataclass(frozen=True)
class Plan:
    """One session and what else there is of it."""

    start_h: int
    prompts: int
    step_s: int
    home: str = "pi"
    stream: str = "none"  # none, own file, joined (all such in one file), rpc, rpc that names no session
    stamped: bool = False
    copy: bool = False
    cut: bool = False
    forks: tuple[tuple[str, int, bool], ...] = ()  # (how it names its parent, entries it copies, fork of the last fork)
    gone: bool = False  # the session file is deleted; its stream and forks stay
    compaction: bool = False


PLANS = st.builds(
    Plan,
    start_h=st.integers(0, 60),
    prompts=st.integers(1, 3),
    step_s=st.integers(1, 7200),
    home=st.sampled_from(HOMES),
    stream=st.sampled_from(("none", "own", "joined", "rpc", "rpc silent")),
    stamped=st.booleans(),
    copy=st.booleans(),
    cut=st.booleans(),
    forks=st.lists(st.tuples(st.sampled_from(FORKS), st.integers(1, 9), st.booleans()), max_size=2).map(tuple),
    gone=st.booleans(),
    compaction=st.booleans(),
)

ARCHIVES = st.lists(PLANS, min_size=1, max_size=5)


def write_archive(folder: Path, plans: list[Plan]) -> None:
    """Write the files of an archive."""
    joined: list[bytes] = []
    for number, plan in enumerate(plans):
        _write_session(folder, number, plan, joined)
    if joined:
        (folder / "all.jsonl").write_bytes(b"".join(joined))


def _write_session(folder: Path, number: int, plan: Plan, joined: list[bytes]) -> None:
    start = START_MS + plan.start_h * HOUR_MS
    session_id = f"01a22dde-{number:04d}-7272-a48b-4ce3b8f5508c"
    header = _header(session_id, start)
    entries = _entries(number, plan, start + 40)
    path = _path(folder, plan.home, session_id, start)
    if not plan.gone:
        lines = _lines([header, *entries])
        _write(path, lines[: -len(lines) // 9] if plan.cut and plan.home == "plain" else lines)
    if plan.copy and not plan.gone:
        _write(folder / f"backup-{number}.jsonl", _lines([header, *entries]))
    if plan.stream != "none":
        stream = _lines(_stream(header, entries, plan))
        stream = stream[: -len(stream) // 7] if plan.cut else stream
        if plan.stream == "joined":
            joined.append(stream if stream.endswith(b"\n") else stream + b"\n")
        else:
            _write(folder / f"run-{number}.jsonl", stream)
    parent, parent_id, known = path, session_id, entries
    for fork, (how, copied, chained) in enumerate(plan.forks):
        if not chained:
            parent, parent_id, known = path, session_id, entries
        begun = start + (fork + 9) * HOUR_MS
        fork_id = f"01a22dde-{number:04d}-7272-{fork:04d}-4ce3b8f5508c"
        named = {"by path": str(parent), "by name": f"/elsewhere/{parent.name}", "by id": parent_id, "silent": None}[
            how
        ]
        own = _entries(100 + 10 * number + fork, Plan(0, 1, plan.step_s), begun)
        kept = known[: max(1, min(copied, len(known)))]
        own[0]["parentId"] = kept[-1]["id"]
        known = [*kept, *own]
        parent, parent_id = _path(folder, plan.home, fork_id, begun), fork_id
        _write(parent, _lines([_header(fork_id, begun, named), *known]))


def _entries(number: int, plan: Plan, at: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []

    def add(kind: str, time: int, **fields: Any) -> None:
        parent = entries[-1]["id"] if entries else None
        entries.append(
            {
                "type": kind,
                "id": f"{number:03d}{len(entries):05d}",
                "parentId": parent,
                "timestamp": _iso(time),
                **fields,
            }
        )

    step = plan.step_s * 1000
    add("model_change", at, provider="quill", modelId="quill-small")
    for prompt in range(plan.prompts):
        add("message", at + 5, message={"role": "user", "content": "go", "timestamp": at})
        call = f"call-{prompt}"
        add(
            "message",
            at + step,
            message=_answer(
                number, prompt, at + 10, "toolUse", [{"type": "toolCall", "id": call, "name": "bash", "arguments": {}}]
            ),
        )
        result = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": [], "isError": False}
        add("message", at + step + 9, message={**result, "timestamp": at + step + 7})
        add("message", at + 2 * step, message=_answer(number, prompt + 50, at + step + 20, "stop", []))
        at += 2 * step + 30
    if plan.compaction:
        spent = {"input": 7, "output": 3, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}}
        add(
            "compaction",
            at,
            summary=f"short {number}",
            tokensBefore=4000,
            firstKeptEntryId=entries[0]["id"],
            usage=spent,
        )
    return entries


def _answer(number: int, prompt: int, at: int, stop: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    tokens = {
        "input": 10 + number,
        "output": 5 + prompt,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 15 + number + prompt,
    }
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": "Tea."}, *calls],
        "api": "openai-completions",
        "provider": "quill",
        "model": "quill-small",
        "usage": {**tokens, "cost": {"total": (number + 1) / 64}},
        "stopReason": stop,
        "timestamp": at,
    }


def _stream(header: dict[str, Any], entries: list[dict[str, Any]], plan: Plan) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    if plan.stream == "rpc":
        records.append(
            {"type": "response", "command": "get_state", "success": True, "data": {"sessionId": header["id"]}}
        )
    elif plan.stream != "rpc silent":
        records.append(header)
    running = False
    for entry in entries:
        message = entry.get("message")
        if entry["type"] == "compaction":
            result = {"summary": entry["summary"], "tokensBefore": entry["tokensBefore"], "usage": entry["usage"]}
            records.append({"type": "compaction_start", "reason": "manual"})
            records.append(
                {"type": "compaction_end", "reason": "manual", "result": result, "aborted": False, "willRetry": False}
            )
        if message is None:
            continue
        at = message["timestamp"]
        stamp = {"receivedAt": at + 300} if plan.stamped else {}
        if message["role"] == "user":
            running = True
            records.append({"type": "agent_start", **stamp})
        if message["role"] in {"user", "assistant"}:
            records.append(
                {"type": "turn_start", **stamp}
                if message["role"] == "assistant"
                else {"type": "queue_update", "steering": [], "followUp": []}
            )
        if message["role"] == "toolResult":
            tool = {"toolCallId": message["toolCallId"], "toolName": "bash"}
            records.append({"type": "tool_execution_start", **tool, "args": {}, **stamp})
            records.append({"type": "tool_execution_end", **tool, "isError": False, "result": {"content": []}, **stamp})
        records.append({"type": "message_start", "message": message, **stamp})
        records.append({"type": "message_end", "message": message, **stamp})
        if message.get("stopReason") == "stop" and running:
            records.append({"type": "turn_end", "message": message, "toolResults": [], **stamp})
            records.append({"type": "agent_end", "messages": [message], **stamp})
            records.append({"type": "agent_settled", **stamp})
    return records


def _header(session_id: str, at: int, parent: str | None = None) -> dict[str, Any]:
    named = {} if parent is None else {"parentSession": parent}
    return {"type": "session", "version": 3, "id": session_id, "timestamp": _iso(at), "cwd": "/srv/demo", **named}


def _path(folder: Path, home: str, session_id: str, at: int) -> Path:
    if home == "plain":
        return folder / f"session-{session_id[9:]}.jsonl"
    name = f"{_iso(at).replace(':', '-').replace('.', '-')}_{session_id}.jsonl"
    return folder / "--srv-demo--" / (name + ".gz" if home == "gzip" else name)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)


def _lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Reducing: what the traps of the wire become, told by small streams."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import lines, read

T = 1_796_065_800_000
HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-11-30T19:10:00.000Z", "cwd": "/w"}


def answer(at: int = 1, *, stop: str = "stop", calls: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    content = [{"type": "toolCall", "id": each, "name": "bash", "arguments": {}} for each in calls]
    usage = {"input": 10, "output": 5, "cost": {"total": 0.5}}
    return {
        "role": "assistant",
        "content": content,
        "provider": "p",
        "model": "m",
        "usage": usage,
        "stopReason": stop,
        "timestamp": T + at,
    } | more


def ended(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message_end", "message": message}


START, TURN = {"type": "agent_start"}, {"type": "turn_start"}
RETRY = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 120, "errorMessage": "529"}


def column(records: list[Any], table: str, name: str) -> list[Any]:
    rows = read(lines(HEADER, *records)).rows[table]
    return [row[name] for row in sorted(rows, key=lambda row: (row["time"] or 0, row["row_id"]))]


COMPACT = {"type": "compaction_start", "reason": "threshold"}
DONE = {
    "type": "compaction_end",
    "reason": "threshold",
    "result": {"summary": "s", "tokensBefore": 10},
    "aborted": False,
}
FAILED = {"type": "compaction_end", "reason": "threshold", "aborted": False, "errorMessage": "no"}

TRAPS = {
    "usage repeated in turn_end and agent_end counts once": (
        [START, TURN, ended(answer()), {"type": "turn_end", "message": answer(), "toolResults": []}, {"type": "agent_end", "messages": [answer()]}],
        "usage", "input_tokens", [10],
    ),
    "a message_end that was lost is filled in from turn_end": (
        [START, TURN, {"type": "turn_end", "message": answer(), "toolResults": []}, {"type": "agent_end", "messages": [answer()]}],
        "usage", "input_tokens", [10],
    ),
    "two equal messages in one source are two": ([ended(answer()), ended(answer())], "usage", "input_tokens", [10, 10]),
    "errors are paid too": ([ended(answer(stop="error"))], "usage", "cost_usd", [0.5]),
    "a run that will be retried is retried": (
        [START, TURN, ended(answer(stop="error")), {"type": "agent_end", "messages": [], "willRetry": True}], "runs", "outcome", ["retried"],
    ),
    "before 0.75.4 the next record says so": (
        [START, TURN, ended(answer(stop="error")), {"type": "agent_end", "messages": []}, RETRY], "runs", "outcome", ["retried"],
    ),
    "a run without an end is unfinished": ([START, TURN, ended(answer())], "runs", "outcome", ["unfinished"]),
    "a cancelled retry is aborted": (
        [RETRY, {"type": "auto_retry_end", "success": False, "finalError": "Retry cancelled"}], "retries", "outcome", ["aborted"],
    ),
    "any other end without success is exhausted": (
        [RETRY, {"type": "auto_retry_end", "success": False, "finalError": "529"}], "retries", "outcome", ["exhausted"],
    ),
    "a second attempt makes the first one failed": ([RETRY, RETRY | {"attempt": 2}, {"type": "auto_retry_end", "success": True}], "retries", "attempt", [1, 2]),
    "overlapping compactions pair first in, first out": ([COMPACT, COMPACT, DONE, FAILED], "compactions", "outcome", ["ok", "failed"]),
    "an old compaction end takes the reason of its start": (
        [COMPACT | {"type": "auto_compaction_start", "reason": "overflow"}, {"type": "auto_compaction_end", "result": {"tokensBefore": 1}}],
        "compactions", "reason", ["overflow"],
    ),
    "a compaction without an end is unfinished": ([COMPACT], "compactions", "outcome", ["unfinished"]),
    "a tool that was stopped by the user is aborted": (
        [ended(answer(calls=("a",), stop="toolUse")), {"type": "tool_execution_start", "toolCallId": "a", "toolName": "bash"},
         {"type": "tool_execution_end", "toolCallId": "a", "toolName": "bash", "isError": True, "result": {"content": [{"type": "text", "text": "x\n\nCommand aborted"}]}}],
        "tool_calls", "outcome", ["aborted"],
    ),
    "a tool start without an end is unfinished": (
        [ended(answer(calls=("a",), stop="toolUse")), {"type": "tool_execution_start", "toolCallId": "a", "toolName": "bash"}],
        "tool_calls", "outcome", ["unfinished"],
    ),
    "an end without a start is a call": (
        [{"type": "tool_execution_end", "toolCallId": "a", "toolName": "bash", "isError": False, "durationMs": 5}], "tool_calls", "duration_s", [0.005],
    ),
    "the queue is a row a change": (
        [{"type": "queue_update", "steering": ["x"], "followUp": []}, {"type": "queue_update", "steering": ["x"], "followUp": []}], "queue", "depth", [1],
    ),
    "the request keeps its model, the label takes the one that answered": ([ended(answer(responseModel="m-2"))], "messages", "model", ["m-2"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str) -> None:
    """Each trap of the wire gives the rows that the design says."""
    records, table, of, want = TRAPS[name]
    got = column(records, table, of)
    assert sorted(got, key=str) == sorted(want, key=str)


def test_only_the_last_attempt_of_a_series_ends_it() -> None:
    """An attempt that another followed failed; the last one tells how the series ended."""
    records = [RETRY, RETRY | {"attempt": 2}, {"type": "auto_retry_end", "success": True}]
    rows = read(lines(HEADER, *records)).rows["retries"]
    assert {row["attempt"]: row["outcome"] for row in rows} == {1: "failed", 2: "success"}


def test_an_answer_that_was_cut_off_keeps_what_it_reported() -> None:
    """It is an unfinished row, apart from totals."""
    start = {"type": "message_start", "message": answer(stop="pending")}
    update = {
        "type": "message_update",
        "usage": {"input": 3, "output": 1},
        "assistantMessageEvent": {"type": "text_delta"},
    }
    found = read(lines(HEADER, START, TURN, start, update))
    (row,) = found.rows["usage"]
    assert (row["input_tokens"], row["settled"]) == (3, False)
    assert found.total("pi_tokens_total") == 0


def test_durations_come_from_the_best_source() -> None:
    """Reported beats arrival; the time to the first token needs a stamped delta."""
    delta = {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}, "receivedAt": T + 300}
    start = {"type": "message_start", "message": answer(stop="pending"), "receivedAt": T + 200}
    for more, want in (({}, (0.899, "arrival")), ({"durationMs": 700}, (0.7, "reported"))):
        (row,) = read(lines(HEADER, start, delta, ended(answer(**more)) | {"receivedAt": T + 900})).rows["usage"]
        assert (row["duration_s"], row["duration_source"]) == want
        assert row["time_to_first_token_s"] == 0.299


def test_two_joined_sources_are_two_sessions() -> None:
    """What follows a header is a source of its own: equal content in both is one fact, sessions are two."""
    one = lines(HEADER, ended(answer()))
    found = read(one + one.replace(b'"s1"', b'"s2"'))
    assert len(found.rows["usage"]) == 1
    assert [row["session_id"] for row in found.rows["sessions"]] in (["s1", "s2"], ["s2", "s1"])


def test_an_abandoned_branch_was_paid() -> None:
    """Usage on every branch counts; `on_active_branch` tells which one the session ended on."""
    frame = {"type": "message", "timestamp": "2026-11-30T19:10:01.000Z"}
    asked = frame | {"id": "r", "parentId": None, "message": {"role": "user", "timestamp": T}}
    a = frame | {"id": "a", "parentId": "r", "message": answer(1)}
    b = frame | {"id": "b", "parentId": "r", "message": answer(2)}
    rows = read(lines(HEADER, asked, a, b)).rows["usage"]
    assert sorted(row["on_active_branch"] for row in rows) == [False, True]

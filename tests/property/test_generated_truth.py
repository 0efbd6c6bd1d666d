"""Sessions that nobody recorded: what is read of them is what happened."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from tests.scribe import Plan, Truth, play
from tests.strategies import PLANS
from tests.support import Result, read, tally

KINDS = ("input", "output", "cache_read", "cache_write")


def assert_spend(found: Result, truth: Truth, operations: tuple[str, ...]) -> None:
    for operation in operations:
        rows = [row for row in found.rows["usage"] if row["operation"] == operation and row["settled"]]
        for kind in KINDS:
            want = truth.tokens[operation, kind]
            assert sum(row[f"{kind}_tokens"] or 0 for row in rows) == want
            assert found.total("pi_tokens_total", operation=operation, token_type=kind) == want
        assert found.total("pi_cost_usd_total", operation=operation) == truth.pico[operation]


@given(PLANS)
def test_a_stream_tells_what_happened(plan: Plan) -> None:
    """Tokens, cost, requests, tools, retries, compactions, turns, runs and prompts of a stream are those played."""
    session = play(plan)
    found, truth = read(session.stream_bytes), session.truth
    assert_spend(found, truth, ("turn", "cache_warm", "compaction"))
    answers = [row for row in found.rows["messages"] if row["role"] == "assistant"]
    assert len(answers) == truth.requests == found.total("pi_requests_total")
    assert tally(answers, "stop_reason") == truth.stops
    assert Counter((row["tool"], row["outcome"]) for row in found.rows["tool_calls"]) == truth.tools
    assert Counter((row["scope"], row["outcome"]) for row in found.rows["retries"]) == truth.retries
    assert tally(found.rows["compactions"], "outcome") == truth.compactions
    assert len(found.rows["turns"]) == truth.turns
    assert len(found.rows["runs"]) == truth.runs
    assert len(found.rows["prompts"]) == truth.prompts
    assert not found.rows["rejects"]
    assert not found.stats.unknown


@given(PLANS)
def test_a_session_file_tells_what_happened(plan: Plan) -> None:
    """Of the same session the file tells the same spend, requests, tools and turns, branches included."""
    session = play(plan)
    found, truth = read(session.file_bytes), session.truth
    assert_spend(found, truth, ("turn", "cache_warm", "compaction"))
    answers = [row for row in found.rows["messages"] if row["role"] == "assistant"]
    assert tally(answers, "stop_reason") == truth.stops
    assert Counter((row["tool"], row["outcome"]) for row in found.rows["tool_calls"]) == truth.tools
    assert len(found.rows["compactions"]) == truth.compactions["ok"]
    assert len(found.rows["turns"]) == truth.turns
    assert len(found.rows["sessions"]) == 1


@given(PLANS)
def test_stream_and_file_are_one_session(plan: Plan) -> None:
    """Every usage row, message, tool call, turn and done compaction of a stream is that of its file, by row_id."""
    session = play(plan)
    stream, file = read(session.stream_bytes), read(session.file_bytes)
    for table in ("usage", "messages", "tool_calls", "turns", "prompts"):
        assert [row["row_id"] for row in stream.rows[table]] == [row["row_id"] for row in file.rows[table]], table
    done = [row["row_id"] for row in stream.rows["compactions"] if row["outcome"] == "ok"]
    assert done == [row["row_id"] for row in file.rows["compactions"]]

"""Every recording's tables, report and scrape against its oracle, which was computed without our code."""

from __future__ import annotations

import json

import polars as pl
import pytest
from click.testing import CliRunner

import pimetrics as pm
from pimetrics.cli import cli
from tests.golden.recordings import recordings, scraped, total

ALL = pytest.mark.parametrize("recording", recordings(), ids=lambda r: r.name)
TOKENS = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}
PARTS = {"compaction_usage": ("compaction",), "tool_result_usage": ("tool",), "usage_entries": ("cache_warm", "other")}


def near(value):
    """Costs in the oracle are rounded double sums."""
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def spend(usage: pl.DataFrame) -> dict[str, float]:
    """Add up usage rows in the oracle's terms."""
    sums = {key: usage[f"{column}_tokens"].fill_null(0).sum() for key, column in TOKENS.items()}
    return sums | {"reasoning": usage["reasoning_tokens"].fill_null(0).sum(), "cost": usage["cost_usd"].sum()}


def expected_spend(tokens: dict) -> dict:
    """The same keys of an oracle's tokens object."""
    return {key: near(tokens[key]) for key in (*TOKENS, "reasoning", "cost")}


def counts(frame: pl.DataFrame, *columns: str) -> dict:
    """Count the rows by the values of some columns."""
    rows = frame.group_by(columns).len().iter_rows()
    return {row[0] if len(columns) == 1 else row[:-1]: row[-1] for row in rows}


@ALL
def test_tables(recording):
    """Tokens, cost, stop reasons, tools, retries, compactions, turns, runs and rejects are the oracle's."""
    want = recording.oracle["stream"]
    t = pm.read(recording.stream, events=True)
    turn = t.usage.filter(pl.col("settled") & (pl.col("operation") == "turn"))
    models = {(m["provider"], m["model"]): m for m in want["models"]}
    assert counts(turn, "provider", "model") == {key: m["messages"] for key, m in models.items()}
    for (provider, model), m in models.items():
        rows = turn.filter((pl.col("provider") == provider) & (pl.col("model") == model))
        assert spend(rows) == expected_spend(m["tokens"])
        assert counts(rows, "stop_reason") == m["stop_reasons"]
    settled = t.usage.filter("settled")
    for key, operations in PARTS.items():
        part = want[key] if key != "usage_entries" else want[key]["tokens"]
        assert spend(settled.filter(pl.col("operation").is_in(operations))) == expected_spend(part)

    assert counts(t.tool_calls, "tool") == {tool: w["starts"] for tool, w in want["tools"].items()}
    for tool, w in want["tools"].items():
        calls = t.tool_calls.filter(pl.col("tool") == tool)
        outcomes = counts(calls, "outcome")
        assert calls.height - outcomes.get("unfinished", 0) == w["executions"]
        assert outcomes.get("error", 0) + outcomes.get("aborted", 0) == w["errors"]
        reported = calls.filter(pl.col("duration_source") == "reported")["duration_s"]
        assert sorted(round(s * 1000) for s in reported) == sorted(w["reported_ms"])

    turns = t.retries.filter(pl.col("scope") == "turn")
    ends = counts(turns, "outcome")
    assert turns.height == want["retries"]["starts"]
    assert turns["delay_s"].sum() * 1000 == near(want["retries"]["delay_ms_sum"])
    assert ends.get("success", 0) == want["retries"]["ends_success"]
    assert ends.get("exhausted", 0) + ends.get("aborted", 0) == want["retries"]["ends_failed"]
    assert t.retries.height - turns.height == want["summarization_retries"]["scheduled"]

    for frame, key in ((t.turns, "turns"), (t.runs, "agent_runs")):
        ended = frame.height - counts(frame, "outcome").get("unfinished", 0)
        assert {"starts": frame.height, "ends": ended} == {k: want[key][k] for k in ("starts", "ends")}

    outcomes = [{"succeeded": "ok"}.get(c["outcome"], c["outcome"]) for c in want["compactions"]]
    ended = t.compactions.filter(pl.col("outcome") != "unfinished")
    assert counts(ended, "outcome") == {o: outcomes.count(o) for o in outcomes}
    assert counts(t.compactions, "reason") == want["compaction_starts_by_reason"]

    by_type = dict(want["records_by_type"])
    torn = by_type.pop("(not json)", 0) + bool(want["truncated_tail_bytes"])
    assert counts(t.events, "record") == by_type
    assert t.rejects.height == torn


@ALL
def test_report(recording):
    """`report --json` says what the oracle says."""
    want = recording.oracle["stream"]
    result = CliRunner().invoke(cli, ["report", "--json", str(recording.stream)])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    by_type = {kind: n for kind, n in want["records_by_type"].items() if kind != "(not json)"}
    assert found["records"] == {"total": sum(by_type.values()), "by_type": dict(sorted(by_type.items()))}
    models = {(m["provider"], m["model"]): m for m in found["usage"]["by_model"]}
    for m in want["models"]:
        assert models[m["provider"], m["model"]]["requests"] == m["messages"]
    operations = {each["operation"]: each for each in found["usage"]["by_operation"]}
    turn = operations.get("turn", {"tokens": dict.fromkeys(TOKENS.values(), 0), "cost_usd": 0})
    for key, ours in TOKENS.items():
        assert turn["tokens"][ours] == sum(m["tokens"][key] for m in want["models"])
    assert turn["cost_usd"] == near(sum(m["tokens"]["cost"] for m in want["models"]))
    assert {t["tool"]: t["calls"] for t in found["tools"]} == {t: w["starts"] for t, w in want["tools"].items()}
    assert {t["tool"]: t["errors"] for t in found["tools"]} == {t: w["errors"] for t, w in want["tools"].items()}
    assert found["turns"] == want["turns"]["starts"]
    assert found["runs"] == want["agent_runs"]["starts"]
    assert found["retries"]["attempts"] == want["retries"]["starts"]
    assert found["retries"]["backoff_s"] * 1000 == near(want["retries"]["delay_ms_sum"])


@ALL
def test_scrape(recording):
    """/metrics says what the oracle says, for counters and histograms."""
    want = recording.oracle["stream"]
    found = scraped(recording.stream)
    for m in want["models"]:
        labels = {"provider": m["provider"], "model": m["model"]}
        for key, kind in TOKENS.items():
            assert total(found, "pi_tokens_total", operation="turn", token_type=kind, **labels) == m["tokens"][key]
        assert total(found, "pi_reasoning_tokens_total", **labels) >= m["tokens"]["reasoning"]
        assert total(found, "pi_cost_usd_total", operation="turn", **labels) == near(m["tokens"]["cost"])
        assert total(found, "pi_requests_total", **labels) == m["messages"]
        for reason, n in m["stop_reasons"].items():
            assert total(found, "pi_requests_total", stop_reason=reason, **labels) == n
    for key, operations in PARTS.items():
        part = want[key] if key != "usage_entries" else want[key]["tokens"]
        cost = sum(total(found, "pi_cost_usd_total", operation=operation) for operation in operations)
        assert cost == near(part["cost"])
    for tool, w in want["tools"].items():
        assert total(found, "pi_tool_calls_total", tool=tool) == w["starts"]
        assert total(found, "pi_tool_calls_total", tool=tool, outcome="unfinished") == w["starts"] - w["executions"]
        name = "pi_tool_execution_duration_seconds"
        assert total(found, f"{name}_count", tool=tool) == len(w["reported_ms"])
        assert total(found, f"{name}_sum", tool=tool) == near(sum(w["reported_ms"]) / 1000)
    assert total(found, "pi_turns_total") == want["turns"]["starts"]
    assert total(found, "pi_runs_total") == want["agent_runs"]["starts"]
    assert total(found, "pi_retries_total", scope="turn") == want["retries"]["starts"]
    assert total(found, "pi_retry_sequences_total", scope="turn", outcome="success") == want["retries"]["ends_success"]
    assert total(found, "pi_retry_backoff_seconds_total", scope="turn") == near(want["retries"]["delay_ms_sum"] / 1000)
    for reason, n in want["compaction_starts_by_reason"].items():
        assert total(found, "pi_compactions_total", reason=reason) == n
    for kind, n in want["records_by_type"].items():
        if kind != "(not json)":
            assert total(found, "pimetrics_records_total", record=kind) == n


FILES = [
    pytest.param(path, want, id=f"{recording.name}:{path.name}")
    for recording in recordings()
    for path in recording.sessions
    if (want := recording.oracle["sessions"].get(path.name.removesuffix(".zst"))) is not None
]


@pytest.mark.parametrize(("path", "want"), FILES)
def test_session_files(path, want):
    """What a session file holds is what the oracle counted in it, every source of spend included."""
    t = pm.read(path)
    turn = t.usage.filter(pl.col("operation") == "turn")
    assert counts(turn, "provider", "model") == {(m["provider"], m["model"]): m["messages"] for m in want["models"]}
    for m in want["models"]:
        rows = turn.filter((pl.col("provider") == m["provider"]) & (pl.col("model") == m["model"]))
        assert spend(rows) == expected_spend(m["tokens"])
    for key, operations in {
        "compaction_usage": ("compaction",),
        "tool_result_usage": ("tool",),
        "branch_summary_usage": ("branch_summary",),
        "usage_entries_usage": ("cache_warm", "other"),
    }.items():
        assert spend(t.usage.filter(pl.col("operation").is_in(operations))) == expected_spend(want[key])
    assert t.compactions.height == want["compactions"]
    assert t.sessions["session_id"].to_list() == [want["id"]]
    done = t.tool_calls.filter(pl.col("outcome") != "unfinished")
    assert counts(done, "tool") == {tool: w["results"] for tool, w in want["tool_results"].items()}


STATS = [r for r in recordings() if r.oracle["stream"]["session_stats"] and r.name.split("/")[0] >= "0.80"]


@pytest.mark.parametrize("recording", STATS, ids=lambda r: r.name)
def test_pi_agrees(recording, tmp_path):
    """pi's own `get_session_stats` is `report --json` of what its session file held at the moment of the answer."""
    answers = [
        json.loads(line)["data"]
        for line in recording.stream.read_bytes().split(b"\n")
        if b'"command":"get_session_stats","success":true' in line
    ]
    stats = answers[-1]
    path = next(p for p in recording.sessions if recording.oracle["sessions"][p.name]["id"] == stats["sessionId"])
    held, messages = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        messages += line.startswith(b'{"type":"message"')
        if messages > stats["totalMessages"]:
            break
        held.append(line)
    then = tmp_path / "then.jsonl"
    then.write_bytes(b"".join(held))
    found = json.loads(CliRunner().invoke(cli, ["report", "--json", str(then)]).stdout)["usage"]
    assert {k: found["tokens"][ours] for k, ours in TOKENS.items()} == {k: stats["tokens"][k] for k in TOKENS}
    assert found["cost_usd"] == near(stats["cost"])
    assert sum(model["requests"] for model in found["by_model"]) == stats["assistantMessages"]

"""Views: groups of facts that add up to the same totals, whatever they group by."""

from __future__ import annotations

import pytest

from pimetrics.api import load
from pimetrics.reports import data, top, views
from pimetrics.reports.selection import Zone
from pimetrics.reports.summary import summarize
from pimetrics.reports.views import VIEWS
from tests.reporting import STREAMS, Session, loaded

UTC = Zone("UTC")


@pytest.fixture(scope="module")
def recorded():
    """All recordings with their session files."""
    return loaded(STREAMS)


@pytest.mark.parametrize("by", VIEWS)
def test_groups_add_up_to_the_summary(recorded, by):
    """Every view of the recordings has the summary's tokens, cost, rows, unpriced and unfinished, to the last digit."""
    ledger, pipeline = recorded
    summary = summarize(ledger, pipeline.stats)
    total = views.total(views.groups(ledger, VIEWS[by], UTC))
    assert total.all.token_counts() == summary["usage"]["tokens"]
    assert total.all.cost_usd == summary["usage"]["cost_usd"]
    assert total.all.rows == summary["usage"]["rows"]
    assert total.unpriced == summary["usage"]["unpriced"]
    assert total.unfinished.token_counts() == summary["unfinished"]["tokens"]
    for name in ("prompts", "turns"):
        if name in VIEWS[by].counts:
            assert total.counts[name] == summary[name]
    if "requests" in VIEWS[by].counts:
        assert total.counts["requests"] == sum(each["requests"] for each in summary["usage"]["by_model"])


def test_tools_and_compactions_are_those_of_the_summary(recorded):
    """Calls, errors and times of a tool, and the number of compactions, are the summary's."""
    ledger, pipeline = recorded
    summary = summarize(ledger, pipeline.stats)
    shown = {each["tool"]: each for each in views.tools(ledger)}
    for each in summary["tools"]:
        mine = shown[each["tool"]]
        assert (mine["calls"], mine["error"] + mine["aborted"], mine["unfinished"]) == (
            each["calls"], each["errors"], each["unfinished"],
        )  # fmt: skip
    assert len(views.compactions(ledger, UTC)) == sum(each["count"] for each in summary["compactions"])
    assert sum(each["retries"] for each in views.errors(ledger)) == sum(
        scope["attempts"] for scope in summary["retries"]["by_scope"].values()
    )


def test_all_prompts_and_all_turns_cost_what_was_paid(recorded):
    """The top of everything is everything: prompts, with what is outside them, add up to the cost."""
    ledger, pipeline = recorded
    usage = summarize(ledger, pipeline.stats)["usage"]
    prompts = top.prompts(ledger, 10**6, UTC)
    assert sum(each["usage_rows"] for each in prompts) == usage["rows"]
    assert abs(sum(each["cost_usd"] for each in prompts) - usage["cost_usd"]) < 1e-9
    by_operation = {each["operation"]: each["rows"] for each in usage["by_operation"]}
    turns = top.turns(ledger, 10**6, UTC)
    assert sum(each["usage_rows"] for each in turns) == by_operation["turn"] + by_operation["tool"]


def test_top_names_what_a_prompt_caused(tmp_path):
    """The dearest prompt comes first, with its calls by tool, its models, its turns and what its tools reported."""
    session = Session().ask().answer(0.01)
    session.ask().answer(0.5, tools=("bash", "read", "bash")).results(0.125).answer(0.25, model="model-b")
    ledger, _ = load([session.write(tmp_path / "s.jsonl")])
    first, second = top.prompts(ledger, 5, UTC)
    assert first["cost_usd"] == 0.5 + 0.25 + 3 * 0.125
    assert first["reported_by_tools"]["cost_usd"] == 3 * 0.125
    assert first["tools"] == {"bash": 2, "read": 1}
    assert first["models"] == {"model-a": 1, "model-b": 1}
    assert first["turns"] == 2
    assert second["cost_usd"] == 0.01
    turn = top.turns(ledger, 1, UTC)[0]
    assert (turn["cost_usd"], turn["tools"], turn["tool_result_bytes"]) == (0.875, {"bash": 2, "read": 1}, 12)
    assert len(top.prompts(ledger, 1, UTC)) == 1


def test_what_a_tool_reported_is_the_tools(tmp_path):
    """Usage of a tool result stands with its tool, and apart in every group."""
    session = Session().ask().answer(0.5, tools=("agent",)).results(0.25)
    ledger, _ = load([session.write(tmp_path / "s.jsonl")])
    (tool,) = views.tools(ledger)
    assert (tool["tool"], tool["reported_by_tools"]["cost_usd"]) == ("agent", 0.25)
    (day,) = data.rows(ledger, "day", UTC)
    assert (day["cost_usd"], day["reported_by_tools"]["cost_usd"]) == (0.75, 0.25)


def test_cache_hit_rate_is_the_share_of_the_context(tmp_path):
    """Cache reads over input, reads and writes; null without context."""
    session = Session().ask().answer(0.1, (100, 50, 700, 200)).ask().answer(0, (0, 0, 0, 0), provider="none")
    ledger, _ = load([session.write(tmp_path / "s.jsonl")])
    rates = {each["provider"]: each["cache_hit_rate"] for each in data.rows(ledger, "provider", UTC)}
    assert rates == {"prov-x": 0.7, "none": None}


def test_groups_come_dear_first_or_in_the_order_of_time(tmp_path):
    """Models begin with the most expensive; days are in the order of time, the unknown time last."""
    session = Session().ask().answer(0.1, model="cheap").answer(0.2, model="dear").answer(0.3, timestamp=None)
    for entry in session.entries[-1:]:
        entry["timestamp"] = None
    ledger, _ = load([session.write(tmp_path / "s.jsonl")])
    assert [each["model"] for each in data.rows(ledger, "model", UTC)] == ["model-a", "dear", "cheap"]
    days = data.rows(ledger, "day", UTC)
    assert [each["day"] for each in days] == ["2026-09-21", None]
    assert [each["cost_usd"] for each in days] == [0.3, 0.3]


def test_retry_waste_is_what_was_thrown_away(recorded):
    """Discarded answers and the waits are counted with their model and their day, once each."""
    ledger, pipeline = recorded
    backoff = sum(scope["backoff_s"] for scope in summarize(ledger, pipeline.stats)["retries"]["by_scope"].values())
    days = data.rows(ledger, "day", UTC)
    models = data.rows(ledger, "model", UTC)
    assert abs(sum(each["retry_waste"]["backoff_s"] for each in days) - backoff) < 1e-6
    wasted = sum(each["retry_waste"]["tokens"] for each in days)
    assert wasted > 0
    assert sum(each["retry_waste"]["tokens"] for each in models) == wasted

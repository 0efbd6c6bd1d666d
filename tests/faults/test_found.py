"""Inputs that once gave a wrong answer or an exception; each stands for a kind of fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from pimetrics.api import load
from pimetrics.reports.summary import summarize

FOUND = Path(__file__).parents[1] / "fixtures" / "found"

SPENT = [
    ("01", 2, 0.51, 1),  # a resumed run that compacts before its first message
    ("02", 3, 0.53, 1),  # RPC output that forks and then compacts
    ("03", 2, 0.51, 1),  # a custom message has one time in the stream and another in the file
    ("04", 2, 0.51, 1),  # an extension's message that the stream never shows as one
    ("05", 2, 0.51, 1),  # role hookMessage before a migration, custom after it
    ("06", 2, 0.51, 1),  # a lost user message that agent_end fills in after the answer
    ("09", 1, 0.50, 1),  # RPC output, and the same with arrival stamps
    ("10", 2, 0.51, 1),  # a compaction that stands only in entry_appended
    ("11", 2, 0.02, 0),  # timestamps that are no times still tell calls apart
    ("28", 1, 0.0, 0),  # a usage object whose only number is negative
]


@pytest.mark.parametrize(("number", "rows", "cost", "compactions"), SPENT, ids=[each[0] for each in SPENT])
def test_money_is_counted_once(number, rows, cost, compactions):
    """All sources of a run together, in either order: each call once, none lost."""
    files = sorted(FOUND.glob(f"{number}-*"))
    assert files
    for order in (files, files[::-1]):
        ledger, pipeline = load(order)
        found = summarize(ledger, pipeline.stats)
        assert found["usage"]["rows"] == rows
        assert found["usage"]["cost_usd"] == pytest.approx(cost)
        assert sum(each["count"] for each in found["compactions"]) == compactions


@pytest.mark.parametrize("number", ["13", "14"])
def test_odd_values_are_no_exception(number):
    """A list where a name belongs, arguments nested a thousand deep: one record each, and no more."""
    files = sorted(FOUND.glob(f"{number}-*"))
    assert files
    _, pipeline = load(files)
    assert not pipeline.stats.rejects


def test_the_model_that_was_set_made_the_compaction():
    """RPC output names it in the answer to set_model, the file in a model_change."""
    files = sorted(FOUND.glob("20-*"))
    for some in (files[:1], files[1:], files):
        ledger, _ = load(some)
        made = [fact.values for _, fact in ledger.facts("usage") if fact.values["operation"] == "compaction"]
        assert [each["model"] for each in made] == ["zz"]


def test_open_compactions_give_way_by_their_own_anchor():
    """Two that were cut off at different places, both done in the file."""
    ledger, _ = load(sorted(FOUND.glob("22-*")))
    assert [fact.values["outcome"] for _, fact in ledger.facts("compactions")] == ["ok", "ok"]


def test_a_turn_whose_end_and_next_start_were_lost():
    """A second answer without a turn_start is a turn of its own."""
    ledger, _ = load(sorted(FOUND.glob("26-*")))
    assert len(list(ledger.facts("turns"))) == 2


def test_of_two_cut_views_the_later_reports_more():
    """Unfinished usage is the last that was reported by either."""
    ledger, _ = load(sorted(FOUND.glob("27-*")))
    assert [fact.values["output_tokens"] for _, fact in ledger.facts("usage")] == [9]

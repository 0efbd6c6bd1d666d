"""Cases 15, 16 and 24: what was paid, failed, or has no price."""

from __future__ import annotations

import pytest

from tests.reporting import case, run


def _tokens(found):
    return {kind: found[kind] for kind in ("input", "output", "cache_read", "cache_write")}


@pytest.mark.parametrize("number", ["15", "16", "24"])
@pytest.mark.parametrize("view", ["day", "model", "provider", "session", "project", "operation"])
def test_every_view_adds_up_to_the_bill(number, view):
    """Rows, tokens and cost of a view's groups add up to the right outcome, abandoned and failed work included."""
    files, right = case(number)
    found = run("report", "--json", "--by", view, *files).json["by"][view]
    assert sum(each["usage_rows"] for each in found) == right["usage_rows"]
    assert abs(sum(each["cost_usd"] for each in found) - right["cost_usd"]) < 1e-12
    if "tokens" in right:
        assert sum(each["total_tokens"] for each in found) == right["tokens"]["total"]


def test_the_abandoned_branch_is_in_the_top_too():
    """Case 15: the prompts of a session cost together what the session cost."""
    files, right = case("15")
    found = run("report", "--json", "--top", "50", *files).json["top"]
    assert abs(sum(each["cost_usd"] for each in found["turns"]) - right["cost_usd"]) < 1e-12
    assert abs(sum(each["cost_usd"] for each in found["prompts"]) - right["cost_usd"]) < 1e-12


def test_errors_and_aborts_have_their_classes_and_their_tokens():
    """Case 16: errors are counted apart from answers, and the aborted answer's tokens are in the bill."""
    files, right = case("16")
    found = run("report", "--json", "--by", "error", "--by", "day", *files).json["by"]
    stops = right["assistant_messages_by_stop_reason"]
    assert sum(each["answers"] for each in found["error"]) == stops["error"] + stops["aborted"]
    (aborted,) = [each for each in found["error"] if each["error"] == "aborted"]
    assert aborted["answers"] == stops["aborted"]
    assert aborted["tokens"] > 0
    (day,) = found["day"]
    assert (day["requests"], day["errors"], day["aborted"]) == (sum(stops.values()), stops["error"], stops["aborted"])


def test_unpriced_is_never_free():
    """Case 24: a model without a price shows as unpriced with its tokens, and the total says that it is partial."""
    files, right = case("24")
    ran = run("report", "--by", "model", "--timezone", "UTC", *files)
    (model, tokens), = right["tokens_without_price"].items()  # fmt: skip
    (line,) = [line for line in ran.out.splitlines() if line.startswith(model)]
    assert line.split()[-1] == "unpriced"
    assert f"{tokens:,}" in line or "16.1M" in line
    assert "$0.2500, 1 of 2 requests unpriced" in ran.out
    assert "$0.2500+" in ran.out
    assert "$0.0000" not in ran.out
    found = run("report", "--json", "--by", "model", *files).json
    assert found["usage"]["unpriced"] == right["rows_with_zero_cost_and_tokens"]
    assert sum(each["unpriced"] for each in found["by"]["model"]) == 1

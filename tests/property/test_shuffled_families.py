"""Crafted families of sources in shuffled orders: one answer."""

from __future__ import annotations

import os

import pytest

from tests.property.shuffles import answer, families, shuffle

SHUFFLES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 270
NUMBERS = range(len(families()))


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: families()[number].name)
def test_any_order_of_a_family_is_one_answer(number: int) -> None:
    """Stream, recording, file, copy, forks and a fork without its parent give the same rows and totals in any order."""
    for seed in range(number, SHUFFLES, len(NUMBERS)):
        shuffle(seed)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: families()[number].name)
def test_a_family_is_what_was_paid(number: int) -> None:
    """A family counts its shared work once, the own work of each fork, and a fork without its parent in full."""
    found, family = answer(number), families()[number]
    assert len([row for row in found.rows["messages"] if row["role"] == "assistant"]) == family.requests
    assert found.total("pi_tokens_total", token_type="input") == family.input_tokens
    assert found.total("pi_requests_total") == family.requests
    assert {row["session_id"] for row in found.rows["sessions"]} == {
        f"01a22ddd-0000-7000-8000-{n:012d}" for n in range(1, 5)
    }

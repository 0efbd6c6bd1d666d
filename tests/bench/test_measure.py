"""Measuring: a peer that adds up wrong is shown as wrong, one that cannot run as failed, and ratios have verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.measure import Input, Measurement, difference, generate, measure
from tests.bench.peers import Sums
from tests.bench.table import READ, Reach, as_text, ratios, summary, verdict

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Input:
    """A small session file with its totals."""
    return generate(tmp_path / "input.jsonl", "session", "--size", "50kB", "--clean")


def test_a_peer_runs_in_a_process_of_its_own(source: Input) -> None:
    """A library peer is timed inside its process and finds the generator's totals."""
    done = measure("ijson", source, {})
    assert done.error == ""
    assert done.sums is not None
    assert done.sums[:4] == source.sums[:4]
    assert done.seconds > 0
    assert done.peak_bytes > 5_000_000


def test_a_peer_that_adds_up_wrong_is_shown_as_wrong(source: Input) -> None:
    """Against other totals the same peer is wrong, and the text says where."""
    other = source._replace(sums=source.sums._replace(output=1))
    assert "wrong: output" in measure("ijson", other, {}).error


def test_a_peer_that_cannot_read_the_file_is_shown_as_failed(source: Input) -> None:
    """What the peer last said stands in the table."""
    source.path.write_bytes(b'{"type":"message"\n')
    assert measure("ijson", source, {}).error.startswith("failed (1): ")


def test_costs_may_differ_by_the_noise_of_adding_doubles_only() -> None:
    """Tokens must be equal; a cost may differ in the tenth place."""
    want = Sums(1, 2, 3, 4, 100.0)
    assert difference(want._replace(cost=100.0 + 1e-9), want) == ""
    assert "cost" in difference(want._replace(cost=100.001), want)
    assert "input" in difference(want._replace(input=0), want)


@pytest.mark.parametrize(("ratio", "shown"), [(0.9, "BELOW FLOOR"), (1.0, "floor holds"), (2.0, "STRETCH")])
def test_ratios_are_held_against_floor_and_stretch(ratio: float, shown: str) -> None:
    """A ratio on the line counts as reached."""
    assert verdict(ratio, Reach(1, 2)) == shown


def test_ratios_pair_the_runs_of_a_round(source: Input) -> None:
    """A round in which both were slow says as much as one in which both were fast."""
    ours = [Measurement(seconds, seconds, 1, "", source.sums) for seconds in (1.0, 10.0, 2.0)]
    theirs = [Measurement(5 * one.seconds, 4 * one.seconds, 1, "", source.sums) for one in ours]
    runs = {("session", READ, False): ours, ("session", "ijson", False): theirs}
    compared = ratios([source], runs)
    assert compared[0]["ratio"] == {"median": 5.0, "low": 5.0, "high": 5.0}
    assert compared[0]["cpu_ratio"] == 4.0
    assert compared[0]["verdict"] == "STRETCH"
    text = as_text([source], summary([source], runs), compared)
    assert "| session | ijson | 5.00 (5.00 to 5.00) | 4.00 | 1.4 / 2.5 | STRETCH |" in text

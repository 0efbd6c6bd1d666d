"""kill -9 and restarts of a real `serve`."""

from __future__ import annotations

import random

from tests.faults.kill_rounds import kill_rounds


def test_a_few_kills_lose_and_double_nothing(tmp_path):
    """Killed at random moments while its file grows: counters and cost are exact and never fall."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    found = kill_rounds(tmp_path, rounds=4, seed=seed)
    assert found.total == found.last == found.want
    assert found.cost == found.want_cost
    assert found.falls == 0

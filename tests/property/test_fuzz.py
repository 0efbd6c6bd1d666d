"""A few hundred of the inputs that `python -m tests.property.fuzz` tries by the hour."""

from __future__ import annotations

import random

from tests.property import fuzz


def test_mutated_recordings_are_rows_or_rejects():
    """No exception, and the same rows for any split, with the shortcut on or off, by either ijson backend."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    assert fuzz.plain(60, seed, most=300) > 0


def test_the_mutations_reach_both_sides():
    """Most mutated inputs still give rows, and many give rejects: neither is all that is tried."""
    from tests.support import read

    rnd, pool = random.Random(1), fuzz.seeds()
    found = [read(fuzz.mutate(rnd.choice(pool), rnd, rnd.choice(pool))) for _ in range(200)]
    assert sum(any(each.rows.values()) for each in found) > 100
    assert sum(bool(each.stats.rejects) for each in found) > 20
    assert sum(not each.stats.rejects for each in found) > 20

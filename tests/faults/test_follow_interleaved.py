"""A stream and its session files grow side by side, in pieces of any size, through kills and restarts."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.test_follow_twins import wanted
from tests.property.test_sources_in_any_order import WITH_FILES
from tests.rig import Rig
from tests.tails import append

SETTLED = (
    "pi_tokens_total", "pi_cost_usd_total", "pi_requests_total", "pi_sessions_total", "pi_messages_total",
    "pi_tool_calls_total", "pi_retries_total",
)  # fmt: skip
"""Counters that do not wait for the end of a source, as those do that count what was cut off."""


@pytest.mark.parametrize("seed", range(120))
def test_any_interleaving_counts_what_one_reading_counts(folder: Path, tmp_path: Path, seed: int):
    rnd = random.Random(seed)
    recording = rnd.choice(WITH_FILES)
    sources = [("r.jsonl", recording.stamped())]
    sources += [(f"s{n}.jsonl", path.read_bytes()) for n, path in enumerate(recording.session_paths)]
    left = dict(sources)
    rig = Rig(folder, state=tmp_path / "l.db")
    while left:
        name = rnd.choice(list(left))
        size = rnd.choice([1, 7, 300, 3000, 20_000, len(left[name])])
        append(folder / name, left[name][:size])
        left[name] = left[name][size:]
        if not left[name]:
            del left[name]
        what = rnd.random()
        if what < 0.4:
            rig.poll(1)
        elif what < 0.5:
            rig.rest()
        elif what < 0.56:
            rig.kill()
            rig.start()
        elif what < 0.6:
            rig.stop()
            rig.start()
    rig.rest()
    rig.rest()
    found: Counter[str] = Counter()
    want: Counter[str] = Counter()
    for sums, series in ((found, rig.increase), (want, wanted(*sources))):
        for (metric, _), n in series.items():
            sums[metric] += n
    assert {metric: found[metric] for metric in SETTLED} == {metric: want[metric] for metric in SETTLED}, recording.id
    assert rig.falls == []

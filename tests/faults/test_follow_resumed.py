"""A compaction before the first message of a resumed, forked or switched session: stream and file name it differently."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import pimetrics
from pimetrics.api import load
from tests.faults.test_found import FOUND
from tests.rig import Rig
from tests.support import read
from tests.tails import append

RESUMED = sorted(FOUND.glob("01-*"))
FORKED = sorted(FOUND.glob("02-*"))
ORDERS = [*itertools.permutations(RESUMED), *itertools.permutations(FORKED)]


def names(paths: tuple[Path, ...]) -> str:
    return "-".join(path.stem.split(".")[-1] for path in paths)


def spent(paths: tuple[Path, ...]) -> dict[str, int]:
    """What the sessions cost, and their compactions."""
    return {"pi_cost_usd_total": round((0.51 if len(paths) == 2 else 0.53) * 10**12), "pi_compactions_total": 1}


@pytest.mark.parametrize("restart", [False, True], ids=["runs-on", "restarts"])
@pytest.mark.parametrize("paths", ORDERS, ids=names)
def test_it_counts_once_in_any_order(folder, tmp_path, paths, restart):
    """Each source long after the other, and over restarts: counted once, shown once, and nothing falls."""
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    for path in paths:
        append(folder / path.name, path.read_bytes())
        rig.rest()
        if restart:
            rig.stop()
            rig.start()
            rig.rest()
    rig.stop()
    for metric, right in spent(paths).items():
        assert rig.summed(metric) == right, metric
    assert rig.falls == []
    tables = pimetrics.read(tmp_path / "l.db")
    assert tables.usage["cost_usd"].sum() == pytest.approx(spent(paths)["pi_cost_usd_total"] / 10**12)
    (made,) = tables.compactions.to_dicts()
    assert made["reason"] == "threshold"
    assert made["tokens_before"] == 5000


@pytest.mark.parametrize("paths", ORDERS, ids=names)
def test_the_ledger_on_disk_says_what_is_read(folder, tmp_path, paths):
    """The rows of a daemon are those of `read`, whatever came first; counters too, where they are kept."""
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    for path in paths:
        append(folder / path.name, path.read_bytes())
        rig.rest()
    rig.stop()
    want = pimetrics.read(*(folder / path.name for path in sorted(paths)))
    found = pimetrics.read(tmp_path / "l.db")
    assert found.usage.equals(want.usage)
    assert found.compactions.equals(want.compactions)
    counted, _ = load([str(path) for path in paths], counting=True)
    totals = counted.totals.counters
    assert {metric: sum(n for (name, _), n in totals.items() if name == metric) for metric in spent(paths)} == spent(
        paths
    )


@pytest.mark.parametrize("paths", ORDERS, ids=names)
def test_any_order_reads_the_same(paths):
    """In memory: all tables, and what was spent."""
    right = read(*((path.name, path.read_bytes()) for path in sorted(paths)))
    found = read(*((path.name, path.read_bytes()) for path in paths))
    assert found.rows == right.rows
    assert found.total("pi_cost_usd_total") == right.total("pi_cost_usd_total")


@pytest.mark.parametrize("recording", ["cut", "whole"])
def test_a_cut_view_of_it_gives_way_too(folder, tmp_path, recording):
    """A second recording that was cut in the compaction is the same one: not one that never ended."""
    session, stream = RESUMED
    whole = stream.read_bytes()
    lines = whole.splitlines(keepends=True)
    cut = b"".join(lines[:2]) if recording == "cut" else whole
    rig = Rig(folder, state=tmp_path / "l.db", ended=lambda _path: True)
    rig.poll()
    for name, data in (("file", session.read_bytes()), ("cut", cut), ("whole", whole)):
        append(folder / f"{name}.jsonl", data)
        rig.rest()
    rig.stop()
    assert len(pimetrics.read(tmp_path / "l.db").compactions) == 1
    assert rig.summed("pi_compactions_total", outcome="ok") == 1


def test_two_sessions_with_the_same_words_are_two(folder, tmp_path):
    """Another session whose compaction has the same size and summary is another compaction."""
    session, stream = RESUMED
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    append(folder / "s.jsonl", session.read_bytes())
    append(folder / "other.jsonl", stream.read_bytes().replace(b'"id":"r"', b'"id":"q"'))
    rig.rest()
    rig.stop()
    assert rig.summed("pi_compactions_total") == 2


@pytest.mark.parametrize("lost", [b"garbled\n", b""], ids=["garbled", "missing"])
@pytest.mark.parametrize("first", ["whole", "damaged"])
def test_a_copy_that_lost_the_answer_before_it(folder, tmp_path, first, lost):
    """Two copies of a session file, in one of which the answer before a compaction is no record: one compaction."""
    lines = RESUMED[0].read_bytes().splitlines(keepends=True)
    copies = {"whole": lines, "damaged": [*lines[:2], lost, lines[3]]}
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    for name in (first, *(copies.keys() - {first})):
        append(folder / f"{name}.jsonl", *copies[name])
        rig.rest()
    rig.stop()
    assert rig.summed("pi_compactions_total") == 1
    assert rig.summed("pi_cost_usd_total") == round(0.51 * 10**12)
    assert len(pimetrics.read(tmp_path / "l.db").compactions) == 1
    assert len(pimetrics.read(folder).compactions) == 1

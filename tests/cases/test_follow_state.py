"""The cases about what survives a restart, a damaged ledger and a full disk."""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest

import pimetrics
from pimetrics.errors import StateError
from tests.rig import Rig
from tests.tails import append, tail_lines


def test_65_a_restart_loses_nothing(folder, tmp_path):
    """What was appended while it was down is found; the counters go on where they were."""
    header, *records = tail_lines("65")
    path = folder / "s.jsonl"
    rig = Rig(folder, state=tmp_path / "l.db")
    append(path, header, *records[:3])
    rig.rest()
    rig.stop()
    append(path, *records[3:5])
    rig.start()
    rig.rest()
    rig.assert_right({"usage_rows": 5})
    append(path, records[5])
    rig.rest()
    rig.assert_right({"usage_rows": 6, "input": 210, "output": 21, "cost_usd": 0.21})
    rig.stop()
    rig.assert_right({"usage_rows": 6, "input": 210, "output": 21, "cost_usd": 0.21})


def test_65_the_end_commits_what_waits_for_a_twin(folder, tmp_path):
    """SIGTERM within the settle time: what was read is counted, not left for the next start."""
    header, *records = tail_lines("65")
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    append(folder / "s.jsonl", header, *records[:3])
    rig.poll()
    rig.assert_right({"usage_rows": 0})
    rig.stop()
    rig.assert_right({"usage_rows": 3})
    assert len(pimetrics.read(tmp_path / "l.db").usage) == 3


DAMAGE = {
    "NULs": lambda _data: bytes(200),
    "half": lambda data: data[: len(data) // 2],
    "nothing": lambda _data: b"",
    "page": lambda data: data[:4096] + os.urandom(4096) + data[8192:],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_67_a_damaged_ledger_is_replaced(folder, tmp_path, damage):
    """It is kept aside, a line says so, counters begin at 0 and history is known but not counted again."""
    header, *records = tail_lines("67")
    state = tmp_path / "l.db"
    rig = Rig(folder, state=state)
    append(folder / "s.jsonl", header, *records[:3])
    rig.rest()
    rig.stop()
    rig.assert_right({"usage_rows": 3})
    bad = damage(state.read_bytes())
    state.write_bytes(bad)
    rig.start()
    rig.rest()
    assert rig.total("pi_tokens_total") == 0
    assert "state_unreadable" in [reason for reason, _ in rig.notices.lines]
    assert [path.read_bytes() for path in tmp_path.glob("l.db.corrupt-*") if "-wal" not in path.name] == [bad]
    append(folder / "s.jsonl", records[3])
    rig.rest()
    rig.falls.clear()  # to 0, once: what PromQL takes for a restart
    rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
    rig.stop()
    rig.start()
    rig.rest()
    rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
    assert len(pimetrics.read(folder).usage) == len(pimetrics.read(state).usage) == 4
    rig.stop()


def test_67_a_newer_ledger_is_left_alone(folder, tmp_path):
    """A schema of the future: one sentence, and not a byte of it changes."""
    state = tmp_path / "l.db"
    Rig(folder, state=state).stop()
    db = sqlite3.connect(state)
    db.execute("PRAGMA user_version = 999")
    db.close()
    before = state.read_bytes()
    with pytest.raises(StateError, match="newer pimetrics"):
        Rig(folder, state=state)
    assert state.read_bytes() == before


def test_67_a_ledger_without_permission_is_left_alone(folder, tmp_path):
    """Mode 000: one sentence that names the file."""
    state = tmp_path / "l.db"
    Rig(folder, state=state).stop()
    state.chmod(0)
    with pytest.raises(StateError, match=r"l\.db may not be written"):
        Rig(folder, state=state)


def test_69_a_stale_multiprocess_folder_is_not_used(folder, tmp_path, monkeypatch):
    """PROMETHEUS_MULTIPROC_DIR may name anything: no file is made there, no number comes from there."""
    header, *records = tail_lines("69")
    stale = tmp_path / "stale"
    stale.mkdir()
    (stale / "counter_1.db").write_bytes(b"left by another run")
    append(folder / "s.jsonl", header, *records[:3])
    for where in (tmp_path / "missing", stale):
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(where))
        rig = Rig(folder, state=tmp_path / "l.db")
        rig.rest()
        rig.assert_right({"usage_rows": 3, "input": 60, "cost_usd": 0.06})
        rig.stop()
    assert [path.name for path in stale.iterdir()] == ["counter_1.db"]


def test_the_ledger_is_private(folder, tmp_path):
    """Files 0600, the folder that was made for them 0700."""
    state = tmp_path / "deep" / "l.db"
    rig = Rig(folder, state=state)
    rig.rest()
    assert stat.S_IMODE(state.parent.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.parent.iterdir()}
    assert modes == dict.fromkeys(("l.db", "l.db-wal", "l.db-shm", "l.db.lock"), 0o600)
    rig.stop()

"""A ledger over the years: an older schema, retention, damage that shows only later, many labels."""

from __future__ import annotations

import sqlite3

import pytest

import pimetrics
from pimetrics.errors import StateLostError, WrongUseError
from pimetrics.ledger import schema
from pimetrics.ledger.sqlite import SqliteLedger
from pimetrics.names import LABEL_CAP
from pimetrics.pipeline import Pipeline
from tests.rig import Rig
from tests.support import read
from tests.tails import append, tail_lines


def test_an_older_ledger_is_brought_forward(tmp_path, monkeypatch):
    """A ledger of schema 1 keeps its facts and totals and gets what later versions added."""
    header, *records = tail_lines("65")
    path, data = tmp_path / "l.db", header + b"".join(records)
    with monkeypatch.context() as then:
        then.setattr(schema, "VERSION", 1)
        opened = schema.open_state(path)
        opened.connection.execute("INSERT INTO series VALUES ('pi_sessions_total', '[]', '7', NULL, 1.5)")
        opened.connection.close()
        __import__("os").close(opened.lock)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()
    ledger = SqliteLedger(path)
    assert ledger.totals.counters["pi_sessions_total", ()] == 7
    Pipeline(ledger).run("s", [data])
    ledger.commit(0.0)
    assert ledger.totals.counters["pi_sessions_total", ()] == 8
    ledger.close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    db.close()


def test_retention_forgets_rows_but_not_that_they_were_there(tmp_path):
    """Old rows leave the tables; their file read again counts nothing, and totals stay."""
    header, *records = tail_lines("65")
    data, path = header + b"".join(records), tmp_path / "l.db"
    ledger = SqliteLedger(path)
    Pipeline(ledger).run("s", [data])
    ledger.commit(0.0)
    before = dict(ledger.totals.counters)
    cut = 1_794_819_781_000  # the time of the third record
    assert ledger.forget_rows(cut) > 0
    assert ledger.forget_rows(cut) == 0
    assert len(pimetrics.read(path).usage) == 4
    for _ in range(2):
        Pipeline(ledger).run("copy", [data])
        ledger.commit(0.0)
        assert dict(ledger.totals.counters) == before
        assert len(pimetrics.read(path).usage) == 4
        ledger.close()
        ledger = SqliteLedger(path)
    ledger.close()


def test_damage_that_shows_while_it_runs(folder, tmp_path):
    """A page that turns out bad in the middle: put aside, begun anew at 0, and what comes then counts."""
    header, *records = tail_lines("67")
    state = tmp_path / "l.db"
    append(folder / "s.jsonl", header, *records[:3])
    rig = Rig(folder, state=state, settle=0)
    rig.poll()
    assert rig.total("pi_requests_total") == 3
    ledger = rig.daemon._ledger
    real, failed = ledger.commit, []

    def commit(*args, **more):
        if not failed:
            failed.append(True)
            raise StateLostError(f"{state} is damaged")
        return real(*args, **more)

    ledger.commit = commit
    append(folder / "s.jsonl", records[3])
    rig.poll(6)
    assert failed
    assert rig.daemon._ledger is not ledger
    assert len(list(tmp_path.glob("l.db.corrupt-*[0-9]"))) == 1
    assert rig.exporter.ready
    rig.falls.clear()
    append(folder / "s.jsonl", records[4])
    rig.poll(4)
    assert rig.total("pi_requests_total") == 1
    assert len(pimetrics.read(state).usage) == 5
    rig.stop()


def test_admission_of_labels_survives(tmp_path):
    """Which names became series is first come, first kept, over restarts; the rest is `other`."""

    def answers(first, count):
        line = (
            b'{"type":"message","id":"%08x","parentId":null,"timestamp":"2026-11-16T09:01:05.000Z","message":{"role":'
            b'"assistant","content":[],"provider":"p","model":"m%d","stopReason":"stop","timestamp":%d,'
            b'"usage":{"input":1,"output":1}}}\n'
        )
        return b"".join(line % (n, n, 1_794_000_000_000 + n) for n in range(first, first + count))

    header = b'{"type":"session","version":3,"id":"s","timestamp":"2026-11-16T09:00:00.000Z","cwd":"/d"}\n'
    path = tmp_path / "l.db"
    models = set()
    for first in (0, LABEL_CAP - 20, LABEL_CAP + 100):
        ledger = SqliteLedger(path)
        Pipeline(ledger).run(f"s{first}", [header + answers(first, 100)])
        ledger.commit(0.0)
        models = {labels[1] for metric, labels in ledger.totals.counters if metric == "pi_requests_total"}
        overflow = ledger.totals.overflow["model"]
        ledger.close()
    want = read(header + answers(0, 100), header + answers(LABEL_CAP - 20, 100), header + answers(LABEL_CAP + 100, 100))
    assert len(models) <= LABEL_CAP + 1
    assert "other" in models
    assert overflow > 0
    assert {labels[1] for metric, labels in want.counters if metric == "pi_requests_total"} == models


def test_a_ledger_is_read_alone(tmp_path):
    """Together with other sources it cannot be merged: one sentence."""
    SqliteLedger(tmp_path / "l.db").close()
    with pytest.raises(WrongUseError, match="read it alone"):
        pimetrics.read(tmp_path / "l.db", tmp_path)


def test_reading_while_it_is_written(tmp_path):
    """`pimetrics.read` sees what is committed, holds nothing up, and is held up by nothing."""
    header, *records = tail_lines("65")
    path = tmp_path / "l.db"
    ledger = SqliteLedger(path)
    source = Pipeline(ledger).open("s")
    for count, line in enumerate([header, *records]):
        source.feed(line)
        ledger.commit(0.0)
        assert len(pimetrics.read(path).usage) == count
    ledger.close()

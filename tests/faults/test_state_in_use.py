"""A ledger that cannot be had: another exporter holds it, the folder is read-only, it is somebody else's database."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest

from pimetrics.errors import StateError
from pimetrics.ledger.schema import open_state
from pimetrics.ledger.sqlite import SqliteLedger
from tests.rig import Rig
from tests.tails import append, tail_lines


def serve(state, folder) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pimetrics",
        "serve",
        folder,
        "--state",
        state,
        "--web.listen-address",
        "127.0.0.1:0",
    ]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=30, check=False)


def test_a_second_exporter_is_refused(tmp_path):
    """One sentence that names the file, exit 2; the first goes on."""
    state = tmp_path / "l.db"
    ledger = SqliteLedger(state)
    second = serve(state, tmp_path)
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert f"{state} is in use by another pimetrics serve" in second.stderr
    ledger.commit(0.0)
    ledger.close()
    SqliteLedger(state).close()


def test_a_link_to_a_ledger_is_that_ledger(tmp_path):
    """Whoever holds it, under whatever name, is found; a damaged one is put aside where it is, and the link stays."""
    (tmp_path / "disk").mkdir()
    state, link = tmp_path / "disk" / "l.db", tmp_path / "link.db"
    link.symlink_to(state)
    ledger = SqliteLedger(link)
    for name in (state, link):
        with pytest.raises(StateError, match="in use by another pimetrics serve"):
            SqliteLedger(name)
    ledger.close()
    state.write_bytes(b"no database")
    ledger = SqliteLedger(link)
    assert ledger.silent
    ledger.close()
    assert link.is_symlink()
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["link.db"]
    assert len(list(state.parent.glob("l.db.corrupt-*"))) == 1


def test_another_programs_database_is_left_alone(tmp_path):
    """It is neither used nor moved aside."""
    state = tmp_path / "other.db"
    db = sqlite3.connect(state)
    db.execute("CREATE TABLE t (x)")
    db.close()
    before = state.read_bytes()
    with pytest.raises(StateError, match="another program"):
        SqliteLedger(state)
    assert state.read_bytes() == before


def test_a_folder_in_its_place_is_refused(tmp_path):
    """A folder is no ledger."""
    with pytest.raises(StateError, match="is no file"):
        SqliteLedger(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_read_only_folder_is_refused(tmp_path):
    """As a user who may not write there: one sentence that names the file."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setuid(65534)
            SqliteLedger(closed / "l.db")
        except StateError as error:
            status = 0 if "l.db cannot be used (Permission denied)" in str(error) else 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_file_system_without_shared_memory_is_refused(tmp_path, monkeypatch):
    """Where SQLite cannot keep a write-ahead log: one sentence."""
    real = sqlite3.connect

    class NoLog(sqlite3.Connection):
        def execute(self, sql, *args):
            if sql == "PRAGMA journal_mode = WAL":
                return super().execute("PRAGMA journal_mode = DELETE")
            return super().execute(sql, *args)

    monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: real(*args, factory=NoLog, **kwargs))
    with pytest.raises(StateError, match="without shared memory"):
        open_state(tmp_path / "l.db")


def test_a_ledger_deleted_while_it_is_in_use_is_told_once(folder, tmp_path):
    """Counters go on and never fall; the next start counts what the files still hold."""
    header, *records = tail_lines("65")
    rig = Rig(folder, state=tmp_path / "l.db")
    append(folder / "s.jsonl", header, *records[:2])
    rig.rest(60)
    (tmp_path / "l.db").unlink()
    append(folder / "s.jsonl", *records[2:])
    for _ in range(3):
        rig.rest(60)
    assert [reason for reason, _ in rig.notices.lines] == ["state_gone"]
    counted = rig.total("pi_requests_total")
    assert counted == len(records)
    rig.stop()
    rig.start()
    rig.rest(60)
    assert rig.total("pi_requests_total") == counted
    assert rig.falls == []
    assert rig.notices.lines == []

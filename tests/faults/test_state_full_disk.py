"""A full disk under the ledger: it runs on, loses nothing, says so once, and counts when there is room again."""

from __future__ import annotations

import os
import subprocess

import pytest

from pimetrics.errors import StateFullError
from pimetrics.ledger.sqlite import SqliteLedger
from tests.rig import Rig
from tests.tails import append, tail_lines


class Fillable:
    """Opens a ledger whose disk can be filled."""

    def __init__(self, path):
        self.path, self.full, self.ledger = path, False, None

    def __call__(self):
        if self.full:
            raise StateFullError("the disk is full")
        self.ledger = SqliteLedger(self.path)
        return self.ledger

    def fill(self):
        db = self.ledger._db
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")

    def free(self):
        self.ledger._db.execute("PRAGMA max_page_count = 1000000")


def another(records, number, model=b"model-a"):
    """A record like the first, of another time and entry."""
    line = records[0].replace(b"model-a", model).replace(b"1794819661000", b"%d" % (1_794_830_000_000 + number))
    return line.replace(b"ee000001", b"ff%06x" % number)


def big(records, number):
    """A record whose row needs new pages."""
    return another(records, number, b"m" * 6000 + b"%d" % number)


def test_a_disk_that_fills_up_and_is_freed(folder, tmp_path):
    """While full: scrapes go on with what is committed, failures count, files are not read on; then all is counted."""
    header, *records = tail_lines("68")
    disk = Fillable(tmp_path / "l.db")
    rig = Rig(folder, open_ledger=disk, settle=0)
    append(folder / "s.jsonl", header, *records[:2])
    rig.poll()
    disk.fill()
    append(folder / "s.jsonl", *(big(records, n) for n in range(20)))
    rig.poll(20)
    assert rig.total("pi_requests_total") == 2
    assert rig.total("pimetrics_ledger_commit_failures_total") >= 2
    read = rig.total("pimetrics_bytes_read_total")
    append(folder / "s.jsonl", records[2])
    rig.poll(20)
    assert rig.total("pimetrics_bytes_read_total") == read
    assert [reason for reason, _ in rig.notices.lines] == ["state_full"]
    disk.free()
    rig.poll(10)
    assert rig.total("pi_requests_total") == 23
    assert [reason for reason, _ in rig.notices.lines] == ["state_full", "state_writable"]
    assert rig.falls == []
    rig.stop()


def test_a_kill_while_the_disk_is_full(folder, tmp_path):
    """What could not be committed is read again after the restart, once."""
    header, *records = tail_lines("68")
    disk = Fillable(tmp_path / "l.db")
    rig = Rig(folder, open_ledger=disk, settle=0)
    append(folder / "s.jsonl", header, *records[:2])
    rig.poll()
    disk.fill()
    append(folder / "s.jsonl", *(big(records, n) for n in range(20)))
    rig.poll(20)
    rig.kill()
    rig.start()
    rig.poll(10)
    assert rig.total("pi_requests_total") == rig.summed("pi_requests_total") == 22
    rig.stop()


def test_a_disk_that_is_full_at_the_start(folder, tmp_path):
    """It starts, is not ready, takes nothing; with room it catches up. Standard input waits in the meantime."""
    header, *records = tail_lines("68")
    disk = Fillable(tmp_path / "l.db")
    disk.full = True
    append(folder / "s.jsonl", header, *records[:3])
    rig = Rig(folder, open_ledger=disk, settle=0, piped=True)
    rig.pipe.put(header.replace(b"sess-tail", b"piped") + records[3])
    rig.poll(10)
    assert not rig.exporter.ready
    assert rig.total("pimetrics_ledger_commit_failures_total") >= 2
    disk.full = False
    rig.poll(10)
    rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
    rig.stop()


def test_standard_input_never_blocks_while_the_disk_is_full(folder, tmp_path):
    """More than the buffer holds is dropped at a line's cost and said; the writer is not held up."""
    header, *records = tail_lines("68")
    disk = Fillable(tmp_path / "l.db")
    disk.full = True
    rig = Rig(folder, open_ledger=disk, settle=0, piped=True)
    rig.pipe._limit = 4000
    rig.pipe.put(header + records[0])
    for number in range(100):
        rig.pipe.put(another(records, number))
    disk.full = False
    rig.poll(10)
    rig.pipe.put(records[2])
    rig.poll(10)
    kept = rig.total("pi_requests_total") - 2
    assert 0 < kept < 20
    assert rig.total("pi_tokens_total", token_type="input") == 10 + 10 * kept + 30
    assert rig.rejects == 0
    assert "stdin_lost" in [reason for reason, _ in rig.notices.lines]
    rig.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_68_a_real_full_disk(folder, tmp_path):
    """A 1 MiB file system filled to the last byte: start, follow, free it, restart; four calls."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting is not allowed here")
    header, *records = tail_lines("68")
    try:
        ballast = small / "ballast"
        with ballast.open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(bytes(4096))
                except OSError:
                    break
        append(folder / "s.jsonl", header, *records[:3])
        rig = Rig(folder, state=small / "l.db", settle=0)
        rig.poll(10)
        assert rig.total("pimetrics_ledger_commit_failures_total") >= 1
        ballast.unlink()
        append(folder / "s.jsonl", records[3])
        rig.poll(10)
        rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
        rig.stop()
        rig.start()
        rig.poll()
        rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
        rig.stop()
    finally:
        subprocess.run(["umount", small], check=True)

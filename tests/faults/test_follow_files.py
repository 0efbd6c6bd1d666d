"""Files in odd states: unreadable, linked, in a loop, no files at all, coming late, taking another's inode."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import pimetrics
from tests.rig import Rig
from tests.tails import append, tail_lines


def test_60_one_content_under_many_names(folder, tmp_path):
    """Symlink, hard link, copy and a loop of folders: three calls, four after one more line in one of them."""
    header, *records = tail_lines("60")
    path = folder / "s.jsonl"
    append(path, header, *records[:3])
    (folder / "l.jsonl").symlink_to("s.jsonl")
    (folder / "h.jsonl").hardlink_to(path)
    shutil.copy(path, folder / "s-1.jsonl")
    (folder / "sub").mkdir()
    (folder / "sub" / "loop").symlink_to("..")
    (folder / "round.jsonl").symlink_to("round.jsonl")
    tables = pimetrics.read(folder)
    assert (len(tables.usage), len(tables.sessions)) == (3, 1)
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.rest()
    append(path, records[3])
    rig.rest()
    rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
    assert rig.exporter.states == {"open": 2}
    path.unlink()  # the hard link is still there
    append(folder / "h.jsonl", records[4])
    rig.rest(6)
    rig.assert_right({"usage_rows": 5})
    rig.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_61_an_unreadable_file_among_others():
    """As another user: the others are read, two log lines at most, a gauge shows it, and chmod heals it."""
    with TemporaryDirectory() as name:  # pytest's own folders are closed to other users
        unreadable(Path(name))


def unreadable(folder):
    header, *records = tail_lines("61")
    append(folder / "a.jsonl", header, *records[:2])
    append(folder / "b.jsonl", header.replace(b"sess-tail", b"sess-b"), records[2])
    (folder / "a.jsonl").chmod(0)
    os.chown(folder, 65534, 65534)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.chown(folder / "a.jsonl", 65534, 65534)
            os.setuid(65534)
            rig = Rig(folder)
            rig.poll(10)
            before = (rig.total("pi_requests_total"), rig.gauge("pimetrics_sources", "unreadable"), rig.exporter.ready)
            lines = len(rig.notices.lines)
            (folder / "a.jsonl").chmod(0o644)
            rig.rest()
            rig.rest()
            after = (rig.total("pi_requests_total"), rig.gauge("pimetrics_sources", "unreadable"))
            status = 0 if (before, after) == ((1, 1, True), (3, 0)) and 0 < lines <= 2 else 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_pipes_devices_and_dangling_links_are_passed_over(folder):
    """A FIFO, a link to a device and a link to nothing, planted under good names: nothing blocks, nothing is read."""
    header, *records = tail_lines("60")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "zero.jsonl").symlink_to("/dev/zero")
    (folder / "gone.jsonl").symlink_to("nowhere")
    append(folder / "s.jsonl", header, records[0])
    rig = Rig(folder, settle=0)
    rig.poll(4)
    rig.assert_right({"usage_rows": 1})
    assert rig.exporter.states == {"open": 1}


def test_a_file_that_turns_into_a_pipe(folder):
    """Swapped for a FIFO while it is followed: it is gone, and nothing blocks."""
    header, *records = tail_lines("60")
    path = folder / "s.jsonl"
    append(path, header, records[0])
    rig = Rig(folder, settle=0)
    rig.poll()
    path.unlink()
    os.mkfifo(path)
    rig.rest(10)
    rig.rest(10)
    rig.assert_right({"usage_rows": 1})
    assert rig.exporter.states == {}


def test_a_folder_that_comes_later(tmp_path):
    """It is waited for, ready in the meantime; what is in it counts, also in folders below, also when it comes anew."""
    header, *records = tail_lines("60")
    folder = tmp_path / "later"
    rig = Rig(folder, settle=0)
    rig.poll()
    assert rig.exporter.ready
    (folder / "deep" / "er").mkdir(parents=True)
    append(folder / "deep" / "er" / "s.jsonl", header, records[0])
    rig.rest()
    rig.assert_right({"usage_rows": 1})
    shutil.rmtree(folder)
    rig.rest()
    (folder / "new").mkdir(parents=True)
    append(folder / "new" / "t.jsonl", header, records[1])
    rig.rest()
    rig.assert_right({"usage_rows": 2})


def test_another_file_with_the_inode_of_one_that_went(folder, tmp_path):
    """A new file that got the inode of a deleted one is read from its start, whatever its size."""
    header, *records = tail_lines("60")
    rig = Rig(folder, state=tmp_path / "l.db", settle=0)
    reused = False
    for number in range(40):
        path = folder / f"{number}.jsonl"
        append(
            path, header.replace(b"sess-tail", b"sess-%d" % number), records[0].replace(b"tail-1", b"own-%d" % number)
        )
        inode = path.stat().st_ino
        rig.poll(1)
        path.unlink()
        probe = folder / "probe.txt"
        probe.touch()
        reused = reused or probe.stat().st_ino == inode
        probe.unlink()
    rig.rest()
    rig.assert_right({"usage_rows": 40})
    assert rig.rejects == 0
    rig.stop()


def test_moved_to_another_folder(folder, tmp_path):
    """A file moved between followed folders with unread lines goes on where it was."""
    header, *records = tail_lines("60")
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    rig = Rig(folder, state=tmp_path / "l.db", settle=0)
    append(folder / "a" / "s.jsonl", header, records[0])
    rig.poll()
    append(folder / "a" / "s.jsonl", records[1])
    (folder / "a" / "s.jsonl").rename(folder / "b" / "t.jsonl")
    rig.rest()
    append(folder / "b" / "t.jsonl", records[2])
    rig.rest()
    rig.assert_right({"usage_rows": 3, "input": 60})
    assert sum(rig.exporter.resets.values()) == 0
    rig.stop()


def test_a_named_file_that_vanishes_and_returns(tmp_path):
    """Named itself, not by its folder: deleted and made again it is read again, and what it held counts once."""
    header, *records = tail_lines("60")
    path = tmp_path / "s.log"
    append(path, header, records[0])
    rig = Rig(tmp_path, paths=[path], settle=0)
    rig.poll()
    path.unlink()
    rig.rest(10)
    append(path, header, *records[:2])
    rig.rest(10)
    rig.assert_right({"usage_rows": 2, "input": 30})


def test_a_compressed_file_that_is_still_written(folder):
    """Read when it rests; a part of it rejects nothing, the whole counts once."""
    import gzip

    header, *records = tail_lines("60")
    data = gzip.compress(header + b"".join(records))
    path = folder / "s.jsonl.gz"
    rig = Rig(folder, settle=0)
    for at in range(0, len(data), 60):
        append(path, data[at : at + 60])
        rig.poll(1)
    rig.rest()
    rig.rest()
    rig.assert_right({"usage_rows": 6, "input": 210})
    assert rig.rejects == 0


def test_a_change_of_mode_is_no_change(folder, tmp_path):
    """chmod and touch move times only: the bytes are checked and nothing is read again."""
    header, *records = tail_lines("60")
    path = folder / "s.jsonl"
    append(path, header, *records)
    rig = Rig(folder, state=tmp_path / "l.db", settle=0)
    rig.poll()
    read = rig.total("pimetrics_bytes_read_total")
    path.chmod(0o600)
    os.utime(path)
    rig.rest()
    assert rig.total("pimetrics_bytes_read_total") == read
    assert sum(rig.exporter.resets.values()) == 0
    rig.stop()


def test_an_unchanged_file_is_not_opened_after_a_restart(folder, tmp_path, monkeypatch):
    """Its place, size and times are as they were: not a byte of it is read."""
    header, *records = tail_lines("60")
    path = folder / "s.jsonl"
    append(path, header, *records)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 7200))
    rig = Rig(folder, state=tmp_path / "l.db", settle=0)
    rig.poll()
    rig.stop()
    rig.start()
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda name, *rest, **more: opened.append(str(name)) or real(name, *rest, **more))
    rig.poll()
    assert [name for name in opened if name.startswith(str(folder))] == []
    rig.assert_right({"usage_rows": 6})
    rig.stop()


def test_a_strange_file_with_the_inode_of_a_followed_one(folder, tmp_path):
    """A deleted session whose inode goes to a file of another name: that file is not read."""
    header, *records = tail_lines("60")
    rig = Rig(folder, state=tmp_path / "l.db", settle=0)
    for number in range(20):
        path = folder / f"{number}.jsonl"
        append(path, header, *records)
        rig.poll(1)
        path.unlink()
        (folder / f"{number}.txt").write_bytes(b"a diary, and longer than what was there before it\n" * 200)
        rig.poll(3)
    rig.rest(10)
    rig.assert_right({"usage_rows": 6})
    assert rig.rejects == 0
    rig.stop()


def test_a_file_that_grew_while_it_was_down_gives_its_new_rows_only(folder, tmp_path):
    """Its beginning is read again for the state that it leaves, and the ledger is not asked about a row of it."""
    header, *records = tail_lines("60")
    path = folder / "s.jsonl"
    append(path, header, *records[:5])
    rig = Rig(folder, state=tmp_path / "l.db", settle=0)
    rig.poll()
    rig.stop()
    append(path, records[5])
    rig.start()
    asked = []
    real = rig.daemon._ledger.get
    rig.daemon._ledger.get = lambda table, key: asked.append(table) or real(table, key)
    rig.daemon._ledger._rules._store = rig.daemon._ledger
    rig.poll()
    assert asked.count("usage") == 1
    rig.assert_right({"usage_rows": 6, "input": 210})
    rig.stop()


def test_a_file_that_turns_out_to_be_old_is_not_active(folder):
    """A receiver writes what was delivered late, then says how old it is; who was faster in between corrects itself."""
    header, *records = tail_lines("60")
    append(folder / "late.jsonl", header, *records[:3])
    rig = Rig(folder)
    rig.rest()
    assert rig.gauge("pi_sessions_active") == 1
    hour_ago = time.time() - 3600
    os.utime(folder / "late.jsonl", (hour_ago, hour_ago))
    rig.rest()
    assert rig.gauge("pi_sessions_active") == 0
    rig.assert_right({"usage_rows": 3})
    rig.stop()

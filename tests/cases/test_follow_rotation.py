"""The cases about files that are rotated, cut, rewritten, renamed and deleted while they are followed."""

from __future__ import annotations

import gzip
import os
import shutil

import pytest

import pimetrics
from tests.cases.scans import CASES, case
from tests.rig import Rig
from tests.tails import append, tail_lines


def test_05_a_migrated_file_counts_once(folder, tmp_path):
    """pi rewrites an old session in place, longer and with new ids: nothing is counted twice, no line is rejected."""
    v1, v3 = case("05").files
    rig = Rig(folder, state=tmp_path / "l.db")
    path = folder / "s.jsonl"
    path.write_bytes(v1.read_bytes())
    rig.rest()
    rig.assert_right({"usage_rows": 2, "cost_usd": 0.015})
    path.write_bytes(v3.read_bytes())
    rig.rest()
    rig.assert_right({"usage_rows": 3, "input": 157, "output": 18, "cost_usd": 0.017})
    assert len(pimetrics.read(tmp_path / "l.db").usage) == 3
    assert rig.rejects == 0
    assert rig.total("pimetrics_source_resets_total", reason="rewritten") == 1
    assert len(pimetrics.read(path).usage) == 3
    rig.stop()


@pytest.mark.parametrize("rotated", ["s.1.jsonl", "s.jsonl.1"])
def test_56_a_renamed_file_is_read_to_its_end(folder, tmp_path, rotated):
    """Lines written just before a rename, and to the old file after it, count; both files go on, also when the new
    name is none that the folder is searched for."""
    header, *records = tail_lines("56")
    path, old = folder / "s.jsonl", folder / rotated
    rig = Rig(folder, state=tmp_path / "l.db")
    append(path, header, *records[:2])
    rig.rest()
    append(path, records[2])
    path.rename(old)
    append(path, header, records[3])
    rig.poll()
    append(old, records[4])
    append(path, records[5])
    rig.rest()
    rig.assert_right({"usage_rows": 6, "input": 210, "output": 21, "cost_usd": 0.21})
    assert rig.rejects == 0
    rig.stop()


def test_57_copytruncate(folder, tmp_path):
    """The copy is recognised, and reading goes on from the start of the file that was cut to nothing."""
    header, *records = tail_lines("57")
    path = folder / "s.jsonl"
    rig = Rig(folder, state=tmp_path / "l.db")
    append(path, header, *records[:3])
    rig.rest()
    shutil.copy(path, folder / "s.copy.jsonl")
    os.truncate(path, 0)
    append(path, header, records[3])
    rig.rest()
    rig.assert_right({"usage_rows": 4, "input": 100, "output": 10, "cost_usd": 0.1})
    assert rig.rejects == 0
    assert rig.total("pimetrics_duplicates_skipped_total") == 3
    assert rig.total("pimetrics_source_resets_total", reason="truncated") == 1
    rig.stop()


def test_58_cut_and_filled_again_beyond_the_old_end(folder, tmp_path):
    """Size says nothing: the bytes before the old end are others, so the file is read from its start."""
    header, *records = tail_lines("58")
    path = folder / "s.jsonl"
    rig = Rig(folder, state=tmp_path / "l.db")
    append(path, header, *records[:2])
    rig.rest()
    path.write_bytes(header + b"".join(records[2:]))
    rig.rest()
    rig.assert_right({"usage_rows": 6, "input": 210, "output": 21, "cost_usd": 0.21})
    assert rig.rejects == 0
    rig.stop()


def test_62_a_deleted_session_stays_counted(folder, tmp_path):
    """Deletion takes nothing back, holds nothing open, and a restart counts nothing again."""
    header, *records = tail_lines("62")
    path = folder / "s.jsonl"
    rig = Rig(folder, state=tmp_path / "l.db")
    append(path, header, *records[:3])
    rig.rest()
    path.unlink()
    rig.rest(10)
    held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit() and _is_link(fd)]
    assert [name for name in held if str(folder) in name] == []
    assert rig.exporter.states.get("open", 0) == 0
    rig.stop()
    rig.start()
    rig.rest()
    append(folder / "t.jsonl", header.replace(b"sess-tail", b"sess-other"), records[3])
    rig.rest()
    rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
    rig.stop()


def _is_link(fd: str) -> bool:
    try:
        os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False  # the descriptor of the listing itself
    return True


def test_63_gzip_beside_the_live_file(folder, tmp_path):
    """A file packed away beside a new one of its old name: four calls, followed and scanned."""
    header, *records = tail_lines("63")
    path = folder / "s.jsonl"
    rig = Rig(folder, state=tmp_path / "l.db")
    append(path, header, *records[:3])
    rig.rest()
    (folder / "s.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    append(path, header, records[3])
    rig.rest()
    rig.assert_right({"usage_rows": 4, "input": 100, "cost_usd": 0.1})
    assert rig.rejects == 0
    assert len(pimetrics.read(folder).usage) == 4
    rig.stop()


def test_64_growth_without_a_new_time(folder, tmp_path):
    """A file that grew is read, whatever its modification time says."""
    header, *records = tail_lines("64")
    path = folder / "s.jsonl"
    rig = Rig(folder, state=tmp_path / "l.db")
    append(path, header, records[0])
    rig.rest()
    before = path.stat()
    append(path, records[1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    rig.rest()
    rig.assert_right({"usage_rows": 2})
    append(path, records[2])
    os.utime(path, (before.st_atime - 86400, before.st_mtime - 86400))
    rig.rest()
    rig.assert_right({"usage_rows": 3, "input": 60, "cost_usd": 0.06})
    rig.stop()


def test_the_cases_are_there():
    """The fixtures of these tests exist; a glob that matches nothing would test nothing."""
    assert len(list(CASES.glob("5[678]-*.json"))) == 3

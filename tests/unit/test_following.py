"""The parts of following: when to look, what is there, whether bytes are still the same, a pipe's buffer, the log."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading

import pytest

from pimetrics.notices import PER_FILE, PER_REASON, Notices, set_up
from pimetrics.sources.fingerprint import BLOCK_BYTES, NOTHING, extend, take
from pimetrics.sources.folders import Folders
from pimetrics.sources.schedule import Schedule
from pimetrics.sources.stdin import PipeBuffer


class Thing:
    def __init__(self, changed: float = 0.0) -> None:
        self.due, self.changed, self.tier = float("inf"), changed, -1


def looks(count: int, age: float, seconds: float) -> float:
    """Looks a second at so many things that changed so long ago."""
    schedule: Schedule[Thing] = Schedule()
    now = 1000.0
    for _ in range(count):
        schedule.again(Thing(now - age), now)
    looked = 0
    for tick in range(int(seconds * 4)):
        for thing in schedule.pop(now + tick / 4):
            looked += 1
            thing.changed = now + tick / 4 - age
            schedule.again(thing, now + tick / 4)
    return looked / seconds


def test_active_things_are_looked_at_often_and_old_ones_rarely():
    """Four times a second within a minute of a change, every other second within ten, then every half minute."""
    assert looks(10, 1.0, 60) == pytest.approx(40, rel=0.1)
    assert looks(10, 120.0, 60) == pytest.approx(5, rel=0.2)
    assert looks(10, 3600.0, 120) == pytest.approx(10 / 30, rel=0.5)


@pytest.mark.parametrize("age", [1.0, 120.0, 3600.0])
def test_looks_are_bounded_however_many_files(age):
    """Ten thousand files, whatever their age, cost at most about a thousand looks a second."""
    assert looks(10_000, age, 60) < 1500


def test_what_is_dropped_is_never_due():
    """A thing that was dropped, and one that was moved to a later time, are not given out at the old one."""
    schedule: Schedule[Thing] = Schedule()
    dropped, later = Thing(), Thing()
    schedule.add(dropped, 1.0)
    schedule.add(later, 1.0)
    schedule.drop(dropped)
    schedule.add(later, 2.0)
    assert schedule.pop(1.5) == []
    assert schedule.pop(2.5) == [later]
    assert schedule.pop(99.0) == []


@pytest.mark.parametrize("size", [0, 1, 100, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
@pytest.mark.parametrize("step", [1, 7, BLOCK_BYTES - 1, 2 * BLOCK_BYTES])
def test_a_fingerprint_grows_as_it_would_be_taken(tmp_path, size, step):
    """Extended by what was read, in any pieces, it is the fingerprint of the whole."""
    if size // step > 3000:
        step = 97
    path = tmp_path / "f"
    data = os.urandom(size)
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    known = NOTHING
    for at in range(0, size, step):
        known = extend(known, fd, data[at : at + step])
    assert known == take(fd, size)
    assert known.fits(fd)
    if size:
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        assert not known.fits(fd)
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert not known.fits(fd)
        path.write_bytes(data[:-1])
        assert not known.fits(fd)
    os.close(fd)


def test_folders_tell_what_came_and_went(tmp_path):
    """Files below a folder, new folders, renames, patterns; a hint makes it look at once."""
    (tmp_path / "a").mkdir()
    folders = Folders([str(tmp_path / "a"), str(tmp_path / "*.log")])
    assert list(folders.changes(0.0, 1e12)) == []
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "x.jsonl").touch()
    (deep / "x.txt").touch()
    (tmp_path / "y.log").touch()
    folders.hint(str(deep / "x.jsonl"), 0.1)
    assert list(folders.changes(0.1, 1e12)) == [(str(deep / "x.jsonl"), True)]
    assert list(folders.changes(3.0, 1e12)) == [(str(tmp_path / "y.log"), True)]
    (deep / "x.jsonl").rename(deep / "z.jsonl.gz")
    found = sorted(folders.changes(10.0, 1e12))
    assert found == [(str(deep / "x.jsonl"), False), (str(deep / "z.jsonl.gz"), True)]
    shutil.rmtree(deep)
    assert list(folders.changes(20.0, 1e12)) == [(str(deep / "z.jsonl.gz"), False)]


def test_a_full_buffer_waits_while_it_is_taken():
    """The writer is held up until there is room, and nothing is lost."""
    buffer = PipeBuffer(lambda: None, limit=10)
    done = threading.Event()

    def write() -> None:
        for number in range(100):
            buffer.put(b"%03d\n" % number)
        buffer.end()
        done.set()

    threading.Thread(target=write, daemon=True).start()
    found = b""
    while not buffer.finished:
        found += buffer.take() or b""
    assert done.wait(5)
    assert found == b"".join(b"%03d\n" % number for number in range(100))
    assert buffer.lost_bytes == 0


def test_a_full_buffer_drops_while_nothing_is_taken():
    """Nobody waits; the gap is closed with a line end."""
    buffer = PipeBuffer(lambda: None, limit=10)
    buffer.taking(on=False)
    for piece in (b"12345678", b"90abc", b"lost", b"lost"):
        buffer.put(piece)
    assert (buffer.take(), buffer.take(), buffer.take()) == (b"12345678", b"90abc", None)
    buffer.put(b"new")
    assert (buffer.take(), buffer.take()) == (b"\n", b"new")
    assert buffer.lost_bytes == 8


def test_log_lines_are_bounded_by_reason_and_file(caplog):
    """Two lines for a file and a reason, a hundred for a reason, then one that says so."""
    notices = Notices()
    with caplog.at_level(logging.WARNING, logger="pimetrics"):
        for number in range(1000):
            notices.say("unreadable", f"file {number % 200}", f"{number % 200}")
        for _ in range(10):
            notices.say("rejected", "one", "one")
    said = [record.getMessage() for record in caplog.records]
    assert len([text for text in said if text.startswith("file")]) == PER_REASON
    assert len([text for text in said if text.startswith("no more lines")]) == 1
    assert said.count("one") == PER_FILE


def test_log_lines_as_json(capsys):
    """One object a line, with the reason and the file, hostile names escaped."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        set_up("json")
        Notices().say("unreadable", "it cannot be read", "a\nb\u202e.jsonl")
        found = json.loads(capsys.readouterr().err)
    finally:
        root.handlers[:], level = before
        root.setLevel(level)
    assert (found["reason"], found["file"], found["level"]) == ("unreadable", "a\\x0ab\\u202e.jsonl", "warning")
    assert found["message"] == "it cannot be read"

"""Which recordings stay, which are compressed, and that nothing else is ever touched."""

import fcntl
import gzip
import os
import stat

import pytest

from pimetrics.errors import WrongUseError
from pimetrics.places import recordings_dir
from pimetrics.sinks.recording import being_written, create, new_name
from pimetrics.sinks.retention import Limits, parse_keep, parse_max_bytes, tidy

NOW = 1796065800.0
DAY = 86400.0
FREE = Limits(None, None)


def old(folder, age_s, data=b'{"a":1}\n'):
    path = folder / new_name(NOW - age_s)
    os.close(create(path))
    path.write_bytes(data)
    os.utime(path, (NOW - age_s, NOW - age_s))
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_old_recordings_go_and_young_ones_stay(tmp_path):
    """Age counts from the last write; compressed recordings age like others."""
    gone, stays = old(tmp_path, 31 * DAY), old(tmp_path, 29 * DAY)
    tidy(tmp_path, Limits(30 * DAY, None), NOW)
    assert names(tmp_path) == [stays.name + ".gz"]
    assert not gone.exists()
    tidy(tmp_path, Limits(30 * DAY, None), NOW + 2 * DAY)
    assert names(tmp_path) == []


def test_the_oldest_go_when_there_is_too_much(tmp_path):
    """Above the size limit the oldest recordings are deleted until the rest fits."""
    paths = [old(tmp_path, n, b"x" * 100) for n in (400, 300, 200, 100)]
    tidy(tmp_path, Limits(None, 250), NOW)
    assert names(tmp_path) == sorted(path.name for path in paths[2:])


def test_a_recording_that_is_being_written_is_left_alone(tmp_path):
    """Neither age nor size nor compression touches a file that its recorder still holds."""
    path = tmp_path / new_name(NOW)
    fd = create(path)
    os.utime(path, (NOW - 99 * DAY, NOW - 99 * DAY))
    assert being_written(path)
    tidy(tmp_path, Limits(DAY, 0), NOW)
    assert names(tmp_path) == [path.name]
    os.close(fd)
    assert not being_written(path)
    assert not being_written(tmp_path / "nothing")
    tidy(tmp_path, Limits(DAY, 0), NOW)
    assert names(tmp_path) == []


def test_other_files_are_never_touched(tmp_path):
    """Only names that record gives are its business; links to them are not."""
    target = tmp_path.parent / f"{tmp_path.name}-target"
    target.write_bytes(b"x")
    others = ["session.jsonl", "20200101T000000.000Z_0123456.jsonl", "x.jsonl.gz", "20200101T000000.000Z_01234567.json"]
    for name in others:
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "20200101T000000.000Z_01234567.jsonl").symlink_to(target)
    before = names(tmp_path)
    tidy(tmp_path, Limits(1, 0), NOW)
    assert names(tmp_path) == before
    assert target.read_bytes() == b"x"


def test_settled_recordings_are_compressed(tmp_path):
    """After ten quiet minutes a recording becomes .jsonl.gz: same bytes, same time, still private."""
    settled, fresh = old(tmp_path, 700, b'{"a":1}\n' * 100000), old(tmp_path, 500)
    tidy(tmp_path, FREE, NOW)
    assert names(tmp_path) == sorted([settled.name + ".gz", fresh.name])
    packed = tmp_path / (settled.name + ".gz")
    assert gzip.decompress(packed.read_bytes()) == b'{"a":1}\n' * 100000
    assert packed.stat().st_mtime == NOW - 700
    assert stat.S_IMODE(packed.stat().st_mode) == 0o600


def test_a_compression_that_is_stopped_leaves_the_recording(tmp_path):
    """Stopped half way, the recording is as it was and no part stays; the next time it is done."""
    path = old(tmp_path, 700, os.urandom(1 << 20))
    asked = []
    tidy(tmp_path, FREE, NOW, stop=lambda: asked.append(1) or len(asked) > 2)
    assert names(tmp_path) == [path.name]
    tidy(tmp_path, FREE, NOW)
    assert names(tmp_path) == [path.name + ".gz"]


def test_what_a_killed_compression_left_is_cleared(tmp_path):
    """A part of a day ago goes; both forms of one recording become one again."""
    path = old(tmp_path, 2 * DAY)
    part = tmp_path / f".{path.name}.gz.part"
    part.write_bytes(b"torn")
    os.utime(part, (NOW - 2 * DAY, NOW - 2 * DAY))
    (tmp_path / (path.name + ".gz")).write_bytes(b"from before")
    os.utime(tmp_path / (path.name + ".gz"), (NOW - 2 * DAY, NOW - 2 * DAY))
    tidy(tmp_path, FREE, NOW)
    assert names(tmp_path) == [path.name + ".gz"]
    assert gzip.decompress((tmp_path / (path.name + ".gz")).read_bytes()) == b'{"a":1}\n'


def test_two_housekeepers_do_not_collide(tmp_path):
    """What another process has claimed is left to it."""
    path = old(tmp_path, 700)
    with path.open("rb") as claimed:
        fcntl.flock(claimed, fcntl.LOCK_EX)
        tidy(tmp_path, Limits(1, 0), NOW)
        assert names(tmp_path) == [path.name]


def test_a_folder_that_is_not_there_is_an_empty_one(tmp_path):
    """Nothing to tidy is no error, and makes no folder."""
    tidy(tmp_path / "none", Limits(1, 1), NOW)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 30 * DAY), ("12h", 43200), ("2w", 14 * DAY), ("90 m", 5400), ("1.5d", 129600), ("off", None)],
)
def test_lengths_of_time(text, seconds):
    """--keep takes a number and a unit, or off."""
    assert parse_keep(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("5GB", 5 * 10**9), ("500MiB", 500 * 2**20), ("1000", 1000), ("1.5 kb", 1500), ("off", None)]
)
def test_sizes(text, size):
    """--max-bytes takes a number with a decimal or binary unit, or off."""
    assert parse_max_bytes(text) == size


@pytest.mark.parametrize("text", ["", "d", "30", "-1d", "0d", "30x", "soon"])
def test_what_is_no_length_of_time_is_refused(text):
    """The message names the option and shows how it is written."""
    with pytest.raises(WrongUseError, match=r"--keep.*30d"):
        parse_keep(text)


@pytest.mark.parametrize("text", ["", "GB", "-5", "0", "0.4", "5XB", "1e9", "9" * 400 + "GB"])
def test_what_is_no_size_is_refused(text):
    """The message names the option and shows how it is written."""
    with pytest.raises(WrongUseError, match=r"--max-bytes.*5GB"):
        parse_max_bytes(text)


def test_where_recordings_go(monkeypatch):
    """The own variable wins, then an absolute XDG_DATA_HOME, then the usual place below home."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("PIMETRICS_RECORDINGS", "~/rec")
    assert str(recordings_dir()) == "/home/me/rec"
    monkeypatch.setenv("PIMETRICS_RECORDINGS", "")
    assert str(recordings_dir()) == "/data/pimetrics/recordings"
    for value in ("relative", ""):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert str(recordings_dir()) == "/home/me/.local/share/pimetrics/recordings"

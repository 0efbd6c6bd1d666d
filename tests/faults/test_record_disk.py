"""Disks: full, slow, stuck or closed to us, they cost lines of the recording at most, and one sentence says so."""

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time

import pytest
from record_helpers import PATIENCE_S, RECORD, agent, recording, run, start, unstamped, until

from pimetrics.sinks.recording import Recording

LINE = b'{"type":"message_update","x":"' + b"y" * 200 + b'"}\n'
NOW = 1796065800000


@contextlib.contextmanager
def small_disk(path, size):
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_full_disk_warns_once_and_the_command_goes_on(tmp_path):
    """On ENOSPC everything still reaches standard output, with the command's status and one warning."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        done = run("-o", str(disk), "--", *agent(f"out({LINE!r} * 10000); sys.exit(7)"))
        assert done.returncode == 7
        assert done.stdout == LINE * 10000
        assert done.stderr.count(b"\n") == 1
        assert b"No space left on device" in done.stderr
        kept = recording(disk)
        assert unstamped(kept[: kept.rfind(b"\n") + 1]).replace(LINE, b"") == b""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_disk_that_has_room_again_is_written_again(tmp_path):
    """A full disk is tried again: what waited in the buffer is not lost."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        filler = disk / "filler"
        filler.write_bytes(b"x" * 56 * 1024)
        source = f"out({LINE!r} * 200); sys.stdin.readline(); out(b'{{\"end\":1}}\\n')"
        argv = ["-o", str(disk), "--", *agent(source)]
        with start(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr.readline().count(b"No space left") == 1
            filler.unlink()
            until(lambda: recording(disk).count(b"receivedAt") == 200, "the waiting lines")
            process.stdin.close()
            assert process.stdout.read() == LINE * 200 + b'{"end":1}\n'
            assert process.wait(PATIENCE_S) == 0
            assert process.stderr.read() == b""
        assert unstamped(recording(disk)) == LINE * 200 + b'{"end":1}\n'


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_target_of_the_pipe_form_is_drained_and_told():
    """`pi | record > full`: pi is read to its end and lives, one warning, and exit status 1 since lines are missing."""
    with open("/dev/full", "wb") as full:
        source = subprocess.Popen(agent(f"out({LINE!r} * 10000)"), stdout=subprocess.PIPE)
        recorder = subprocess.Popen(RECORD, stdin=source.stdout, stdout=full, stderr=subprocess.PIPE)
        source.stdout.close()
        _, err = recorder.communicate(timeout=PATIENCE_S)
    assert (source.wait(PATIENCE_S), recorder.returncode) == (0, 1)
    assert err.count(b"\n") == 1
    assert b"No space left on device" in err


@pytest.mark.parametrize("where", ["file", "parent"])
def test_a_folder_that_cannot_be_made_warns_once(tmp_path, where):
    """A recordings folder that is a file, or below one: one sentence, and the command runs as ever."""
    blocker = tmp_path / "file"
    blocker.write_bytes(b"")
    env = os.environ | {"PIMETRICS_RECORDINGS": str(blocker if where == "file" else blocker / "below")}
    done = run("--", *agent(f"out({LINE!r} * 10000); sys.exit(3)"), env=env)
    assert (done.returncode, done.stdout) == (3, LINE * 10000)
    assert done.stderr.count(b"\n") == 1
    assert str(blocker).encode() in done.stderr


def test_a_recording_ends_at_the_size_limit(tmp_path):
    """One runaway run cannot fill the disk past --max-bytes; its output goes on."""
    done = run("-o", str(tmp_path), "--max-bytes", "300KB", "--", *agent(f"out({LINE!r} * 10000)"))
    assert (done.returncode, done.stdout) == (0, LINE * 10000)
    assert b"--max-bytes" in done.stderr
    assert len(recording(tmp_path)) <= 300_000


class Sink:
    """A disk that answers only while it is read: a pipe."""

    def __init__(self):
        self.fd, self.theirs = os.pipe()
        self.warnings = []
        self.data = b""

    def read_to_end(self):
        while piece := os.read(self.fd, 1 << 16):
            self.data += piece
        os.close(self.fd)


def test_a_stuck_disk_holds_nobody_up():
    """A disk that takes nothing: `put` returns within the stuck time once, then at once; lines are lost, and said."""
    sink = Sink()
    kept = Recording(lambda: sink.theirs, sink.warnings.append, buffer_bytes=1 << 20, stuck_s=0.2)
    before = time.monotonic()
    for _ in range(100):
        kept.put(LINE * 1000, NOW)
    assert time.monotonic() - before < PATIENCE_S / 2  # 23 MB against a wall
    assert kept.lost
    reader = threading.Thread(target=sink.read_to_end)
    reader.start()  # the disk comes back: whole lines go on from here
    until(lambda: kept._held == 0, "the buffer written")
    kept.put(b'{"back":1}\n', NOW)
    kept.close()
    reader.join(PATIENCE_S)
    lines = unstamped(sink.data).split(b"\n")
    assert set(lines) == {LINE[:-1], b'{"back":1}', b""}
    assert lines[-2:] == [b'{"back":1}', b""]
    assert len(sink.warnings) == 1


def test_a_gap_never_joins_two_lines():
    """When a gap cuts a line, its torn part stands alone and the next record begins on a line of its own."""
    sink = Sink()
    kept = Recording(lambda: sink.theirs, sink.warnings.append, buffer_bytes=300_000, stuck_s=0.1)
    kept.put(LINE * 1000 + b'{"torn":', NOW)
    kept.put(LINE * 1000, NOW)  # does not fit: the end of the torn line is lost with it
    kept.put(b'{"torn too":', NOW)  # at a line's start again, and it fits
    kept.put(b"1}\n", NOW)
    reader = threading.Thread(target=sink.read_to_end)
    reader.start()
    kept.close()
    reader.join(PATIENCE_S)
    assert unstamped(sink.data) == LINE * 1000 + b'{"torn":\n{"torn too":1}\n'


def test_closing_gives_a_stuck_disk_up():
    """`close` does not wait for a disk that does not answer."""
    sink = Sink()
    kept = Recording(lambda: sink.theirs, sink.warnings.append, stuck_s=0.1)
    kept.put(LINE * 10000, NOW)
    kept.close()
    assert kept.lost
    assert sink.warnings == ["the disk does not answer"]
    sink.read_to_end()


def test_opening_a_stuck_disk_holds_nobody_up():
    """Even the opening of the file may hang (a network folder); `put` and `close` return."""
    free = threading.Event()

    def opened():
        free.wait()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    warnings = []
    kept = Recording(opened, warnings.append, buffer_bytes=1000, stuck_s=0.1)
    for _ in range(100):
        kept.put(LINE * 100, NOW)
    kept.close()
    free.set()
    assert kept.lost
    assert len(warnings) == 1

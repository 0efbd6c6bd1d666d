"""What others plant in a watched folder does no harm: nothing blocks, nothing that is no session shows, memory is bounded."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import socket
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import zstandard

import pimetrics
from pimetrics import pipeline
from pimetrics.api import load
from pimetrics.sources import compressed
from tests.rig import Rig
from tests.serving import Served
from tests.tails import append, tail_lines

SECRET = b"hunter2-is-my-passphrase"


@pytest.fixture(autouse=True)
def patience():
    """Whoever opens a FIFO waits for ever: then the test fails, and does not hang."""

    def tell(_number, _frame):
        raise TimeoutError("it waits for something that does not come")

    before = signal.signal(signal.SIGALRM, tell)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def has_reader(fifo: Path) -> bool:
    """Whether somebody has a FIFO open for reading."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


def zeros(path: Path) -> None:
    """Make a device that never ends, by whatever this user may do."""
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_fifos_sockets_and_devices_are_never_opened(folder, ending):
    """Under every name that is looked at, also while they are the newest thing in the folder."""
    header, *records = tail_lines("60")
    append(folder / "s.jsonl", header, records[0])
    fifo = folder / f"fifo.jsonl{ending}"
    os.mkfifo(fifo)
    zeros(folder / f"device.jsonl{ending}")
    (folder / f"folder.jsonl{ending}").mkdir()
    at = os.getcwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(folder)  # the names of sockets are short
        try:
            listening.bind(f"socket.jsonl{ending}")
        finally:
            os.chdir(at)
        rig = Rig(folder, settle=0)
        for _ in range(4):
            rig.rest()
            os.utime(fifo)
            assert not has_reader(fifo)
        assert len(pimetrics.read(folder).usage) == 1
        assert not has_reader(fifo)
    rig.assert_right({"usage_rows": 1})
    assert rig.exporter.states == {"open": 1}
    assert rig.notices.lines == []


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_swapped_for_a_fifo_between_the_look_and_the_read(folder, monkeypatch, ending):
    """The name leads to a FIFO the moment after the file was opened: what is read is the file."""
    header, *records = tail_lines("60")
    data = header + records[0]
    packed = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[ending](data)
    path = folder / f"s.jsonl{ending}"
    path.write_bytes(packed)
    fstat = os.fstat

    def swap(fd):
        found = fstat(fd)
        if path.is_file() and found.st_ino == path.stat().st_ino:
            path.unlink()
            os.mkfifo(path)
        return found

    monkeypatch.setattr(os, "fstat", swap)
    rig = Rig(folder, settle=0)
    rig.poll(4)
    assert path.is_fifo()
    assert not has_reader(path)
    rig.assert_right({"usage_rows": 1})


def test_a_link_to_a_secret_tells_nothing_of_it(folder, tmp_path):
    """A link out of the folder to a file of the user: no word of it in metrics, page, log or ledger."""
    secret = tmp_path / "secret.txt"
    secret.write_bytes(b"".join(b"%s line %d\n" % (SECRET, n) for n in range(100)))
    (folder / "mine.jsonl").symlink_to(secret)
    (folder / "up.jsonl").symlink_to("..")
    (folder / "up").symlink_to("..")
    state = tmp_path / "state" / "l.db"
    with Served([folder, "--state", state]) as served:
        served.ready()
        served.wait_for("pimetrics_rejects_total", 100)
        shown = [served.get(), served.get("/")]
        assert served.end().status == 0
        shown.append(served.process.stderr.read().decode())
    assert not any("hunter2" in each for each in shown)
    assert all(b"hunter2" not in path.read_bytes() for path in state.parent.iterdir())


def bomb(kind: str, line: bytes, size: int) -> bytes:
    """Compress lines of so many bytes, a little at a time."""
    block = line * (2**20 // len(line))
    if kind == "gz":
        packer = zlib.compressobj(1, wbits=31)
        packed = [packer.compress(block) for _ in range(size // len(block))]
        return b"".join([*packed, packer.flush()])
    writer = zstandard.ZstdCompressor(level=3).compressobj()
    packed = [writer.compress(block) for _ in range(size // len(block))]
    return b"".join([*packed, writer.flush()])


@pytest.mark.parametrize("kind", ["gz", "zst"])
@pytest.mark.parametrize("line", [b"\x00", b"x\n"], ids=["one-line", "lines"])
def test_of_a_bomb_only_so_much_is_read(folder, monkeypatch, kind, line):
    """What is beyond the cap is left out; it ends in rejects, and the files beside it are read."""
    monkeypatch.setattr(compressed, "MAX_BYTES", 2**16 + 7)
    header, *records = tail_lines("60")
    (folder / f"a.jsonl.{kind}").write_bytes(bomb(kind, line, 2**22))
    append(folder / "s.jsonl", header, records[0])
    rig = Rig(folder, settle=0)
    rig.rest()
    rig.rest(100_000)
    rig.assert_right({"usage_rows": 1})
    assert 0 < rig.total("pimetrics_bytes_read_total") <= 2**16 + 7 + (folder / "s.jsonl").stat().st_size
    assert rig.rejects > 0
    found = pimetrics.read(folder)
    assert len(found.usage) == 1
    assert 0 < len(found.rejects) <= 100_000
    assert set(found.rejects["reason"]) <= {"nul_padding", "invalid_json", "truncated", "not_object"}


READ = """
import pathlib, sys
import pimetrics
found = pimetrics.read(sys.argv[1])
# Not ru_maxrss, which a child has from its parent.
status = dict(line.split(":") for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(len(found.rejects), int(status["VmHWM"].split()[0]) // 1024)
"""


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_the_memory_for_a_bomb_is_bounded(tmp_path, kind):
    """Half a gigabyte in one line, of which a few KB are on disk: no more memory than for the longest line there may be."""
    path = tmp_path / f"bomb.jsonl.{kind}"
    path.write_bytes(bomb(kind, b"\x00", 2**29))
    assert path.stat().st_size < 2**22
    done = subprocess.run([sys.executable, "-c", READ, path], check=True, capture_output=True, timeout=300)
    rejects, memory_mib = map(int, done.stdout.split())
    assert rejects == 1
    assert memory_mib < 600


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("[" * 20_000 + "]" * 20_000, id="arrays"),
        pytest.param("[" * 20_000, id="arrays left open"),
        pytest.param('{"a":' * 20_000 + "1" + "}" * 20_000, id="objects"),
        pytest.param(('{"' + "n" * 1000 + '":') * 1000 + "1" + "}" * 1000, id="long names"),
        pytest.param('{"' + "n" * 1_000_000 + '":{' + ",".join(f'"{n}":0' for n in range(100_000)) + "}}", id="many"),
    ],
)
def test_the_memory_for_a_deep_line_is_bounded(tmp_path, value):
    """Values in values in values, in a megabyte at most: one line, and no more memory or time than for a flat one."""
    path = tmp_path / "deep.jsonl"
    header, record = tail_lines("65")[:2]
    inside = record.replace(b'"content":[', b'"content":[%s,' % value.encode())
    assert inside != record
    path.write_bytes(header + record[:-2] + b',"details":' + value.encode() + b"}\n" + inside + record)
    done = subprocess.run([sys.executable, "-c", READ, path], check=True, capture_output=True, timeout=60)
    rejects, memory_mib = map(int, done.stdout.split())
    assert rejects == 2 * value.endswith("[")
    assert memory_mib < 250


@pytest.mark.parametrize("number", ["1e400", "+1"])
def test_the_memory_for_a_long_line_with_a_strange_number_is_bounded(tmp_path, number):
    """It is looked through for numbers, among which a long text stands; the one is mended, the other no JSON."""
    path = tmp_path / "long.jsonl"
    header, record = tail_lines("65")[:2]
    text = b"text " * 2**21
    path.write_bytes(header + record[:-2] + b',"x":%s,"y":"%s"}\n' % (number.encode(), text) + record)
    done = subprocess.run([sys.executable, "-c", READ, path], check=True, capture_output=True, timeout=60)
    rejects, memory_mib = map(int, done.stdout.split())
    assert rejects == (number == "+1")
    assert memory_mib < 250


def test_a_file_of_nothing_but_bad_lines_does_not_fill_the_memory(tmp_path, monkeypatch):
    """Lines that are no records without end: all are counted, only the first are rows."""
    monkeypatch.setattr(pipeline, "MAX_REJECT_ROWS", 1000)
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"x\n" * 5000)
    ledger, read = load([path])
    assert sum(read.stats.rejects.values()) == 5000
    assert [key[1] for key, _ in ledger.facts("rejects")] == list(range(0, 2000, 2))

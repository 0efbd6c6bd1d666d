"""How much passes through, how much memory it takes, what it costs. Figures are printed; noise never fails them."""

import os
import subprocess
import time

import pytest
from record_helpers import RECORD, agent

LINE = b'{"type":"message_update","assistantMessageEvent":{"delta":"' + b"y" * 190 + b'"}}\n'
LINES = 4000 * 1024
MEMORY_BYTES = 80 * 1000 * 1000

SOURCES = {
    "lines": (f"b = {LINE!r} * 4000\nfor _ in range(1024): out(b)", len(LINE) * LINES),
    "one line": (
        "b = b'x' * (1 << 20)\nout(b'{\"a\":\"')\nfor _ in range(1024): out(b)\nout(b'\"}\\n')",
        (1 << 30) + 9,
    ),
}


def pump(argv, stdin=subprocess.DEVNULL):
    """Read all that a command prints; give back (bytes, seconds of the flow, its peak memory as seen on the way)."""
    buffer = bytearray(1 << 18)
    with subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, bufsize=0) as process:
        total = process.stdout.readinto(buffer)
        before, looked, peak = time.perf_counter(), 0, 0
        while size := process.stdout.readinto(buffer):
            total += size
            if total - looked > 32 << 20:
                looked = total
                peak = memory(process.pid)
        took = time.perf_counter() - before
    assert process.returncode == 0
    return total, took, peak


def memory(pid):
    """Peak memory of a process in bytes; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0


@pytest.mark.parametrize("name", list(SOURCES))
@pytest.mark.parametrize("form", ["command", "pipe"])
def test_a_gigabyte_in_one_line_or_many_passes_in_flat_memory(tmp_path, capsys, name, form):
    """All bytes come out, with a stamp a line in the pipe form, and memory stays under 80 MB."""
    source, size = SOURCES[name]
    if form == "command":
        total, took, peak = pump([*RECORD, "-o", str(tmp_path), "--", *agent(source)])
        expected = size
    else:
        with subprocess.Popen(agent(source), stdout=subprocess.PIPE) as writer:
            total, took, peak = pump(RECORD, writer.stdout)
        expected = size + (LINES * len(b',"receivedAt":1796065800000') if name == "lines" else 0)
    with capsys.disabled():
        print(f"\n{form}, {name}: {size / took / 1e6:.0f} MB/s, {peak / 1e6:.0f} MB of memory")
    for path in tmp_path.glob("*.jsonl"):
        path.unlink()
    assert total == expected
    assert peak < MEMORY_BYTES


def test_what_record_adds_to_a_run(tmp_path, capsys):
    """The processor time that recording adds to a run of 2,000 updates is printed: 2% of a run of 20 s are 0.4 s."""
    source = f"for _ in range(2000): out({LINE!r})"
    before = os.times()
    total, _, _ = pump([*RECORD, "-o", str(tmp_path), "--", *agent(source)])
    between = os.times()
    pump(agent(source))
    after = os.times()
    recorded, alone = (sum(b[2:4]) - sum(a[2:4]) for a, b in ((before, between), (between, after)))
    with capsys.disabled():
        print(f"\n2,000 updates: {recorded - alone:.2f} s of processor time more than alone")
    assert total == 2000 * len(LINE)

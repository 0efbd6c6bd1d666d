"""What a follower costs when nothing happens. `python -m tests.bench.idle FILES [SECONDS]`.

Makes FILES session files in 100 folders, follows them with a real `serve`, and reports: time to ready, share of a core
over SECONDS of silence, memory, and how long SIGTERM takes.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.serving import Served

RECORD = (
    '{"type":"message","id":"%08x","parentId":null,"timestamp":"2026-11-16T09:01:05.000Z","message":{"role":"assistant",'
    '"content":[],"api":"a","provider":"p","model":"m","usage":{"input":10,"output":1,"cacheRead":0,"cacheWrite":0,'
    '"cost":{"total":0.01}},"stopReason":"stop","timestamp":%d}}\n'
)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    files, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    with tempfile.TemporaryDirectory() as folder:
        for n in range(files):
            path = Path(folder, "sessions", f"--d{n % 100}--", f"{n}.jsonl")
            path.parent.mkdir(parents=True, exist_ok=True)
            header = f'{{"type":"session","version":3,"id":"s{n}","timestamp":"2026-11-16T09:00:00.000Z","cwd":"/d{n % 100}"}}\n'
            path.write_text(header + "".join(RECORD % (k, 1_794_000_000_000 + n * 100 + k) for k in range(1)))
        with Served([f"{folder}/sessions", "--state", f"{folder}/ledger.db"]) as served:
            ready_s = served.ready()
            first_minute = os.environ.get("IDLE_AT_ONCE")
            if not first_minute:
                time.sleep(70)  # files written within the last minute count as active; this measures the long run
            before, start = cpu_seconds(served.process.pid), time.monotonic()
            time.sleep(seconds)
            used = (cpu_seconds(served.process.pid) - before) / (time.monotonic() - start)
            status = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
            memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
            start = time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            exit_status = served.process.wait(30)
            ended_s = time.monotonic() - start
        with Served([f"{folder}/sessions", "--state", f"{folder}/ledger.db"]) as served:
            again_s = served.ready()
        print(
            f"{files:,} files: ready in {ready_s:.2f} s, again in {again_s:.2f} s; idle {used:.2%} of a core, "
            f"{memory / 1024:.0f} MiB; SIGTERM exit {exit_status} in {ended_s:.2f} s"
        )


if __name__ == "__main__":
    main()

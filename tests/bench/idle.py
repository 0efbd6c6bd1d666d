"""What a follower costs when nothing happens. `python -m tests.bench.idle FILES [SECONDS]`.

Makes FILES session files in 100 folders, follows them with a real `serve`, and reports: time to ready, share of a core
over SECONDS of silence, memory, and how long SIGTERM takes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.crowd import make
from tests.serving import Served


def main() -> None:
    files, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder, "sessions"), files, 1)
        with Served([f"{folder}/sessions", "--state", f"{folder}/ledger.db"]) as served:
            ready_s = served.ready()
            first_minute = os.environ.get("IDLE_AT_ONCE")
            if not first_minute:
                time.sleep(70)  # files written within the last minute count as active; this measures the long run
            before, start = served.cpu_s, time.monotonic()
            time.sleep(seconds)
            used, memory = (served.cpu_s - before) / (time.monotonic() - start), served.memory_mib
            ended = served.end()
        with Served([f"{folder}/sessions", "--state", f"{folder}/ledger.db"]) as served:
            again_s = served.ready()
        print(
            f"{files:,} files: ready in {ready_s:.2f} s, again in {again_s:.2f} s; idle {used:.2%} of a core, "
            f"{memory:.0f} MiB; SIGTERM exit {ended.status} in {ended.wall_s:.2f} s, {ended.cpu_s:.2f} s of processor time"
        )


if __name__ == "__main__":
    main()

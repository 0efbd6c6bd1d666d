"""A crowd of files for a while. `python -m tests.faults.soak [FILES] [GROWING] [RECORDS_PER_S] [SECONDS]`.

A real `serve` follows FILES session files (10,000), of which GROWING (500) get RECORDS_PER_S (1,000) together for
SECONDS (600), and is scraped every two seconds as Prometheus does. At the end every counter must be exact, and SIGTERM
must end it at once; memory, processor time and scrape times are reported.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests import crowd
from tests.bench.scrape import scrape
from tests.serving import Ended, Served

SCRAPE_SECONDS = 2.0


class Soaked(NamedTuple):
    """What was found. Times in seconds, memory in MiB."""

    files: int
    written: int
    seconds: float
    ready_s: float
    cores: float
    memory_at_first: float
    memory_at_end: float
    scrape_median_s: float
    scrape_max_s: float
    behind_max_s: float
    falls: int
    exact: bool
    status: int
    end_s: float
    end_cpu_s: float


def soak(folder: Path, *, files: int, growing: int, records_per_s: int, seconds: float) -> Soaked:
    """Run it.

    Raises:
        AssertionError: The counters do not come to what was written.
    """
    root = folder / "sessions"
    crowd.make(root, files, 1)
    written = files
    with Served([root, "--state", folder / "ledger.db"]) as served:
        ready_s = served.ready()
        memory = [served.memory_mib]
        walls: list[float] = []
        last, falls, behind = 0.0, 0, 0.0
        start, cpu_s, turn, next_scrape = time.monotonic(), served.cpu_s, 0, 0.0
        each = max(1, records_per_s // 20)  # twenty writes a second
        while (now := time.monotonic() - start) < seconds:
            due = int(now * records_per_s) - (written - files)
            for _ in range(0, max(0, due), each):
                for k in range(each):
                    number, row = (turn * each + k) % growing, (turn * each + k) // growing
                    crowd.grow(root, number, row + 1)
                turn, written = turn + 1, written + each
            if now >= next_scrape:
                next_scrape = now + SCRAPE_SECONDS
                took, page = scrape(served)
                walls.append(took)
                counted = total(page, "pi_requests_total")
                falls += counted < last
                last = counted
                behind = max(behind, (written - counted) / records_per_s)
                memory.append(served.memory_mib)
            time.sleep(0.02)
        cores, lasted = (served.cpu_s - cpu_s) / (time.monotonic() - start), time.monotonic() - start
        served.wait_for("pi_requests_total", written, within=120)
        page = served.get() or ""
        exact = (
            total(page, "pi_tokens_total", 'token_type="input"') == written * crowd.INPUT
            and total(page, "pi_tokens_total", 'token_type="output"') == written * crowd.OUTPUT
            and total(page, "pi_sessions_total") == files
            and round(total(page, "pi_cost_usd_total") * 100) == round(written * crowd.COST * 100)
            and total(page, "pimetrics_rejects_total") == 0
        )
        ended: Ended = served.end()
    walls.sort()
    return Soaked(
        files, written - files, round(lasted, 1), round(ready_s, 2), round(cores, 3), round(memory[0]), round(memory[-1]),
        round(walls[len(walls) // 2], 4), round(walls[-1], 4), round(behind, 2), falls, exact, ended.status,
        round(ended.wall_s, 2), round(ended.cpu_s, 2),
    )  # fmt: skip


def total(page: str, metric: str, label: str = "") -> float:
    """Sum up a metric of a page, over the series that have a label."""
    lines = (line for line in page.splitlines() if line.startswith((f"{metric} ", f"{metric}{{")) and label in line)
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def main() -> None:
    defaults = (10_000, 500, 1000, 600)
    files, growing, records_per_s, seconds = (
        int(sys.argv[at]) if len(sys.argv) > at else default for at, default in enumerate(defaults, 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), files=files, growing=growing, records_per_s=records_per_s, seconds=seconds)
    print(json.dumps(found._asdict()))
    sys.exit(not (found.exact and not found.falls and found.status == 0))


if __name__ == "__main__":
    main()

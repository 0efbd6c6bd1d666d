"""kill -9 at random, many times. `python -m tests.faults.kill_rounds ROUNDS [SEED]`.

A file grows, in whole and in torn writes, while a real `serve` follows it and is killed and started again. Scrapes are
summed up as PromQL does it: nothing may be lost, doubled, or fall.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.serving import Served


class Found(NamedTuple):
    """What the scrapes add up to, in micro-dollars for cost, and what is right."""

    kills: int
    total: float
    last: float
    want: int
    cost: int
    want_cost: int
    falls: int


def kill_rounds(folder: Path, *, rounds: int, seed: int) -> Found:
    """Run the rounds."""
    rnd = random.Random(seed)
    path, state = folder / "killed.jsonl", folder / "state" / "ledger.db"
    total = last = cost = 0.0
    records = falls = kills = 0

    def see(served: Served) -> None:
        nonlocal total, last, cost, falls
        tokens, usd = served.sum("pi_tokens_total", token_type="input"), served.sum("pi_cost_usd_total")
        if tokens is None or usd is None:
            return
        falls += tokens < last or usd < cost
        total += tokens - last if tokens >= last else tokens
        last, cost = tokens, usd

    with path.open("ab", buffering=0) as out:
        header = {
            "type": "session",
            "version": 3,
            "id": "k",
            "timestamp": "2026-11-07T12:00:00.000Z",
            "cwd": "/srv/demo",
        }
        out.write(json.dumps(header).encode() + b"\n")
        for _ in range(rounds):
            with Served([path, "--state", state, "--idle-timeout", "5"]) as served:
                until = time.monotonic() + rnd.uniform(0.5, 2.5)
                while time.monotonic() < until:
                    records += 1
                    line = _record(records)
                    cut = rnd.randrange(1, len(line)) if rnd.random() < 0.3 else 0
                    out.write(line[:cut])
                    out.write(line[cut:])
                    time.sleep(rnd.uniform(0, 0.01))
                    if rnd.random() < 0.05 and b"serving" in served.said:
                        see(served)
                    elif b"serving" not in served.said and rnd.random() < 0.1:
                        _ = served.url
                served.process.send_signal(signal.SIGKILL)
                kills += 1
        with Served([path, "--state", state]) as served:
            served.ready()
            served.wait_for("pi_tokens_total", 3 * records, within=120, token_type="input")
            see(served)
    return Found(kills, total, last, 3 * records, round(cost * 1e6), records * 1000, falls)


def _record(number: int) -> bytes:
    message = {
        "role": "assistant", "content": [], "provider": "p", "model": "m", "stopReason": "stop",
        "timestamp": 1_794_052_802_000 + number,
        "usage": {"input": 3, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.001}},
    }  # fmt: skip
    entry = {"type": "message", "id": f"{number:08x}", "parentId": None, "timestamp": "2026-11-07T12:00:09.000Z"}
    return json.dumps({**entry, "message": message}).encode() + b"\n"


def main() -> None:
    rounds = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    with tempfile.TemporaryDirectory() as folder:
        found = kill_rounds(Path(folder), rounds=rounds, seed=seed)
    print(f"seed {seed}: {found}")
    sys.exit(0 if found.total == found.last == found.want and found.cost == found.want_cost and not found.falls else 1)


if __name__ == "__main__":
    main()

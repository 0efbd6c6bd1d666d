"""Many shippers, few receivers, kills on both sides, cut networks. `python -m tests.faults.fleet SHIPPERS [SEED]`.

Each shipper is a process with a memory of its own and one file, which grows in whole and in torn writes. Shippers,
receivers (real `serve`) and connections are killed at random; then everything may finish. Nothing may be lost or
doubled, in the counters and on the disks of the receivers.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.faults.network import Network
from tests.faults.one_shipper import ship_until_done
from tests.serving import Served

TOKEN = "a-token-for-the-tests-only"
TEAMS = 5
INPUT, COST_MICRO = 3, 1000


class Found(NamedTuple):
    """What came out, and what is right; cost in micro-dollars, memory in MiB."""

    tokens: float
    want_tokens: int
    cost: int
    want_cost: int
    by_team: dict[str, float]
    want_by_team: dict[str, float]
    falls: int
    files: int
    other_files: int
    rejects: float
    killed_shippers: int
    killed_receivers: int
    broken: int
    cuts: int
    megabytes: float
    memory_first: float
    memory_most: float
    seconds: float

    @property
    def right(self) -> bool:
        """Whether nothing was lost, doubled or changed."""
        counts = (self.tokens, self.cost, self.by_team) == (self.want_tokens, self.want_cost, self.want_by_team)
        return counts and not (self.falls or self.other_files or self.rejects)


class Receivers:
    """Real ones, each with a folder of its own; they can be killed and come back."""

    def __init__(self, folder: Path, number: int, token: Path) -> None:
        self._arguments = [
            ["--receive", folder / f"inbox{n}", "--receive-token-file", token, "--receive-label", "team",
             "--receive-max-rate", "off", "--state", folder / f"state{n}" / "ledger.db", "--web.zero-hold", "0"]
            for n in range(number)
        ]  # fmt: skip
        self.served = [self._start(n) for n in range(number)]
        self._ports = [self._port(each) for each in self.served]
        self._last: list[Counter[str]] = [Counter() for _ in range(number)]
        self.falls = 0
        self.memory: list[float] = []

    def _start(self, number: int) -> Served:
        return Served(self._arguments[number], env={**os.environ, "PYTHONUNBUFFERED": "1"})

    @staticmethod
    def _port(served: Served) -> int:
        return int(served.url.rpartition(":")[2])

    def ports(self) -> list[int]:
        return self._ports

    def kill(self, number: int) -> None:
        self.served[number].process.send_signal(signal.SIGKILL)
        self.served[number].__exit__(None, None, None)

    def revive(self, number: int) -> None:
        self.served[number] = self._start(number)
        self._ports[number] = self._port(self.served[number])

    def close(self) -> None:
        for each in self.served:
            each.__exit__(None, None, None)

    def look(self) -> Counter[str]:
        """Scrape all; return the sum over them, what is away as it was seen last."""
        for number, served in enumerate(self.served):
            page = served.get() if served.process.poll() is None else None
            if page is None or "\npimetrics_ready 1" not in page:
                continue
            now: Counter[str] = Counter()
            for line in page.splitlines():
                name, _, value = line.rpartition(" ")
                if name.startswith(("pi_tokens_total", "pi_cost_usd_total", "pi_fleet_", "pimetrics_rejects_total")):
                    now[name] = round(float(value) * 1e6)  # type: ignore[assignment]
            self.falls += any(now[name] < value for name, value in self._last[number].items() if name[:3] == "pi_")
            self._last[number] = now
            self.memory.append(_rss_mib(served.process.pid))
        total: Counter[str] = Counter()
        for each in self._last:
            total.update(each)
        return total


def run(
    folder: Path, *, shippers: int, seed: int, receivers: int = 1, records: int = 60, pad: int = 6000, kills: int = 4,
) -> Found:  # fmt: skip
    """Run the whole story."""
    started = time.monotonic()
    rnd = random.Random(seed)
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.one_shipper"])
    spools = [folder / f"machine{n}" / "20261107T120000.000Z_00000000.jsonl" for n in range(shippers)]
    for path in spools:
        path.parent.mkdir()
        path.touch()
    all_receivers = Receivers(folder, receivers, token)
    cuts = killed_shippers = killed_receivers = 0

    with Network(all_receivers.ports, seed, breaking=0.2) as network:

        def begin(number: int) -> multiprocessing.process.BaseProcess:
            given = (network.url, token, spools[number].parent / "memory", spools[number], f"team{number % TEAMS}")
            process = context.Process(target=ship_until_done, args=given, daemon=True)
            process.start()
            return process

        running = [begin(number) for number in range(shippers)]
        writer = threading.Thread(target=_write, args=(spools, records, pad, seed), daemon=True)
        writer.start()
        try:
            for turn in range(kills):
                # Two receivers: one of them goes half-way, and comes back when everything else is done.
                if receivers == 1 or turn == kills // 2:
                    all_receivers.kill(0)
                    killed_receivers += 1
                if turn % 2:
                    network.cut()
                    cuts += 1
                for number in rnd.sample(range(shippers), max(1, shippers // 4)):
                    running[number].kill()
                    running[number].join()
                    killed_shippers += 1
                    running[number] = begin(number)
                time.sleep(rnd.uniform(0.2, 1.0))
                network.mend()
                if receivers == 1:
                    all_receivers.revive(0)
                until = time.monotonic() + rnd.uniform(1.0, 3.0)
                while time.monotonic() < until:
                    all_receivers.look()
                    time.sleep(0.2)
            writer.join()
            network.breaking = 0.02
            if receivers > 1:
                belong = {path: _receiver_of(path.parent / "memory") for path in spools}
                away = (folder / "inbox0" / ".receiver").read_text().strip()
                _wait_for([process for process, path in zip(running, spools, strict=True) if belong[path] != away])
                all_receivers.revive(0)
            _wait_for(running, all_receivers)
            want = INPUT * records * shippers
            deadline = time.monotonic() + 120
            while (total := all_receivers.look()) and _sum(total, "pi_tokens_total", "input") < want * 10**6:
                assert time.monotonic() < deadline, total
                time.sleep(0.2)
            time.sleep(1.0)  # what would be doubled would come now
            total = all_receivers.look()
        finally:
            for process in running:
                process.kill()
                process.join()
            all_receivers.close()

    there = Counter(_hash(path) for path in spools)
    here = Counter(_hash(path) for n in range(receivers) for path in _streams(folder / f"inbox{n}"))
    teams = Counter(f"team{number % TEAMS}" for number in range(shippers))
    return Found(
        tokens=_sum(total, "pi_tokens_total", "input") / 10**6,
        want_tokens=INPUT * records * shippers,
        cost=round(_sum(total, "pi_cost_usd_total")),
        want_cost=COST_MICRO * records * shippers,
        by_team={team: _sum(total, "pi_fleet_tokens_total", "input", team) / 10**6 for team in sorted(teams)},
        want_by_team={team: float(INPUT * records * teams[team]) for team in sorted(teams)},
        falls=all_receivers.falls,
        files=here.total(),
        other_files=((here - there) + (there - here)).total(),
        rejects=_sum(total, "pimetrics_rejects_total") / 10**6,
        killed_shippers=killed_shippers,
        killed_receivers=killed_receivers,
        broken=network.broken,
        cuts=cuts,
        megabytes=round(sum(path.stat().st_size for path in spools) / 1e6, 1),
        memory_first=round(all_receivers.memory[0], 1),
        memory_most=round(max(all_receivers.memory), 1),
        seconds=round(time.monotonic() - started, 1),
    )


def _write(spools: list[Path], records: int, pad: int, seed: int) -> None:
    """Let the files grow, all at the same time, whole lines and pieces of them."""
    rnd = random.Random(seed + 1)
    waiting: dict[int, Iterator[bytes]] = {n: _pieces(n, records, pad, rnd) for n in range(len(spools))}
    while waiting:
        number = rnd.choice(list(waiting))
        with spools[number].open("ab", buffering=0) as out:
            for _ in range(rnd.randrange(1, 12)):
                piece = next(waiting[number], None)
                if piece is None:
                    del waiting[number]
                    break
                out.write(piece)
        if number not in waiting:
            spools[number].with_suffix(".end").touch()


def _pieces(number: int, records: int, pad: int, rnd: random.Random) -> Iterator[bytes]:
    header = {"type": "session", "version": 3, "id": f"s{number}", "timestamp": "2026-11-07T12:00:00.000Z", "cwd": "/d"}
    yield json.dumps(header).encode() + b"\n"
    for n in range(records):
        message = {
            "role": "assistant", "content": [{"type": "text", "text": rnd.randbytes(pad // 2).hex()}],
            "provider": "p", "model": "m", "stopReason": "stop", "timestamp": 1_794_052_802_000 + number * 10**6 + n,
            "usage": {"input": INPUT, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": COST_MICRO / 1e6}},
        }  # fmt: skip
        entry = {"type": "message", "id": f"{n:08x}", "parentId": None, "timestamp": "2026-11-07T12:00:09.000Z"}
        line = json.dumps({**entry, "message": message}).encode() + b"\n"
        cut = rnd.randrange(1, len(line)) if rnd.random() < 0.3 else 0
        if cut:
            yield line[:cut]
        yield line[cut:]


def _wait_for(running: list[multiprocessing.process.BaseProcess], receivers: Receivers | None = None) -> None:
    deadline = time.monotonic() + 600
    while any(process.is_alive() for process in running):
        assert time.monotonic() < deadline, "not everything was delivered"
        if receivers is not None:
            receivers.look()
        time.sleep(0.2)
    assert [process.exitcode for process in running] == [0] * len(running)


def _receiver_of(memory: Path) -> str:
    found = next(memory.glob("*/receiver"), None)
    return "" if found is None else found.read_text().strip()


def _streams(inbox: Path) -> list[Path]:
    return list(inbox.rglob("*.jsonl"))


def _hash(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _sum(total: Counter[str], metric: str, *parts: str) -> float:
    return sum(n for name, n in total.items() if name.startswith(metric) and all(f'"{part}"' in name for part in parts))


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError(pid)


def main() -> None:
    shippers = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    right = True
    for receivers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            found = run(Path(folder), shippers=shippers, seed=seed, receivers=receivers, records=100, kills=8)
        right = right and found.right
        print(f"seed {seed}, {receivers} receivers: {'right' if found.right else 'WRONG'} {found}", flush=True)
    sys.exit(not right)


if __name__ == "__main__":
    main()

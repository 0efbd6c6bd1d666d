"""What one receiver takes, and what that means for many developers: python -m tests.bench.receiver [SIZE].

A real `serve --receive` (bearer token, labels, a ledger on disk, no rate limit) gets SIZE (400MB unless told) of
generated recordings, stamped as `record` does, from 1, 8 and 32 shippers at a time: processes with the code of `ship`.
Then session files; then recordings *live*, as from agents at work: what a second brings is a delivery, over a connection
of its own (a receiver keeps 256, thousands of agents take turns). Each point ends when the counters hold every token.
A machine's two cores are shared with the shippers, so what counts is the receiver's own processor time; wall time is
what came out all the same. Then the received files are exported, and the figures are worked out for fleets.
"""

from __future__ import annotations

import multiprocessing
import re
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from pimetrics.shipping.client import Client, target
from pimetrics.shipping.memory import Memory
from pimetrics.shipping.shipper import Pauses, Shipper, TryLaterError
from pimetrics.stamping import Stamper
from tests.bench.generate import Generator, parse_size
from tests.serving import Served

POINTS: Final = (("recordings", 1), ("recordings", 8), ("recordings", 32), ("session files", 8), ("live", 8))
FLEETS: Final = (1_000, 10_000)

ANSWERS_A_DAY: Final = 400
"""Of one developer: assistant messages on a working day. (The bundled example has 53; this is an agent that is always
at work.)"""

WORKING_DAYS: Final = 230
"""In a year."""

LIVE_BYTES: Final = 32_000
"""What an agent that answers writes in a second: about 80 updates of 400 bytes."""

PEAK: Final = 4
"""The busiest minutes hold so many times what an even spread over 24 hours would."""

LOADED: Final = 0.5
"""A receiver is planned to be at most so busy in them."""

_TOKEN: Final = "a-token-for-the-tests-only"
_TIMES: Final = re.compile(rb'"timestamp":(\d{13})')


class Load(NamedTuple):
    """What is delivered: the files of each shipper, and what is in all of them."""

    files: list[list[Path]]
    bytes: int
    records: int
    answers: int
    input_tokens: int


class Point(NamedTuple):
    """What one point gave."""

    kind: str
    shippers: int
    load: Load
    wall_s: float
    cpu_s: float
    deliveries: int
    memory_mib: float
    rows: int
    ledger_bytes: int
    lake_bytes: int
    lake_rows: int
    series: int

    @property
    def mb_per_core_s(self) -> float:
        """MB a second of the receiver's processor time."""
        return self.load.bytes / 1e6 / self.cpu_s

    def __str__(self) -> str:
        """One line."""
        load = self.load
        return (
            f"{self.kind}, {self.shippers} shippers: {load.bytes / 1e6:.0f} MB, {load.records:,} records, "
            f"{load.answers:,} answers in {self.deliveries:,} deliveries and {self.wall_s:.1f} s ({load.bytes / 1e6 / self.wall_s:.1f} MB/s, "
            f"{load.records / self.wall_s:,.0f} records/s); receiver {self.cpu_s:.1f} s of processor time "
            f"({self.mb_per_core_s:.1f} MB/s, {load.records / self.cpu_s:,.0f} records/s a core), "
            f"{self.memory_mib:.0f} MiB; {self.rows:,} rows, ledger {self.ledger_bytes / self.rows:.0f} bytes a row, "
            f"lake {self.lake_bytes / self.lake_rows:.0f} bytes a row; {self.series:,} series"
        )


def make(folder: Path, kind: str, shippers: int, size: int) -> Load:
    """Generate about `size` bytes, one file a session, dealt out to the shippers."""
    session = kind == "session files"
    generator = Generator("session" if session else "delta", seed=shippers, long=True)
    files: list[list[Path]] = [[] for _ in range(shippers)]
    written = number = 0
    while written < size:
        content = b"".join(generator.session() if session else _stamped(generator))
        path = folder / f"machine{number % shippers}" / f"20261201T120000.000Z_{number:08x}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        files[number % shippers].append(path)
        written += len(content)
        number += 1
    totals = generator.totals
    return Load(files, written, totals.records, totals.requests, totals.usage["input"])


def _stamped(generator: Generator) -> list[bytes]:
    """A session as `record` keeps it: each record with its arrival."""
    stamper, now = Stamper(), 0
    out = []
    for chunk in generator.session():
        now = max([now, *map(int, _TIMES.findall(chunk))])
        out.append(stamper.feed(chunk, now + 5))
    return out


def deliver(url: str, token: Path, memory: Path, files: list[Path], team: str, *, live: bool) -> None:
    """The life of a shipper: deliver all of its files, live ones as they grow."""
    client = Client(target(url, token, None, None))
    shipper = Shipper(client, Memory(url, memory), labels={"team": team}, is_over=lambda _path: not live)
    for path in files:
        if not live:
            _ship(shipper, path)
            continue
        growing = memory / path.name
        left = path.read_bytes()
        while left:
            end = left.find(b"\n", min(LIVE_BYTES, len(left)) - 1) + 1
            with growing.open("ab") as out:
                out.write(left[:end])
            left = left[end:]
            _ship(shipper, growing)
            client.close()


def _ship(shipper: Shipper, path: Path) -> None:
    pauses = Pauses()
    while True:
        try:
            if shipper.ship(path):
                return
        except TryLaterError as error:
            time.sleep(pauses.next(error.wait))


def measure(folder: Path, kind: str, shippers: int, size: int) -> Point:
    """Measure one point."""
    load = make(folder, kind, shippers, size)
    token, inbox, state = folder / "token", folder / "inbox", folder / "state" / "ledger.db"
    token.write_text(_TOKEN + "\n")
    options = ["--receive", inbox, "--receive-token-file", token, "--receive-label", "team"]
    with Served([*options, "--receive-max-rate", "off", "--web.zero-hold", "0", "--state", state]) as served:
        served.ready()
        context = multiprocessing.get_context("forkserver")
        cpu_s, started, memory = served.cpu_s, time.monotonic(), 0.0
        running = [
            context.Process(
                target=deliver, args=(served.url, token, folder / f"memory{n}", files, f"team{n % 50}"),
                kwargs={"live": kind == "live"}, daemon=True,
            )
            for n, files in enumerate(load.files)
        ]  # fmt: skip
        for process in running:
            process.start()
        while served.sum("pi_tokens_total", token_type="input") != load.input_tokens:
            memory = max(memory, served.memory_mib)
            assert time.monotonic() < started + 900, served.get()
            time.sleep(0.25)
        wall_s, cpu_s = time.monotonic() - started, served.cpu_s - cpu_s
        for process in running:
            process.join()
            assert process.exitcode == 0
        page = served.get() or ""
        deliveries = int(served.sum("pimetrics_deliveries_total", answer="taken") or 0)
        served.end()
    with sqlite3.connect(state) as db:
        (rows,) = db.execute("SELECT count(*) FROM facts").fetchone()
    lake_bytes, lake_rows = _lake(inbox, folder / "lake")
    series = sum(1 for line in page.splitlines() if line and not line.startswith("#"))
    return Point(
        kind,
        shippers,
        load,
        wall_s,
        cpu_s,
        deliveries,
        memory,
        rows,
        state.stat().st_size,
        lake_bytes,
        lake_rows,
        series,
    )


def _lake(inbox: Path, to: Path) -> tuple[int, int]:
    """Bytes and rows of what was received as Parquet."""
    from pimetrics.exporting import export
    from pimetrics.scanning import Scan

    outcome = export(Scan([inbox], processes=1), to)
    return sum(path.stat().st_size for path in to.rglob("*.parquet")), outcome.rows


def fleet(developers: int, points: list[Point]) -> str:
    """Work out what so many developers need who deliver live."""
    point = next(each for each in points if each.kind == "live")
    load = point.load
    answers = developers * ANSWERS_A_DAY
    day = answers / load.answers
    peak_mb_s = load.bytes / 1e6 * day / 86_400 * PEAK
    busy = peak_mb_s / point.mb_per_core_s
    year = day * WORKING_DAYS
    return (
        f"{developers:,} developers: {answers / 1e6:g} million answers, {load.records * day / 1e6:,.0f} million records, "
        f"{load.bytes * day / 1e9:,.1f} GB a day; at the peak {peak_mb_s:.1f} MB/s, {load.records * day / 86_400 * PEAK:,.0f} "
        f"records/s, {point.deliveries * day / 86_400 * PEAK:,.0f} deliveries/s, {busy:.2f} cores: {max(1, -(-busy // LOADED)):.0f} receiver(s); a year: ledgers "
        f"{point.ledger_bytes * year / 1e9:,.0f} GB ({point.rows * year / 1e6:,.0f} million rows), lake "
        f"{point.lake_bytes * year / 1e9:,.1f} GB; 30 days of received files {load.bytes * day * 22 / 1e9:,.0f} GB"
    )


def main() -> None:
    """Measure, work out, print."""
    size = parse_size(sys.argv[1]) if len(sys.argv) > 1 else 400_000_000
    points = []
    for kind, shippers in POINTS:
        with tempfile.TemporaryDirectory() as folder:
            points.append(measure(Path(folder), kind, shippers, size))
        print(points[-1], flush=True)
    for developers in FLEETS:
        print(fleet(developers, points))


if __name__ == "__main__":
    main()

"""What a scrape costs while records come. `python -m tests.bench.scrape [MODELS] [RECORDS_PER_S] [SECONDS]`.

A real `serve` follows 50 session files that grow by RECORDS_PER_S, over a ledger in which MODELS models have had calls
of every kind (170 models: 10,000 series). For SECONDS it is left alone, for SECONDS it is scraped twice a second as
Prometheus does; the difference of processor time is what the scrapes cost. Beside it: `generate_latest` of
prometheus_client in an idle process, over the very same series, ready made as objects.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from pimetrics.ledger.sqlite import SqliteLedger
from pimetrics.sinks.births import CAUGHT_UP, RELEASED
from tests import crowd
from tests.serving import Served

FILES = 50
SCRAPES_PER_S = 2


class Found(NamedTuple):
    """What was measured: processor and wall time of a scrape and of `generate_latest`, seconds."""

    series: int
    scrape_cpu_s: float
    scrape_wall_s: float
    alone_cpu_s: float
    records_per_s: float

    @property
    def ratio(self) -> float:
        """How much a scrape costs, over what writing the series costs alone."""
        return self.scrape_cpu_s / self.alone_cpu_s


class _Ready(Collector):
    """Series that are there as objects."""

    def __init__(self, page: str) -> None:
        self._families = list(text_string_to_metric_families(page))

    def collect(self) -> Iterable[Metric]:
        return self._families


def fill(path: Path, models: int) -> None:
    """Make a ledger of many series, as years of many models would leave it."""
    ledger = SqliteLedger(path)
    totals = ledger.totals
    for number in range(models):
        model = (f"provider-{number % 20}", f"model-{number}")
        for kind in ("input", "output", "cache_read", "cache_write"):
            totals.move("pi_tokens_total", (*model, "turn", kind), 123_456 + number)
        totals.move("pi_cost_usd_total", (*model, "turn"), 1_234_567_890_123 + number)
        totals.move("pi_requests_total", (*model, "stop"), 17 + number)
        totals.move("pi_request_context_tokens", model, 50_000)
        for metric in ("pi_request_duration_seconds", "pi_time_to_first_token_seconds"):
            for took_us in (500_000, 3_000_000, 50_000_000):
                totals.move(metric, model, took_us + number)
    totals.born({CAUGHT_UP: RELEASED})
    ledger.commit(time.time())
    ledger.close()


def scrape(served: Served) -> tuple[float, str]:
    """Scrape as Prometheus does; return how long it took, and the page."""
    request = urllib.request.Request(served.url + "/metrics", headers={"X-Prometheus-Scrape-Timeout-Seconds": "10"})
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        page = answer.read().decode()
    return time.perf_counter() - start, page


def processor_time(work: Callable[[], object], times: int = 15) -> float:
    """Return the median processor time of a piece of work, seconds."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return median(found)


def measure(folder: Path, *, models: int, records_per_s: int, seconds: float) -> Found:
    """Measure."""
    root, state = folder / "sessions", folder / "ledger.db"
    fill(state, models)
    crowd.make(root, FILES, 1)
    with Served([root, "--state", state]) as served:
        served.ready()
        stop = threading.Event()
        written = 0

        def write() -> None:
            nonlocal written
            start, turn = time.monotonic(), 1
            while not stop.wait(max(0.0, start + turn * FILES / records_per_s - time.monotonic())):
                for number in range(FILES):
                    crowd.grow(root, number, turn)
                turn, written = turn + 1, written + FILES

        writer = threading.Thread(target=write)
        writer.start()
        try:
            time.sleep(5)  # until as much is committed as comes
            walls: list[float] = []
            page = ""
            used = []
            for scraping in (False, True):
                before, start, came = served.cpu_s, time.monotonic(), written
                while time.monotonic() - start < seconds:
                    if scraping:
                        took, page = scrape(served)
                        walls.append(took)
                    time.sleep(1 / SCRAPES_PER_S)
                used.append((served.cpu_s - before, (written - came), time.monotonic() - start))
        finally:
            stop.set()
            writer.join()
    (alone, alone_records, _), (both, both_records, lasted) = used
    families = _Ready(page)
    return Found(
        sum(not line.startswith("#") for line in page.splitlines()),
        (both - alone * both_records / alone_records) / len(walls),
        median(walls),
        processor_time(lambda: generate_latest(families)),
        both_records / lasted,
    )


def main() -> None:
    models, records_per_s, seconds = (
        int(given) if len(sys.argv) > at else default
        for at, (given, default) in enumerate(zip([*sys.argv[1:], 0, 0, 0], (170, 1000, 30), strict=False), 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), models=models, records_per_s=records_per_s, seconds=seconds)
    print(
        f"{found.series:,} series, {found.records_per_s:,.0f} records/s: a scrape {found.scrape_cpu_s * 1e3:.0f} ms of "
        f"processor time ({found.scrape_wall_s * 1e3:.0f} ms by the clock); generate_latest of the same, alone "
        f"{found.alone_cpu_s * 1e3:.0f} ms: {found.ratio:.2f} times"
    )


if __name__ == "__main__":
    main()

"""A daemon under test: real files and a real ledger, but time passes only when a test says so."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pimetrics.daemon import Daemon
from pimetrics.exporter import Exporter, LiveLedger
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.schema import put_aside
from pimetrics.ledger.sqlite import SqliteLedger
from pimetrics.names import METRICS
from pimetrics.notices import Notices
from pimetrics.sources.stdin import PipeBuffer

POLL = 0.3
"""Longer than the daemon's own pause."""


class Heard(Notices):
    """Keeps what the log would say."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def say(self, reason: str, text: str, path: str = "", *, level: int = 0) -> None:
        told = sum(self._by_file.values())
        super().say(reason, text, path, level=level)
        if not path or (sum(self._by_file.values()) > told and self._by_file[reason, path] <= 2):
            self.lines.append((reason, text))


class Rig:
    """A daemon on a folder. Everything it shows is summed up as PromQL would, over restarts and resets too."""

    def __init__(
        self,
        folder: Path,
        *,
        state: Path | None = None,
        paths: list[Path] | None = None,
        settle: float = 2.0,
        idle: float = 900.0,
        piped: bool = False,
        open_ledger: Callable[[], LiveLedger] | None = None,
        ended: Callable[[str], bool] = lambda _path: False,
    ) -> None:
        self.folder = folder
        self.state = state
        self.monotonic = 1000.0
        self.wall = time.time()
        self._paths = [folder] if paths is None else paths
        self._settle = settle
        self._idle = idle
        self._piped = piped
        self._ended = ended
        self._open = open_ledger or self._open_ledger
        self.increase: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._last: dict[tuple[str, tuple[str, ...]], int] = {}
        self.falls: list[str] = []
        self.start()

    def _open_ledger(self) -> LiveLedger:
        return MemoryLedger() if self.state is None else SqliteLedger(self.state)

    def start(self) -> None:
        self.notices = Heard()
        self.pipe = PipeBuffer(lambda: None) if self._piped else None
        self.exporter = Exporter(clock=lambda: self.wall, idle=self._idle)
        self.daemon = Daemon(
            self.exporter,
            self._open,
            paths=self._paths,
            pipe=self.pipe,
            clock=lambda: self.wall,
            monotonic=lambda: self.monotonic,
            put_aside=lambda: self.state and put_aside(self.state),
            settle=self._settle,
            idle=self._idle,
            ended=self._ended,
            notices=self.notices,
        )
        self.daemon.begin()

    def stop(self) -> None:
        """End as after SIGTERM."""
        self.daemon.close()
        self.scrape()

    def kill(self) -> None:
        """End as after SIGKILL: nothing more is written, the lock is gone."""
        if self.daemon._ledger is not None:
            self.daemon._ledger.close()
            self.daemon._ledger = None

    def poll(self, times: int = 2) -> None:
        """Let time pass for some polls of an active file, and scrape."""
        for _ in range(times):
            self.monotonic += POLL
            self.wall += POLL
            for _ in range(1000):
                if self.daemon.step() > 0:
                    break
            self.scrape()

    def rest(self, seconds: float = 3.0) -> None:
        """Let more time pass: facts from session files wait 2 s for a twin."""
        self.poll()
        self.monotonic += seconds
        self.wall += seconds
        self.poll()

    def scrape(self) -> None:
        """Sum up as `increase()` does: each rise; after a fall the new value."""
        now = self.exporter.snapshot()
        if not now.ready:
            return
        found = {(metric, labels): n for metric, series in now.counters.items() for labels, n in series.items()}
        for metric, series in now.histograms.items():
            for labels, seen in series.items():
                found[metric + "_sum", labels] = seen.total
                found[metric + "_count", labels] = sum(seen.counts)
        for key, value in found.items():
            last = self._last.get(key, 0)
            self.increase[key] += value - last if value >= last else value
            if value < last and key[0].startswith("pi_"):
                self.falls.append(f"{key} {last} -> {value}")
        self._last |= found

    def reset(self) -> None:
        """Forget what was summed up: what shows now is where a dashboard begins."""
        self.increase.clear()

    def total(self, metric: str, **labels: str) -> int:
        """Return what a metric shows now, over the labels that are not named, in internal units."""
        now = self.exporter.snapshot()
        names = METRICS[metric].labels
        return sum(
            n
            for values, n in now.counters.get(metric, {}).items()
            if all(dict(zip(names, values, strict=True))[k] == v for k, v in labels.items())
        )

    def gauge(self, metric: str, *labels: str) -> float:
        """Return a gauge, over all labels when none is named."""
        series = self.exporter.snapshot().gauges[metric]
        return series.get(labels, 0) if labels else sum(series.values())

    def summed(self, metric: str, **labels: str) -> int:
        """Return what PromQL made of a counter over all scrapes."""
        names = METRICS[metric].labels
        return sum(
            n
            for (name, values), n in self.increase.items()
            if name == metric and all(dict(zip(names, values, strict=True))[k] == v for k, v in labels.items())
        )

    def assert_right(self, right: dict[str, Any]) -> None:
        """Check the numbers of a case over all scrapes, exactly; cost to the pico-dollar."""
        found = {
            "usage_rows": self.summed("pi_requests_total"),
            "input": self.summed("pi_tokens_total", token_type="input"),
            "output": self.summed("pi_tokens_total", token_type="output"),
            "cost_usd": self.summed("pi_cost_usd_total"),
        }
        want = {name: round(n * 10**12) if name == "cost_usd" else n for name, n in right.items()}
        assert {name: found[name] for name in want} == want
        assert self.falls == []

    @property
    def rejects(self) -> int:
        """Lines that gave no record."""
        return self.total("pimetrics_rejects_total")

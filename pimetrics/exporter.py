"""The live wiring of `serve`: sources -> pipeline -> ledger -> snapshots for scrapes.

Readers feed from their own threads, one at a time; decoding and reducing happen outside the lock that scrapes share,
which is held only while rows are added and while a snapshot is copied. So a scrape shows whole batches only, and
neither waits for a long line.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from pimetrics.ledger.memory import MemoryLedger
from pimetrics.pipeline import Pipeline, Source
from pimetrics.rows import Row
from pimetrics.sinks.live import IDLE_SECONDS, Doing, Live
from pimetrics.sinks.metrics import Labels, Observed, Snapshot


class Exporter:
    """Everything between the bytes and a scrape.

    Args:
        clock: Unix time in seconds.
        idle: Seconds of silence after which a source closes its gauges.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, idle: float = IDLE_SECONDS) -> None:
        self.ready = False
        self.lag_bytes = 0
        self.states: dict[str, int] = {}
        self.resets: dict[str, int] = {}
        self._clock = clock
        self._ledger = MemoryLedger()
        self._pipeline = Pipeline(self)
        self._live = Live(idle)
        self._feeding = threading.Lock()
        self._shown = threading.Lock()
        self._commits = 0

    def open(self, name: str) -> Source:
        """Begin a source."""
        return self._pipeline.open(name)

    def feed(self, source: Source, chunk: bytes, at: float | None = None) -> None:
        """Feed a source; `at` is when the bytes were written (Unix seconds), by default now."""
        with self._feeding:
            source.feed(chunk)
            self._note(source, self._clock() if at is None else at)

    def finish(self, source: Source) -> None:
        """A source has ended for good."""
        with self._feeding:
            source.finish()
            with self._shown:
                self._live.end(source.name)

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows from the pipeline."""
        with self._shown:
            self._ledger.add(rows)
            self._commits += 1

    def snapshot(self) -> Snapshot:
        """Return what a scrape shows now."""
        with self._shown:
            totals = self._ledger.totals
            counters: dict[str, dict[Labels, int]] = defaultdict(dict)
            for (metric, labels), amount in totals.counters.items():
                counters[metric][labels] = amount
            histograms: dict[str, dict[Labels, Observed]] = defaultdict(dict)
            for (metric, labels), seen in totals.histograms.items():
                histograms[metric][labels] = Observed(tuple(seen.counts), seen.total)
            self._count_self(counters)
            return Snapshot(counters, histograms, self._gauges(), self.ready)

    def _note(self, source: Source, at: float) -> None:
        reduction = source.reduction
        if reduction is None:
            return
        doing = Doing(
            (reduction.part.session_id, reduction.part.cwd),
            reduction.tools_running,
            reduction.running_since,
            dict(reduction.queued),
            reduction.last_time,
        )
        with self._shown:
            self._live.update(source.name, doing, at)

    def _count_self(self, counters: dict[str, dict[Labels, int]]) -> None:
        stats, totals = self._pipeline.stats, self._ledger.totals
        for metric, counts in (
            ("pimetrics_records_total", stats.records),
            ("pimetrics_rejects_total", stats.rejects),
            ("pimetrics_unknown_total", stats.unknown),
            ("pimetrics_late_revisions_total", totals.late),
            ("pimetrics_label_overflow_total", totals.overflow),
            ("pimetrics_source_resets_total", self.resets),
            ("pimetrics_duplicates_skipped_total", {"other_source": self._ledger.duplicates}),
        ):
            counters[metric] = {(name,): amount for name, amount in dict(counts).items()}
        for metric, amount in (
            ("pimetrics_fused_lines_total", stats.fused_lines),
            ("pimetrics_bytes_read_total", stats.bytes_read),
            ("pi_extension_errors_total", stats.extension_errors),
            ("pimetrics_ledger_commits_total", self._commits),
        ):
            counters[metric] = {(): amount}

    def _gauges(self) -> dict[str, dict[Labels, float]]:
        now = self._live.gauges(self._clock())
        return {
            "pi_sessions_active": {(): now.sessions_active},
            "pi_runs_active": {(): now.runs_active},
            "pi_oldest_active_run_start_timestamp_seconds": {(): now.oldest_run_start},
            "pi_tool_executions_in_progress": {
                labels: float(n) for labels, n in self._ledger.totals.admit_all("tool", now.tools).items()
            },
            "pi_queue_depth": {(queue,): depth for queue, depth in now.queued.items()},
            "pi_last_event_timestamp_seconds": {(): now.last_event},
            "pimetrics_ready": {(): float(self.ready)},
            "pimetrics_sources": {(state,): n for state, n in self.states.items()},
            "pimetrics_source_lag_bytes": {(): self.lag_bytes},
        }

"""What `serve` shows: pipeline, ledger and live state behind one snapshot.

One thread reads, decodes, reduces and commits; scrapes come from others. They share a lock that is held only while the
committed state is moved over and while a snapshot is copied, so a scrape shows whole commits only, and neither waits
for a long line or a slow disk.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.totals import Totals
from pimetrics.marks import Mark
from pimetrics.names import METRICS, label_value
from pimetrics.pipeline import Pipeline, Source, Stats
from pimetrics.rows import Row
from pimetrics.sinks.births import CAUGHT_UP, HOLD_SECONDS, Births, head_of
from pimetrics.sinks.live import IDLE_SECONDS, Doing, Live
from pimetrics.snapshots import Labels, Observed, Snapshot

T = TypeVar("T")

ERRORS_METRIC = "pi_extension_errors_total"


def counted_on_the_way(stats: Stats, totals: Totals, duplicates: int) -> dict[str, dict[Labels, int]]:
    """Return what is counted about reading itself, as counters."""
    by_name: dict[str, Mapping[str, int]] = {
        "pimetrics_records_total": stats.records,
        "pimetrics_rejects_total": stats.rejects,
        "pimetrics_unknown_total": stats.unknown,
        "pimetrics_late_revisions_total": totals.late,
        "pimetrics_label_overflow_total": totals.overflow,
        "pimetrics_duplicates_skipped_total": {"other_source": duplicates},
    }
    counts: dict[str, dict[Labels, int]] = {
        metric: {(name,): amount for name, amount in found.items()} for metric, found in by_name.items()
    }
    return counts | {
        "pimetrics_fused_lines_total": {(): stats.fused_lines},
        "pimetrics_bytes_read_total": {(): stats.bytes_read},
    }


def snapshot_of(ledger: MemoryLedger, stats: Stats) -> Snapshot:
    """Return what a scrape would show of a ledger that was read once and is not followed."""
    counters: dict[str, dict[Labels, int]] = defaultdict(dict)
    for (metric, labels), amount in ledger.totals.counters.items():
        counters[metric][labels] = amount
    histograms: dict[str, dict[Labels, Observed]] = defaultdict(dict)
    for (metric, labels), seen in ledger.totals.histograms.items():
        histograms[metric][labels] = Observed(tuple(seen.counts), seen.total)
    counters[ERRORS_METRIC] = {(): stats.extension_errors}
    counters |= counted_on_the_way(stats, ledger.totals, ledger.duplicates)
    return Snapshot(counters, histograms, {"pimetrics_ready": {(): 1.0}})


class LiveLedger(Protocol):
    """A ledger that `serve` can work with."""

    totals: Totals
    broken: bool

    @property
    def duplicates(self) -> int:
        """Usage rows that another source had already brought."""

    @property
    def pending(self) -> int:
        """How much waits for a commit."""

    @property
    def is_there(self) -> bool:
        """Whether what is written still stands under its name."""

    @property
    def silent(self) -> bool:
        """Whether facts are known but not counted."""

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows."""

    def commit(self, now: float, marks: Iterable[Mark] = (), gone: Iterable[str] = ()) -> set[tuple[str, Labels]]:
        """Write what has changed; return the series that have moved."""

    def files(self) -> list[Mark]:
        """Return how far files were read."""

    def caught_up(self) -> None:
        """Count from now on."""

    def forget_rows(self, before_ms: int, at_most: int = 1000) -> int:
        """Delete the bodies of old rows; return how many."""

    def close(self) -> None:
        """Give the ledger free."""


class _Intake:
    """Takes rows from the pipeline; the reader decides when they go to the ledger."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, rows: Iterable[Row]) -> None:
        self.rows.extend(rows)

    def take(self) -> list[Row]:
        rows, self.rows = self.rows, []
        return rows


class Exporter:
    """Everything between the bytes and a scrape.

    Args:
        clock: Unix time in seconds.
        idle: Seconds of silence after which a source closes its gauges.
        ledger: Where facts are kept; by default in memory.
        zero_hold: Seconds that scrapers are shown a new series at 0 (see `sinks.births`).
        deliverer: Tells who delivered a source (see `ledger.totals`).

    Attributes:
        deliveries: How requests of shippers were answered.
        delivered_bytes: What they brought.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        idle: float = IDLE_SECONDS,
        ledger: LiveLedger | None = None,
        zero_hold: float = HOLD_SECONDS,
        deliverer: Callable[[str], Labels] | None = None,
    ) -> None:
        self._deliverer = deliverer
        self.deliveries: Counter[str] = Counter()
        self.delivered_bytes = 0
        self._ready = False
        self._first_start = True
        self._births = Births(zero_hold)
        self.lag_bytes = 0
        self.states: dict[str, int] = {}
        self.resets: dict[str, int] = {}
        self.commits = 0
        self.commit_failures = 0
        self.ledger: LiveLedger = MemoryLedger() if ledger is None else ledger
        self._clock = clock
        self._intake = _Intake()
        self._pipeline = Pipeline(self._intake)
        self._published_bytes = 0
        self._live = Live(idle)
        self._feeding = threading.Lock()
        self._shown = threading.Lock()
        self._counters: dict[str, dict[Labels, int]] = {}
        self._histograms: dict[str, dict[Labels, Observed]] = {}
        self._self: dict[str, dict[Labels, int]] = {}
        self._errors: dict[int, int] = {}  # id of a source without marks to its extension errors
        self.attach(self.ledger)

    @property
    def ready(self) -> bool:
        """Whether catch-up is done. What a first one has found is history: shown as it is, and no increase."""
        return self._ready

    @ready.setter
    def ready(self, ready: bool) -> None:
        with self._shown:
            if ready and not self._ready and self._first_start:
                series = [*self._each(self._counters), *self._each(self._histograms)]
                self._births.release({CAUGHT_UP, *(head for each in series if (head := head_of(*each)) is not None)})
            self._ready = ready

    @property
    def unsaved_births(self) -> bool:
        """Whether a scraper has met a new series, which the ledger does not know yet."""
        fresh = self._births.fresh
        return len(fresh) > (CAUGHT_UP in fresh)  # the mark matters with the first rows, and goes with them

    # --- for whoever has bytes and wants them to show at once -------------------------------------------------------

    def open(self, name: str) -> Source:
        """Begin a source."""
        return self._pipeline.open(name)

    def feed(self, source: Source, chunk: bytes, at: float | None = None) -> None:
        """Feed a source and commit; `at` is when the bytes were written (Unix seconds), by default now."""
        with self._feeding:
            self.ledger.add(self.read(source, chunk))
            self.note(source.name, source, self._clock() if at is None else at)
            self._errors[id(source)] = self.count_errors(source, self._errors.get(id(source), 0))
            self.commit()

    def finish(self, source: Source) -> None:
        """A source has ended for good."""
        with self._feeding:
            self.ledger.add(self.end(source))
            self.forget(source.name)
            self._errors.pop(id(source), None)
            self.commit()

    def delivered(self, answer: str, size: int) -> None:
        """Note how a request of a shipper was answered, and how many bytes it brought; from any thread."""
        with self._shown:
            self.deliveries[answer] += 1
            self.delivered_bytes += size

    # --- step by step, for the reader -------------------------------------------------------------------------------

    def read(self, source: Source, chunk: bytes) -> list[Row]:
        """Feed a source; return the rows, which have yet to go to the ledger."""
        source.feed(chunk)
        return self._intake.take()

    def end(self, source: Source) -> list[Row]:
        """A source has ended for good; return the rows of what was left open."""
        source.finish()
        return self._intake.take()

    @property
    def rejected(self) -> int:
        """Lines that gave no record, so far."""
        return sum(self._pipeline.stats.rejects.values())

    def count_errors(self, source: Source, known: int) -> int:
        """Count the extension errors of a source beyond those known; return how many are known now."""
        found = 0 if source.reduction is None else source.reduction.extension_errors
        if found > known and not self.ledger.silent:
            self.ledger.totals.move(ERRORS_METRIC, (), found - known)
        return max(found, known)

    def note(self, name: str, source: Source, at: float) -> None:
        """Note what goes on in a source, as of `at` (Unix seconds)."""
        reduction = source.reduction
        if reduction is None:
            return
        tools: Counter[str] = Counter()
        for tool, running in reduction.tools_running.items():
            tools[self.ledger.totals.admit("tool", label_value(tool))] += running
        doing = Doing(
            (reduction.part.session_id, reduction.part.cwd),
            tools,
            reduction.running_since,
            dict(reduction.queued),
            reduction.last_time,
        )
        with self._shown:
            self._live.update(name, doing, at)

    def forget(self, name: str) -> None:
        """Nothing goes on in a source any more."""
        with self._shown:
            self._live.end(name)

    def attach(self, ledger: LiveLedger) -> None:
        """Show another ledger from now on."""
        self.ledger = ledger
        totals = ledger.totals
        totals.deliverer = self._deliverer
        with self._shown:
            self._births.load(totals.births)
            self._first_start = not totals.births
            self._counters, self._histograms = defaultdict(dict), defaultdict(dict)
            self._move({*totals.counters, *totals.histograms})

    def commit(self, marks: Iterable[Mark] = (), gone: Iterable[str] = ()) -> None:
        """Commit, then publish.

        Raises:
            StateFullError: It cannot be written now; nothing is published, and marks must be given again.
            StateLostError: The ledger is damaged.
        """
        with self._shown:
            fresh, self._births.fresh = self._births.fresh, {}
        self.ledger.totals.born(fresh)
        moved = self.ledger.commit(self._clock(), marks, gone)
        self.commits += 1
        with self._shown:
            self._move(moved)
        self.publish()

    def publish_if_read(self) -> None:
        """Move over the same where bytes were read that gave no rows, as most of a stream does."""
        if self._pipeline.stats.bytes_read != self._published_bytes:
            self.publish()

    def publish(self) -> None:
        """Move over what is counted about the exporter itself."""
        stats, totals = self._pipeline.stats, self.ledger.totals
        self._published_bytes = stats.bytes_read
        counts = counted_on_the_way(stats, totals, self.ledger.duplicates)
        counts["pimetrics_source_resets_total"] = {(name,): amount for name, amount in self.resets.items()}
        counts["pimetrics_ledger_commits_total"] = {(): self.commits}
        counts["pimetrics_ledger_commit_failures_total"] = {(): self.commit_failures}
        with self._shown:
            self._self = counts

    # --- for scrapes ------------------------------------------------------------------------------------------------

    def snapshot(self, *, scraper: bool = False) -> Snapshot:
        """Return what a request shows now; a scraper is shown new series at 0 for a while."""
        with self._shown:
            counters = {metric: dict(series) for metric, series in self._counters.items()}
            histograms = {metric: dict(series) for metric, series in self._histograms.items()}
            if scraper and self._ready:
                now = self._clock()
                self._hold(counters, 0, now)
                for metric, series in histograms.items():
                    self._hold({metric: series}, Observed((0,) * (len(METRICS[metric].buckets) + 1), 0), now)
            counters |= self._self
            counters["pimetrics_deliveries_total"] = {(answer,): n for answer, n in self.deliveries.items()}
            counters["pimetrics_delivered_bytes_total"] = {(): self.delivered_bytes}
            return Snapshot(counters, histograms, self._gauges(), self._ready)

    def _hold(self, families: dict[str, dict[Labels, T]], nothing: T, now: float) -> None:
        for metric, labels in self._each(families):
            head = head_of(metric, labels)
            if head is not None and self._births.is_held(head, now):
                families[metric][labels] = nothing

    @staticmethod
    def _each(families: dict[str, dict[Labels, T]]) -> list[tuple[str, Labels]]:
        return [(metric, labels) for metric, series in families.items() for labels in series]

    def _move(self, moved: Iterable[tuple[str, Labels]]) -> None:
        totals = self.ledger.totals
        for key in moved:
            metric, labels = key
            seen = totals.histograms.get(key)
            if seen is None:
                self._counters[metric][labels] = totals.counters[key]
            else:
                exemplars = dict(totals.exemplars.get(key, {}))
                self._histograms[metric][labels] = Observed(tuple(seen.counts), seen.total, exemplars)

    def _gauges(self) -> dict[str, dict[Labels, float]]:
        now = self._live.gauges(self._clock())
        return {
            "pi_sessions_active": {(): now.sessions_active},
            "pi_runs_active": {(): now.runs_active},
            "pi_oldest_active_run_start_timestamp_seconds": {(): now.oldest_run_start},
            "pi_tool_executions_in_progress": {(tool,): float(n) for tool, n in now.tools.items()},
            "pi_queue_depth": {(queue,): depth for queue, depth in now.queued.items()},
            "pi_last_event_timestamp_seconds": {(): now.last_event},
            "pimetrics_ready": {(): float(self._ready)},
            "pimetrics_sources": {(state,): n for state, n in self.states.items()},
            "pimetrics_source_lag_bytes": {(): self.lag_bytes},
        }

"""Exporter health: can the other dashboards be believed?"""

from __future__ import annotations

from typing import Any

from .expr import count, gauge, rate, select, step_count
from .frame import Section, dashboard
from .panels import BAD, FAIR, GOOD, Query, graph, ranking, stat_panel

GONE = "Not scraped: see the runbook, PimetricsDown"
READY = "Not ready yet"
FAULTY: tuple[tuple[float | None, str], ...] = ((None, GOOD), (1, BAD))
ODD: tuple[tuple[float | None, str], ...] = ((None, GOOD), (1, FAIR))
EXTERNAL_MEMORY = "process_resident_memory_bytes"


def _now() -> Section:
    seen = select("pi_last_event_timestamp_seconds")
    return Section("Is it well now?", [
        stat_panel("Up", "Whether the last scrape of every picked exporter worked.", f"min({select('up')})",
                   "bool_yes_no",
                   GONE, width=4, trend="lastNotNull", steps=((None, BAD), (1, GOOD))),
        stat_panel("Ready", "Whether catch-up is done; until then pi_ metrics are not served.",
                   f"min({select('pimetrics_ready')})", "bool_yes_no", GONE, width=4, trend="lastNotNull",
                   steps=((None, BAD), (1, GOOD))),
        stat_panel("Version", "Version of pimetrics; several when exporters differ.",
                   f"count by (version) ({select('pimetrics_build_info')})", "none", GONE, width=4,
                   legend="{{version}}",
                   name_only=True, steps=((None, "blue"),)),
        stat_panel("Not yet read", "Bytes that are on disk and not yet read.", gauge("pimetrics_source_lag_bytes"),
                   "bytes", GONE, width=4, trend="lastNotNull", steps=((None, GOOD), (1e6, FAIR), (5e7, BAD))),
        stat_panel("Last event", "Time since the latest event; nights and weekends are quiet.",
                   f"min(time() - ({seen} > 0))", "s", "No event yet", width=4, trend="lastNotNull", decimals=0,
                   steps=((None, GOOD), (86400, FAIR), (259200, BAD))),
        stat_panel("Memory", "Resident memory of the exporters.", gauge(EXTERNAL_MEMORY), "bytes",
                   GONE, width=4, trend="lastNotNull", steps=((None, GOOD), (5e8, FAIR), (2e9, BAD))),
    ])  # fmt: skip


def _range() -> Section:
    return Section("Did anything go wrong in the picked range?", [
        stat_panel("Rejected lines", "Lines that gave no record. One now and then is a process that was killed.",
                   count("pimetrics_rejects_total"), "short", GONE, width=4, steps=((None, GOOD), (1, FAIR), (100,
                   BAD))),
        stat_panel("Unknown things", "Records, entries, roles or fields that this version does not know: pi is newer.",
                   count("pimetrics_unknown_total"), "short", GONE, width=4, steps=ODD),
        stat_panel("Names folded", "Model, provider or tool names past the cap, counted as `other`.",
                   count("pimetrics_label_overflow_total"), "short", GONE, width=4, steps=FAULTY),
        stat_panel("Commits failed", "Batches that could not be written to the ledger and are kept for another try.",
                   count("pimetrics_ledger_commit_failures_total"), "short", GONE, width=4, steps=FAULTY),
        stat_panel("Unreadable sources", "Files that cannot be opened or read, now.",
                   gauge("pimetrics_sources", where='state="unreadable"'), "short", GONE, width=4, steps=FAULTY),
        stat_panel("Extension errors", "Errors that pi's extensions raised.", count("pi_extension_errors_total"),
                   "short",
                   READY, width=4, steps=ODD),
    ])  # fmt: skip


def _reading() -> Section:
    return Section("What is read?", [
        graph("Bytes read per second", "From all sources, decompressed.",
              [Query(rate("pimetrics_bytes_read_total", "instance"), "{{instance}}")], "Bps", GONE, width=8),
        ranking("Records by type", "The eight commonest types of record over the picked range.",
                f"topk(8, {count('pimetrics_records_total', 'record')} > 0)", "{{record}}", "short",
                "Nothing read in this range", width=8),
        graph("Sources by state", "`ignored` is a file that is no recording and no session.",
              [Query(gauge("pimetrics_sources", "state"), "{{state}}")], "short", GONE, width=8, steps=True,
              decimals=0),
        graph("Bytes not yet read", "Bytes on disk that wait to be read; a hill that stays is a reader that hangs.",
              [Query(gauge("pimetrics_source_lag_bytes", "instance"), "{{instance}}")], "bytes", GONE, width=8),
        graph("Ledger commits per second", "Batches written, and batches that failed.",
              [Query(rate("pimetrics_ledger_commits_total"), "ok"),
               Query(rate("pimetrics_ledger_commit_failures_total"), "failed")], "short", GONE, width=8,
              words=("ok", "failed")),
        graph("Files read again from the start", "Files that were truncated, replaced or rewritten, in each step.",
              [Query(step_count("pimetrics_source_resets_total", "reason"), "{{reason}}")], "short", GONE, width=8,
              bars=True, decimals=0),
    ])  # fmt: skip


def _doubts() -> Section:
    made = [
        ("Rejected lines by reason", "Lines that gave no record.", "pimetrics_rejects_total", "reason", ODD),
        ("Unknown things by kind", "What this version does not know.", "pimetrics_unknown_total", "kind", ODD),
        ("Names folded by label", "Names past the cap, counted as `other`.", "pimetrics_label_overflow_total", "label",
         FAULTY),
        ("Late revisions by table", "Rows better known after their counter had moved: tables differ by these.",
         "pimetrics_late_revisions_total", "table", None),
        ("Durations missing by table", "Finished rows without a reported or measured duration: not in the histograms.",
         "pimetrics_durations_missing_total", "table", None),
    ]  # fmt: skip
    panels = [
        ranking(title, f"{question} Over the picked range.", count(metric, label), f"{{{{{label}}}}}", "short", GONE,
                width=8, height=7, decimals=0, steps=steps)
        for title, question, metric, label, steps in made
    ]  # fmt: skip
    panels.append(
        graph("Duplicates and fused lines",
              "Usage that another source had brought already, and lines with more than one "
              "record, in each step. Duplicates are everyday: a stream and its session file hold the same facts.",
              [Query(step_count("pimetrics_duplicates_skipped_total"), "duplicates"),
               Query(step_count("pimetrics_fused_lines_total"), "fused lines")], "short", GONE, width=8, height=7,
              bars=True, decimals=0)
    )  # fmt: skip
    return Section("What should be doubted?", panels)


def _deliveries() -> Section:
    empty = "Nothing is delivered here: see serve --receive"
    return Section("Are deliveries taken?", [
        graph("Deliveries by answer", "Requests of shippers in each step. Refused ones stay in the shipper's spool.",
              [Query(step_count("pimetrics_deliveries_total", "answer"), "{{answer}}")], "short", empty, bars=True,
              decimals=0),
        graph("Bytes delivered per second", "Of recordings and session files, decompressed.",
              [Query(rate("pimetrics_delivered_bytes_total", "instance"), "{{instance}}")], "Bps", empty),
    ])  # fmt: skip


def _scrape() -> Section:
    return Section("Is scraping well?", [
        graph("Up and ready", "1 is yes. Not ready while up is catch-up.",
              [Query(f"min({select('up')})", "up"), Query(f"min({select('pimetrics_ready')})", "ready")], "bool_yes_no",
              GONE, width=8, steps=True),
        graph("Scrape duration", "Time that a scrape takes.",
              [Query(f"max by (instance) ({select('scrape_duration_seconds')})", "{{instance}}")], "s", GONE, width=8),
        graph("Samples per scrape", "Grows with models and tools; caps keep it bounded.",
              [Query(f"max by (instance) ({select('scrape_samples_scraped')})", "{{instance}}")], "short", GONE,
              width=8),
    ])  # fmt: skip


def build() -> dict[str, Any]:
    """Make the dashboard."""
    return dashboard(
        "pimetrics-health", "pimetrics / Exporter health", "Whether the other dashboards can be believed.",
        [_now(), _range(), _reading(), _doubts(), _deliveries(), _scrape()], variables=(), start="now-6h",
    )  # fmt: skip

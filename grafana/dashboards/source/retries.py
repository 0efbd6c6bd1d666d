"""Retries and compactions: what is lost to failures, and what it costs to keep the context small."""

from __future__ import annotations

from typing import Any

from .expr import count, quantile, rate, step_count, total
from .frame import Annotation, Section, dashboard
from .panels import BAD, FAIR, GOOD, Query, graph, quantiles, ranking, stat_panel

NO_RETRIES = "No retries: nothing failed"
NO_COMPACTIONS = "No compactions in this range"
NO_TIMES = "No timed compactions: only stamped streams have them"
READY = "Not ready yet"
SUMMARIES = 'operation=~"compaction|branch_summary"'
SEQUENCES = ("success", "exhausted", "aborted", "unfinished")
OUTCOMES = ("ok", "failed", "aborted", "unfinished")
REASONS = ("manual", "threshold", "overflow", "unknown")


def _stats() -> Section:
    sequence, compaction = "pi_retry_sequences_total", "pi_compactions_total"
    return Section("What was lost in the picked range?", [
        stat_panel("Retries exhausted", "Series of retries that gave up. Each is work that stopped.",
                   count(sequence, where='outcome="exhausted"'), "short", READY, steps=((None, GOOD), (1, BAD))),
        stat_panel("Retry series", "Series of retries that came to an end, however they ended.", count(sequence),
                   "short",
                   READY, steps=((None, GOOD), (10, FAIR))),
        stat_panel("Time lost in back-off", "Time that pi announced to wait before retries.",
                   total("pi_retry_backoff_seconds_total"), "s", READY, decimals=1,
                   steps=((None, GOOD), (60, FAIR), (600, BAD))),
        stat_panel("Money thrown away", "Cost, as reported by pi, of answers that were thrown away and tried again.",
                   total("pi_retry_discarded_cost_usd_total"), "currencyUSD", "Nothing thrown away", decimals=3,
                   steps=((None, GOOD), (1, FAIR), (10, BAD))),
        stat_panel("Compactions", "Compactions that ended, however they ended.", count(compaction), "short", READY,
                   steps=((None, "blue"),)),
        stat_panel("Compactions failed", "The summary could not be made: the next request may not fit.",
                   count(compaction, where='outcome="failed"'), "short", READY, steps=((None, GOOD), (1, BAD))),
        stat_panel("Tokens removed", "Tokens that compactions took out of the context, as pi estimates.",
                   count("pi_compaction_removed_tokens_total"), "short", READY, steps=((None, "blue"),)),
        stat_panel("Cost of summaries", "Cost, as reported by pi, of compactions and branch summaries.",
                   total("pi_cost_usd_total", where=SUMMARIES), "currencyUSD", "No cost yet", decimals=3,
                   steps=((None, "blue"),)),
    ])  # fmt: skip


def _retries() -> Section:
    return Section("What is tried again?", [
        graph("Series by outcome", "Series of retries that ended in each step.",
              [Query(step_count("pi_retry_sequences_total", "outcome"), "{{outcome}}")], "short", READY, width=8,
              bars=True, stack=True, words=SEQUENCES, decimals=0),
        graph("Attempts by class of error", "Why an attempt was made, in each step.",
              [Query(f"{step_count('pi_retries_total', 'error_type')} > 0", "{{error_type}}")], "short", NO_RETRIES,
              width=8, bars=True, stack=True, decimals=0),
        graph("Attempts by what is retried", "A turn, the summary of a compaction, or that of a branch; in each step.",
              [Query(step_count("pi_retries_total", "scope"), "{{scope}}")], "short", READY, width=8, bars=True,
              stack=True, words=("turn", "compaction", "branch_summary"), decimals=0),
    ])  # fmt: skip


def _lost() -> Section:
    return Section("What do retries cost?", [
        graph("Agents waiting in back-off",
              "How many agents wait, on average: seconds of announced waiting for each second, by what is retried.",
              [Query(rate("pi_retry_backoff_seconds_total", "scope"), "{{scope}}")], "short", READY, width=8,
              stack=True, words=("turn", "compaction", "branch_summary")),
        graph("Money thrown away per hour by model", "Cost, as reported by pi, of answers that were tried again.",
              [Query(f"{rate('pi_retry_discarded_cost_usd_total', 'model')} * 3600", "{{model}}")], "currencyUSD",
              "Nothing thrown away", width=8, stack=True),
        ranking("Tokens thrown away by model", "Tokens over the picked range, of answers that were tried again.",
                count("pi_retry_discarded_tokens_total", "model"), "{{model}}", "short", "Nothing thrown away",
                width=8),
    ])  # fmt: skip


def _compactions() -> Section:
    duration, before = "pi_compaction_duration_seconds", "pi_compaction_before_tokens"
    return Section("How is the context kept small?", [
        graph("Compactions by reason", "Asked for, at the threshold, or after an overflow; in each step.",
              [Query(step_count("pi_compactions_total", "reason"), "{{reason}}")], "short", READY, width=8, bars=True,
              stack=True, words=REASONS, decimals=0),
        graph("Compactions by outcome", "How compactions ended, in each step.",
              [Query(step_count("pi_compactions_total", "outcome"), "{{outcome}}")], "short", READY, width=8, bars=True,
              stack=True, words=OUTCOMES, decimals=0),
        ranking("Tokens removed by reason", "Over the picked range, as pi estimates.",
                count("pi_compaction_removed_tokens_total", "reason"), "{{reason}}", "short", READY, width=8,
                words=REASONS),
        quantiles("Compaction duration p95 by reason", "The agent waits this long. Measured from arrival stamps.",
                  [Query(quantile(0.95, duration, "reason"), "{{reason}}")], "s", NO_TIMES, width=8, words=REASONS,
                  log=True),
        quantiles("Context before a compaction, p50 by reason", "Tokens in the context when it was compacted.",
                  [Query(quantile(0.5, before, "reason"), "{{reason}}")], "short", NO_COMPACTIONS, width=8,
                  words=REASONS),
        graph("Cost of summaries per hour by model", "As reported by pi: compactions and branch summaries.",
              [Query(f"{rate('pi_cost_usd_total', 'model', where=SUMMARIES)} * 3600", "{{model}}")], "currencyUSD",
              "No cost yet", width=8, stack=True),
    ])  # fmt: skip


def build() -> dict[str, Any]:
    """Make the dashboard."""
    exhausted = step_count("pi_retry_sequences_total", "scope", where='outcome="exhausted"') + " > 0"
    compacted = step_count("pi_compactions_total", "reason", "outcome") + " > 0"
    marks = [
        Annotation("Retries exhausted", exhausted, "red", "Retries exhausted", "{{scope}}: pi gave up"),
        Annotation("Compactions", compacted, "purple", "Compaction", "{{reason}}: {{outcome}}"),
    ]
    return dashboard(
        "pimetrics-retries", "pimetrics / Retries and compactions",
        "What is lost to failures, and what it costs to keep the context small.",
        [_stats(), _retries(), _lost(), _compactions()], variables=("provider", "model"), annotations=marks,
    )  # fmt: skip

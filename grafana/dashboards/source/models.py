"""Models and requests: how providers answer."""

from __future__ import annotations

from typing import Any

from .expr import (
    NOT_TOOLS,
    RANGE,
    RATE,
    by_sum,
    cache_hits,
    count,
    or_zero,
    quantile,
    rate,
    select,
    share,
    step_count,
    total,
)  # fmt: skip
from .frame import Section, dashboard
from .panels import BAD, CALM, FAIR, GOOD, Column, Query, graph, heat, quantiles, ranking, rows_of, stat_panel

DURATION, FIRST, CONTEXT = "pi_request_duration_seconds", "pi_time_to_first_token_seconds", "pi_request_context_tokens"
NO_WORK = "No requests yet"
NO_TIMES = "No timed requests: session files alone hold no durations"
NO_FIRST = "No first tokens timed: only stamped streams have them"
_PM = ("provider", "model")
_ERROR = 'stop_reason="error"'


def _speed(window: str, *by: str) -> str:
    grow = {RATE: rate, RANGE: total}[window]
    return share(grow("pi_timed_output_tokens_total", *by), grow(f"{DURATION}_sum", *by))


def _stats() -> Section:
    failed = share(total("pi_requests_total", where=_ERROR), total("pi_requests_total"))
    return Section("How do providers answer in the picked range?", [
        stat_panel("Requests", "Assistant messages, with or without usage.", count("pi_requests_total"), "short",
                   NO_WORK,
                   width=4, steps=((None, "blue"),)),
        stat_panel("Request error ratio", "Share of answers that ended in an error. Retried errors count here too.",
                   failed,
                   "percentunit", NO_WORK, width=4, decimals=1, steps=((None, GOOD), (0.02, FAIR), (0.1, BAD))),
        stat_panel("Request p95", "95 % of the requests of the picked range were shorter.",
                   quantile(0.95, DURATION, window=RANGE), "s", NO_TIMES, width=4, decimals=1,
                   steps=((None, GOOD), (60, FAIR), (180, BAD))),
        stat_panel("First token p95", "95 % of the requests of the picked range began to answer sooner.",
                   quantile(0.95, FIRST, window=RANGE), "s", NO_FIRST, width=4, decimals=2,
                   steps=((None, GOOD), (5, FAIR), (20, BAD))),
        stat_panel("Output tokens per second", "Output of timed requests by their time, thinking included.",
                   _speed(RANGE), "short", NO_TIMES, width=4, decimals=1, steps=((None, FAIR), (20, GOOD))),
        stat_panel("Unpriced requests",
                   "Requests with tokens and a cost of 0: pi knows no price. Not the same as free.",
                   or_zero(count("pi_unpriced_requests_total"), total("pi_requests_total")), "short", NO_WORK, width=4,
                   steps=((None, GOOD), (1, FAIR))),
    ])  # fmt: skip


def _duration() -> Section:
    rates = by_sum(f"rate({select(f'{DURATION}_bucket')}[{RATE}])", "le")
    return Section("How long do requests take?", [
        heat("Request duration", "Requests per second in each bucket of the histogram; darker is more.", rates, "s",
             NO_TIMES, height=8),
        quantiles("Request duration p95 by model", "Dots: exemplars, each a session.",
                  [Query(quantile(0.95, DURATION, "model"), "{{model}}")], "s", NO_TIMES, words=()),
        quantiles("Time to first token p50 by model", "From the request to the first piece of the answer.",
                  [Query(quantile(0.5, FIRST, "model"), "{{model}}")], "s", NO_FIRST, width=8, words=()),
        quantiles("Time to first token p95 by model", "From the request to the first piece of the answer.",
                  [Query(quantile(0.95, FIRST, "model"), "{{model}}")], "s", NO_FIRST, width=8, words=()),
        graph("Output tokens per second by model", "Output tokens of timed requests by their time.",
              [Query(_speed(RATE, "model"), "{{model}}")], "short", NO_TIMES, width=8, calcs=["mean"]),
    ])  # fmt: skip


def _context() -> Section:
    rates = by_sum(f"rate({select(f'{CONTEXT}_bucket')}[{RATE}])", "le")
    return Section("How large is the context, and how much of it is cached?", [
        heat("Context of requests", "Tokens sent with a request, cached ones included.", rates, "short",
             NO_WORK, width=8, height=8),
        quantiles("Context p95 by model", "Tokens sent with a request, cached ones included.",
                  [Query(quantile(0.95, CONTEXT, "model"), "{{model}}")], "short", NO_WORK, width=8, words=(),
                  log=True),
        graph("Cache hit ratio by model", "Share of prompt tokens that came from the provider's cache.",
              [Query(cache_hits(RATE, "model"), "{{model}}")], "percentunit", NO_WORK, width=8, top=1),
    ])  # fmt: skip


def _failures() -> Section:
    failed = rate("pi_requests_total", "model", where=_ERROR)
    return Section("What goes wrong?", [
        graph("Retried failures by class",
              "What pi retried, by class of error, in each step. Failures that pi does not "
              "retry are in the ratio to the right.",
              [Query(f"{step_count('pi_retries_total', 'error_type')} > 0", "{{error_type}}")], "short",
              "No retries in this range: nothing failed", width=8, bars=True, stack=True, decimals=0),
        graph("Request error ratio by model", "Share of answers that ended in an error.",
              [Query(share(failed, rate("pi_requests_total", "model")), "{{model}}")], "percentunit", NO_WORK, width=8,
              top=1),
        graph("Unpriced or without usage", "Requests whose cost (no price known) or tokens (the provider reports none) "
              "are missing from every total, in each step.",
              [Query(step_count("pi_unpriced_requests_total", "model") + " > 0", "{{model}}: unpriced"),
               Query(step_count("pi_requests_without_usage_total", "model") + " > 0", "{{model}}: without usage")],
              "short", "None: every request has a price and usage", width=8, bars=True, decimals=0),
    ])  # fmt: skip


def _spend() -> Section:
    thinking = share(total("pi_reasoning_tokens_total", "model"),
                     total("pi_tokens_total", "model", where='operation="turn", token_type="output"'))  # fmt: skip
    return Section("What are tokens spent on?", [
        graph("Tokens per second by model", "All types, all operations but tools' own reports.",
              [Query(rate("pi_tokens_total", "model", where=NOT_TOOLS), "{{model}}")], "short", NO_WORK, width=8,
              stack=True),
        ranking("Reasoning share of output", "Reasoning tokens for each output token of turns, over the picked range; "
                "output holds them already.", thinking, "{{model}}", "percentunit", NO_WORK, width=8, decimals=1,
                top=1),
        ranking("Cache written for one hour", "Tokens over the picked range; the dearer kind of cache write, already "
                "inside cache_write.", count("pi_cache_write_1h_tokens_total", "model"), "{{model}}", "short",
                "No one-hour cache writes", width=8),
    ])  # fmt: skip


def _table() -> Section:
    requests = total("pi_requests_total", *_PM)
    red = ((None, CALM), (1, BAD))
    columns = [
        Column("Requests", f"round({requests})", "short", 0, bar=True),
        Column("Errors", count("pi_requests_total", *_PM, where=_ERROR), "short", 0, steps=red),
        Column("p50", quantile(0.5, DURATION, *_PM, window=RANGE), "s", 2),
        Column("p95", quantile(0.95, DURATION, *_PM, window=RANGE), "s", 2),
        Column("First token p50", quantile(0.5, FIRST, *_PM, window=RANGE), "s", 2),
        Column("Output/s", _speed(RANGE, *_PM), "short", 1),
        Column("Context p95", quantile(0.95, CONTEXT, *_PM, window=RANGE), "short"),
        Column("Unpriced", or_zero(count("pi_unpriced_requests_total", *_PM), requests), "short", 0, steps=red),
        Column("No usage", or_zero(count("pi_requests_without_usage_total", *_PM), requests), "short", 0, steps=red),
    ]
    return Section("Which model does what?", [
        rows_of("By model", "Over the picked range; quantiles are of the whole range.", _PM, columns, NO_WORK)
    ])  # fmt: skip


def build() -> dict[str, Any]:
    """Make the dashboard."""
    return dashboard(
        "pimetrics-models", "pimetrics / Models and requests",
        "How providers answer: duration, first token, speed, context, failures.",
        [_stats(), _duration(), _context(), _failures(), _spend(), _table()], variables=("provider", "model"),
    )  # fmt: skip

"""Overview: what the picked range cost, and where to look next."""

from __future__ import annotations

from typing import Any

from .expr import (
    NOT_TOOLS,
    RANGE,
    cache_hits,
    count,
    gauge,
    or_zero,
    quantile,
    rate,
    select,
    share,
    total,
)  # fmt: skip
from .frame import Section, dashboard
from .panels import BAD, CALM, FAIR, GOOD, Column, Query, graph, quantiles, ranking, rows_of, stat_panel

NO_WORK = "No requests yet"
NO_TIMES = "No timed requests: session files alone hold no durations"
_PM = ("provider", "model")


def _range() -> Section:
    errors = total("pi_tool_calls_total", where='outcome=~"error|aborted"')
    return Section("What happened in the picked range?", [
        stat_panel(
            "Cost, as reported by pi",
            "US dollars over the picked range, summed from what pi reports. Without what tools report for themselves: "
            "a sub-agent's own session may hold the same cost, so the two are shown beside each other and never added.",
            total("pi_cost_usd_total", where=NOT_TOOLS), "currencyUSD", "No cost yet", decimals=2,
            steps=((None, "blue"),), link=("Models and requests", "pimetrics-models"),
        ),
        stat_panel(
            "Reported by tools (may repeat sub-agent sessions)",
            "Cost that tools report in their results, such as sub-agents. Where the sub-agent's session is read too, "
            "this is already in the cost to the left.",
            total("pi_cost_usd_total", where='operation="tool"'), "currencyUSD", "No cost yet", width=8,
        ),
        stat_panel(
            "Cost per hour",
            "Mean over the picked range, as reported by pi, without what tools report.",
            f"{rate('pi_cost_usd_total', where=NOT_TOOLS)} * 3600", "currencyUSD", "No cost yet", width=5,
            decimals=2, trend="mean", steps=((None, "blue"),),
        ),
        stat_panel(
            "Tokens", "Input, output, cache reads and cache writes over the picked range, without what tools report.",
            count("pi_tokens_total", where=NOT_TOOLS), "short", NO_WORK, width=5, steps=((None, "blue"),),
        ),
        stat_panel(
            "Cache hit ratio",
            "Share of prompt tokens that came from the provider's cache. Cached tokens cost about a tenth: long "
            "sessions reach 80 % and more, a low figure means that prompts change near their start.",
            cache_hits(RANGE), "percentunit", NO_WORK, width=5, decimals=1,
            steps=((None, BAD), (0.3, FAIR), (0.6, GOOD)), link=("Models and requests", "pimetrics-models"),
        ),
        stat_panel(
            "Active sessions", "Sessions with events within the idle time, now.", gauge("pi_sessions_active"), "short",
            "Not ready yet", width=5, trend="lastNotNull",
        ),
        stat_panel(
            "Prompts", "User messages, with all work on each, that came to an end in the picked range.",
            count("pi_prompts_total"), "short", "No prompts yet", width=5,
        ),
        stat_panel(
            "Tool error ratio",
            "Share of tool calls that ended in an error or were aborted. Agents probe (a test that fails, a file that "
            "is not there), so up to 15 % is everyday.",
            share(errors, total("pi_tool_calls_total")), "percentunit", "No tool calls", width=5, decimals=1,
            steps=((None, GOOD), (0.15, FAIR), (0.3, BAD)), link=("Tools", "pimetrics-tools"),
        ),
        stat_panel(
            "Retries exhausted", "Series of retries that gave up, in the picked range. Each is work that stopped.",
            count("pi_retry_sequences_total", where='outcome="exhausted"'), "short", "Not ready yet", width=4,
            steps=((None, GOOD), (1, BAD)), link=("Retries and compactions", "pimetrics-retries"),
        ),
    ])  # fmt: skip


def _money() -> Section:
    return Section("Where does the money go?", [
        graph(
            "Cost per hour by model", "Rate of spending, as reported by pi, without what tools report.",
            [Query(f"{rate('pi_cost_usd_total', 'model', where=NOT_TOOLS)} * 3600", "{{model}}")], "currencyUSD",
            "No cost yet", stack=True, calcs=["mean"], link=("Models and requests", "pimetrics-models"),
        ),
        ranking(
            "Cost by operation",
            "Over the picked range, as reported by pi. `tool` is what tools report and may repeat sub-agent sessions.",
            total("pi_cost_usd_total", "operation"), "{{operation}}", "currencyUSD", "No cost yet", decimals=3,
            words=("turn", "tool", "compaction", "branch_summary", "cache_warm", "other"),
        ),
        ranking(
            "Tokens by type", "Over the picked range, without what tools report. Input does not hold cached tokens.",
            count("pi_tokens_total", "token_type", where=NOT_TOOLS), "{{token_type}}", "short", NO_WORK,
            words=("input", "output", "cache_read", "cache_write"),
        ),
    ])  # fmt: skip


def _throughput() -> Section:
    return Section("How much work goes through?", [
        graph(
            "Tokens per second by type", "All operations but tools' own reports.",
            [Query(rate("pi_tokens_total", "token_type", where=NOT_TOOLS), "{{token_type}}")], "short", NO_WORK,
            width=8,
            stack=True, words=("input", "output", "cache_read", "cache_write"),
        ),
        graph(
            "Work per hour", "Sessions, prompts (a user message and all work on it), runs (streams only) and turns "
            "(an answer and its tools).",
            [
                Query(f"{rate('pi_turns_total')} * 3600", "turns"), Query(f"{rate('pi_runs_total')} * 3600", "runs"),
                Query(f"{rate('pi_prompts_total')} * 3600", "prompts"),
                Query(f"{rate('pi_sessions_total')} * 3600", "sessions"),
            ],
            "short", "No work yet", width=8,
        ),
        graph(
            "In progress now", "Sessions within the idle time, agent runs, and messages that wait for the agent.",
            [
                Query(gauge("pi_sessions_active"), "active sessions"), Query(gauge("pi_runs_active"), "agent runs"),
                Query(gauge("pi_queue_depth", "queue"), "{{queue}} queue"),
            ],
            "short", "Not ready yet", width=8, steps=True, decimals=0, top=2,
        ),
    ])  # fmt: skip


def _latency() -> Section:
    made = []
    for title, question, metric in (
        ("Prompt duration", "From the user message to the end of all work on it.", "pi_prompt_duration_seconds"),
        ("Request duration", "Length of a request to the provider.", "pi_request_duration_seconds"),
        ("Time to first token", "From the request to the first piece of the answer.", "pi_time_to_first_token_seconds"),
    ):
        made.append(quantiles(
            title, f"{question} Measured where pi reports it or a recording is stamped. Dots are exemplars: sessions.",
            [Query(quantile(0.95, metric), "p95"), Query(quantile(0.5, metric), "p50")], "s", NO_TIMES, width=8,
        ))  # fmt: skip
    return Section("How long does it take?", made)


def _endings() -> Section:
    oldest = select("pi_oldest_active_run_start_timestamp_seconds")
    return Section("How does work end?", [
        graph(
            "Answers per minute by stop reason", "`toolUse` is an answer that calls tools, `stop` a finished one.",
            [Query(f"{rate('pi_requests_total', 'stop_reason')} * 60 > 0", "{{stop_reason}}")], "short", NO_WORK,
            stack=True, words=("stop", "toolUse", "length", "error", "aborted", "other", "unknown"),
        ),
        ranking(
            "Prompts by outcome", "Over the picked range; `unfinished` at a definite end only, such as a killed run.",
            count("pi_prompts_total", "outcome"), "{{outcome}}", "short", "No prompts yet",
            words=("ok", "error", "aborted", "unfinished", "unknown"),
        ),
        stat_panel(
            "Longest run in progress", "Age of the longest agent run that has not ended; 0 without one.",
            f"max(clamp_min(time() - {oldest}, 0) * ({oldest} > bool 0))", "s", "Not ready yet", height=8,
            trend="lastNotNull", steps=((None, GOOD), (3600, FAIR), (14400, BAD)), decimals=1,
        ),
    ])  # fmt: skip


def _models() -> Section:
    requests, timed = count("pi_requests_total", *_PM), total("pi_request_duration_seconds_sum", *_PM)
    return Section("Which model does what?", [rows_of(
        "By model", "Over the picked range. Cost is as reported by pi and without what tools report.", _PM,
        [
            Column("Cost", total("pi_cost_usd_total", *_PM, where=NOT_TOOLS), "currencyUSD", 3, bar=True),
            Column("Requests", requests, "short", 0),
            Column("Input", count("pi_tokens_total", *_PM, where=f'{NOT_TOOLS}, token_type="input"'), "short"),
            Column("Output", count("pi_tokens_total", *_PM, where=f'{NOT_TOOLS}, token_type="output"'), "short"),
            Column("Cache hits", cache_hits(RANGE, *_PM), "percentunit", 1,
                   steps=((None, BAD), (0.3, FAIR), (0.6, GOOD))),
            Column("Request p95", quantile(0.95, "pi_request_duration_seconds", *_PM, window=RANGE), "s", 1),
            Column("Output/s", share(total("pi_timed_output_tokens_total", *_PM), timed), "short", 1),
            Column("Unpriced", or_zero(count("pi_unpriced_requests_total", *_PM), requests), "short", 0, steps=((None,
            CALM), (1, BAD))),
        ],
        NO_WORK,
    )])  # fmt: skip


def _fleet() -> Section:
    empty = "Nothing is delivered here: see serve --receive-label"
    told = "Over the picked range, with what tools report. Nameless is what this exporter has read itself."
    return Section("Who spends it, where a fleet delivers?", [
        rows_of(
            "By team", told, ("team",),
            [
                Column("Cost", total("pi_fleet_cost_usd_total", "team"), "currencyUSD", 3, bar=True),
                Column("Requests", count("pi_fleet_requests_total", "team"), "short", 0),
                Column("Sessions", count("pi_fleet_sessions_total", "team"), "short", 0),
                Column("Tokens", count("pi_fleet_tokens_total", "team"), "short"),
            ],
            empty,
        ),
        *(
            ranking(
                f"Cost by {label}", told, f"topk(20, {total('pi_fleet_cost_usd_total', label)})",
                f"{{{{{label}}}}}", "currencyUSD", empty, decimals=3, width=12,
            )
            for label in ("repo", "host")
        ),
    ])  # fmt: skip


def build() -> dict[str, Any]:
    """Make the dashboard."""
    return dashboard(
        "pimetrics-overview", "pimetrics / Overview",
        "What the pi coding agent did and cost in the picked range, and where to look next.",
        [_range(), _money(), _throughput(), _latency(), _endings(), _models(), _fleet()],
        variables=("provider", "model", "tool"),
    )  # fmt: skip

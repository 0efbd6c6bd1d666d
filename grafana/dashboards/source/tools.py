"""Tools: which tools are slow, which fail, and where the time goes."""

from __future__ import annotations

from typing import Any

from .expr import RANGE, by_sum, count, gauge, mean, or_zero, quantile, rate, select, share, step_count, total
from .frame import Section, dashboard
from .panels import BAD, FAIR, GOOD, Column, Query, graph, heat, quantiles, ranking, rows_of, stat_panel

DURATION = "pi_tool_execution_duration_seconds"
NO_CALLS = "No tool calls"
NO_TIMES = "No timed tool calls: session files alone hold no durations"
OUTCOMES = ("ok", "error", "aborted", "unfinished")
SLOW = "10.24"
"""A bucket bound of the histogram; anything above it is felt by whoever waits."""

_FAILED = 'outcome=~"error|aborted"'
_RATIO = ((None, GOOD), (0.15, FAIR), (0.3, BAD))


def _slow(*by: str) -> str:
    quick = total(f"{DURATION}_bucket", *by, where=f'le="{SLOW}"')
    return f"round({total(f'{DURATION}_count', *by)} - {quick})"


def _stats() -> Section:
    return Section("How do tools fare in the picked range?", [
        stat_panel("Tool calls", "Calls that came to an end in the picked range.", count("pi_tool_calls_total"),
                   "short",
                   NO_CALLS, width=4, steps=((None, "blue"),)),
        stat_panel("Error ratio", "Share of calls that ended in an error or were aborted; up to 15 % is everyday.",
                   share(total("pi_tool_calls_total", where=_FAILED), total("pi_tool_calls_total")), "percentunit",
                   NO_CALLS, width=4, decimals=1, steps=_RATIO),
        stat_panel("Time in tools", "Sum of the lengths of all calls; calls that run side by side count each.",
                   total(f"{DURATION}_sum"), "s", NO_TIMES, width=4, decimals=1),
        stat_panel("Mean call", "Mean length of a call over the picked range.", mean(DURATION), "s", NO_TIMES, width=4,
                   decimals=2, steps=((None, GOOD), (5, FAIR), (30, BAD))),
        stat_panel("Slow calls", f"Calls longer than {SLOW} s, in the picked range.", _slow(), "short", NO_TIMES,
                   width=4,
                   steps=((None, GOOD), (1, FAIR))),
        stat_panel("Running now", "Tool calls that have started and not ended.",
                   or_zero(gauge("pi_tool_executions_in_progress"), gauge("pi_runs_active")), "short", "Not ready yet",
                   width=4, trend="lastNotNull"),
    ])  # fmt: skip


def _latency() -> Section:
    rates = by_sum(f"rate({select(f'{DURATION}_bucket')}[$__rate_interval])", "le")
    lines = [Query(quantile(q, DURATION), f"p{round(q * 100)}") for q in (0.99, 0.95, 0.5)]
    by_tool = [
        quantiles(
            f"p{round(q * 100)} by tool", f"{round(q * 100)} % of the calls of a tool are shorter. Dots: exemplars.",
            [Query(quantile(q, DURATION, "tool"), "{{tool}}")], "s", NO_TIMES, width=8, words=(), log=True,
        )
        for q in (0.5, 0.95, 0.99)
    ]  # fmt: skip
    return Section("How long do calls take?", [
        heat("Latency of all calls", "Calls per second in each bucket of the histogram; darker is more.", rates, "s",
             NO_TIMES),
        quantiles("Latency of all calls: p50, p95, p99", "Quantiles over all picked tools. Dots: exemplars, each the "
                  "session that a call belongs to.", lines, "s", NO_TIMES, height=9, words=("p50", "p95", "p99"),
                  log=True),
        *by_tool,
    ])  # fmt: skip


def _failures() -> Section:
    ratio = share(rate("pi_tool_calls_total", "tool", where=_FAILED), rate("pi_tool_calls_total", "tool"))
    return Section("What fails?", [
        graph("Error ratio by tool", "Share of calls that ended in an error or were aborted.",
              [Query(ratio, "{{tool}}")], "percentunit", NO_CALLS, top=1),
        graph("Calls by outcome", "Calls in each step. `unfinished` is counted at a definite end only.",
              [Query(step_count("pi_tool_calls_total", "outcome"), "{{outcome}}")], "short", NO_CALLS, bars=True,
              stack=True, words=OUTCOMES, decimals=0),
    ])  # fmt: skip


def _time() -> Section:
    wall = total("pi_prompt_duration_seconds_sum")
    share_of_wall = f"{total(f'{DURATION}_sum', 'tool')} / on () group_left () ({wall} > 0)"
    return Section("Where does the time go?", [
        ranking("Share of wall time by tool", "Time in the tool for each second that a prompt took. Calls side by side "
                "count each, so the sum may pass 100 %.", share_of_wall, "{{tool}}", "percentunit", NO_TIMES,
                width=8, decimals=1),
        ranking("Slow calls by tool", f"Calls longer than {SLOW} s, in the picked range.", _slow("tool"), "{{tool}}",
                "short", NO_TIMES, width=8, decimals=0),
        graph("Running now by tool", "Tool calls that have started and not ended.",
              [Query(gauge("pi_tool_executions_in_progress", "tool"), "{{tool}}")], "short", "No tool ran", width=8,
              stack=True, steps=True, decimals=0, top=2),
    ])  # fmt: skip


def _table() -> Section:
    calls = total("pi_tool_calls_total", "tool")
    columns = [
        Column("Time", total(f"{DURATION}_sum", "tool"), "s", 1, bar=True),
        Column("Calls", f"round({calls})", "short", 0),
        Column("Errors", count("pi_tool_calls_total", "tool", where=_FAILED), "short", 0),
        Column("Error ratio", share(total("pi_tool_calls_total", "tool", where=_FAILED), calls), "percentunit", 1,
               steps=_RATIO),
        *(Column(f"p{round(q * 100)}", quantile(q, DURATION, "tool", window=RANGE), "s", 2) for q in (0.5, 0.95, 0.99)),
        Column("Slow", _slow("tool"), "short", 0),
    ]  # fmt: skip
    return Section("Which tool does what?", [
        rows_of("By tool", "Over the picked range; quantiles are of the whole range.", ["tool"], columns, NO_CALLS)
    ])  # fmt: skip


def build() -> dict[str, Any]:
    """Make the dashboard."""
    return dashboard(
        "pimetrics-tools", "pimetrics / Tools", "Which tools are slow, which fail, and where the time goes.",
        [_stats(), _latency(), _failures(), _time(), _table()], variables=("tool",),
    )  # fmt: skip

"""Facts to the one object that `report --json` prints, and that every other report shows in parts.

Money is added as integers (pico-dollars) and times as microseconds, as the counters are, so a report, the tables and
the scrape agree to the last digit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pimetrics.ledger.totals import MEASURED, is_unpriced, is_without_usage, micro, pico
from pimetrics.names import MICRO, OPERATIONS, PICO, UNKNOWN
from pimetrics.pipeline import Stats
from pimetrics.reports.selection import Facts

Values = dict[str, Any]

TOKENS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "reasoning": "reasoning_tokens",
    "cache_write_1h": "cache_write_1h_tokens",
}
"""Key in the report to column; the last two are parts of `output` and `cache_write`."""


def has_no_price(v: Values) -> bool:
    """Whether a usage row, of any operation, has tokens and no cost: no price is known, which is not free."""
    return not v.get("cost_usd") and any(
        v.get(name) for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    )


@dataclass
class Spend:
    """A sum over usage rows.

    Attributes:
        rows: How many.
        tokens: By kind, as in `TOKENS`.
        cost_pico: Their cost, pico-dollars.
        no_price: How many of them have tokens and no cost.
    """

    rows: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    cost_pico: int = 0
    no_price: int = 0

    def add(self, v: Values) -> None:
        """Add a usage row."""
        self.rows += 1
        for key, column in TOKENS.items():
            self.tokens[key] += v.get(column) or 0
        self.no_price += has_no_price(v)
        if v.get("cost_usd") is not None:
            self.cost_pico += pico(v["cost_usd"])

    @property
    def cost_usd(self) -> float:
        """The cost in USD."""
        return self.cost_pico / PICO

    def join(self, other: Spend) -> None:
        """Add another sum."""
        self.rows += other.rows
        self.tokens.update(other.tokens)
        self.cost_pico += other.cost_pico
        self.no_price += other.no_price

    def token_counts(self) -> dict[str, int]:
        """Tokens by kind, zeros included."""
        return {key: self.tokens[key] for key in TOKENS}


def summarize(ledger: Facts, stats: Stats) -> dict[str, Any]:
    """Return the report as plain data: see the README for what each key means."""
    usage = [fact.values for _, fact in ledger.facts("usage")]
    messages = [fact.values for _, fact in ledger.facts("messages")]
    tools = [fact.values for _, fact in ledger.facts("tool_calls")]
    runs = [fact.values for _, fact in ledger.facts("runs")]
    return {
        "records": _counted(stats.records, "by_type"),
        "rejects": _counted(stats.rejects, "by_reason"),
        "unknown": _counted(stats.unknown, "by_kind"),
        "fused_lines": stats.fused_lines,
        "extension_errors": stats.extension_errors,
        "duplicates_skipped": ledger.duplicates,
        "sessions": _size(ledger, "sessions"),
        "prompts": _size(ledger, "prompts"),
        "runs": len(runs),
        "turns": _size(ledger, "turns"),
        "usage": _usage(usage, messages),
        "unfinished": _unfinished(usage, messages, tools, runs),
        "tools": _tools(tools),
        "retries": _retries(fact.values for _, fact in ledger.facts("retries")),
        "compactions": _compactions(fact.values for _, fact in ledger.facts("compactions")),
    }


def _counted(counts: Counter[str], by: str) -> dict[str, Any]:
    return {"total": sum(counts.values()), by: dict(sorted(counts.items()))}


def _size(ledger: Facts, table: str) -> int:
    return sum(1 for _ in ledger.facts(table))


def _usage(usage: list[Values], messages: list[Values]) -> dict[str, Any]:
    total = Spend()
    models: dict[tuple[str, str], Spend] = defaultdict(Spend)
    operations: dict[str, Spend] = defaultdict(Spend)
    unpriced = invalid = 0
    for v in usage:
        if not v["settled"]:
            continue
        total.add(v)
        models[_model(v)].add(v)
        operations[v["operation"]].add(v)
        unpriced += is_unpriced(v)
        invalid += v.get("cost_invalid") is True
    requests: Counter[tuple[str, str]] = Counter(
        _model(v) for v in messages if v["settled"] and v["role"] == "assistant"
    )
    return {
        "rows": total.rows,
        "tokens": total.token_counts(),
        "cost_usd": total.cost_usd,
        "by_model": [
            {
                "provider": provider,
                "model": model,
                "requests": requests[provider, model],
                "tokens": models[provider, model].token_counts(),
                "cost_usd": models[provider, model].cost_usd,
            }
            for provider, model in sorted(requests.keys() | models.keys())
        ],
        "by_operation": [
            {
                "operation": operation,
                "rows": operations[operation].rows,
                "tokens": operations[operation].token_counts(),
                "cost_usd": operations[operation].cost_usd,
            }
            for operation in OPERATIONS
            if operation in operations
        ],
        "without_usage": sum(is_without_usage(v) for v in messages),
        "unpriced": unpriced,
        "invalid_cost": invalid,
    }


def _model(v: Values) -> tuple[str, str]:
    return v.get("provider") or UNKNOWN, v.get("response_model") or v.get("model") or UNKNOWN


def _unfinished(usage: list[Values], messages: list[Values], tools: list[Values], runs: list[Values]) -> dict[str, Any]:
    spend = Spend()
    for v in usage:
        if not v["settled"]:
            spend.add(v)
    return {
        "messages": sum(not v["settled"] for v in messages),
        "tokens": spend.token_counts(),
        "cost_usd": spend.cost_usd,
        "tool_calls": sum(v["outcome"] == "unfinished" for v in tools),
        "runs": sum(v["outcome"] == "unfinished" for v in runs),
    }


def _tools(calls: list[Values]) -> list[dict[str, Any]]:
    by_tool: dict[str, list[Values]] = defaultdict(list)
    for v in calls:
        by_tool[v.get("tool") or UNKNOWN].append(v)
    return [
        {
            "tool": tool,
            "calls": len(found),
            "errors": sum(v["outcome"] in {"error", "aborted"} for v in found),
            "unfinished": sum(v["outcome"] == "unfinished" for v in found),
            "duration_s": spread(v["duration_s"] for v in found if v.get("duration_source") in MEASURED),
            "entry_duration_s": spread(v["duration_s"] for v in found if v.get("duration_source") == "entry"),
        }
        for tool, found in sorted(by_tool.items())
    ]


def spread(lengths: Iterable[float]) -> dict[str, Any]:
    """Return count, sum and percentiles of durations in seconds; percentiles are null without any."""
    ordered = sorted(lengths)
    if not ordered:
        return {"count": 0, "sum": 0.0, "p50": None, "p95": None, "p99": None, "max": None}
    return {
        "count": len(ordered),
        "sum": sum(micro(each) for each in ordered) / MICRO,
        "p50": _quantile(ordered, 0.5),
        "p95": _quantile(ordered, 0.95),
        "p99": _quantile(ordered, 0.99),
        "max": ordered[-1],
    }


def _quantile(ordered: list[float], q: float) -> float:
    """Interpolate linearly between the two values around the quantile, as numpy and polars' `linear` do."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (ordered[high] - ordered[low]) * (at - low), 6)


_ENDS: Final = ("success", "exhausted", "aborted", "unfinished")


def _retries(attempts: Iterator[Values]) -> dict[str, Any]:
    scopes: dict[str, list[Values]] = {"turn": [], "compaction": [], "branch_summary": []}
    for v in attempts:
        scopes[v["scope"]].append(v)
    by_scope = {
        scope: {
            "attempts": len(found),
            **{end: sum(v.get("outcome") == end for v in found) for end in _ENDS},
            "backoff_s": sum(micro(v["delay_s"]) for v in found if v.get("delay_s")) / MICRO,
        }
        for scope, found in scopes.items()
    }
    return by_scope["turn"] | {"by_scope": by_scope}


def _compactions(found: Iterator[Values]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for v in found:
        groups[v.get("reason") or UNKNOWN, v["outcome"]].append(v.get("tokens_before") or 0)
    return [
        {"reason": reason, "outcome": outcome, "count": len(before), "tokens_before": sum(before)}
        for (reason, outcome), before in sorted(groups.items())
    ]

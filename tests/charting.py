"""What tests of charts share: made-up tables of any size, and every chart of `pimetrics.plots` by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from pimetrics import plots
from pimetrics.rows import TABLES
from pimetrics.sinks.frames import Tables, schema

START = datetime(2026, 10, 19, 8, tzinfo=UTC)
TOOLS = ("bash", "read", "edit", "write", "grep", "subagent")
MODELS = ("ember-1", "quill-small", "quill-large", "moss-2", "moss-3", "fern", "fern-mini", "ash")
HOSTILE = (
    "<script>document.title='ran'</script>",
    "a\u202egnp.exe\u2066x",
    "line\nbreak\r\ttab\x1b[31m\x00",
    "very-long-" + "x" * 5000,
    "very-long-" + "x" * 5000 + "y",
    "\u0645\u0631\u062d\u0628\u0627",
    "\ud800",
    "other",
    " ",
    "[/]",
    "{}{{}}%s\\n",
)

CHARTS: dict[str, Callable[..., Any]] = {
    "cost_by_day": lambda t, **k: plots.cost_by_day(t.usage, **k),
    "cost_by model": lambda t, **k: plots.cost_by(t.usage, **k),
    "cost_by project": lambda t, **k: plots.cost_by(t.usage, "project", sessions=t.sessions, **k),
    "cost_by operation": lambda t, **k: plots.cost_by(t.usage, "operation", **k),
    "cost_per_prompt": lambda t, **k: plots.cost_per_prompt(t.usage, **k),
    "dearest_turns": lambda t, **k: plots.dearest_turns(t.usage, **k),
    "cache_hit_rate": lambda t, **k: plots.cache_hit_rate(t.usage, **k),
    "tool_latency": lambda t, **k: plots.tool_latency(t.tool_calls, **k),
    "tool_latency by entries": lambda t, **k: plots.tool_latency(t.tool_calls, sources=("entry",), **k),
    "tool_latency_spread": lambda t, **k: plots.tool_latency_spread(t.tool_calls, **k),
    "request_latency": lambda t, **k: plots.request_latency(t.usage, **k),
    "tokens_per_second": lambda t, **k: plots.tokens_per_second(t.usage, **k),
    "waterfall": lambda t, **k: plots.waterfall(t.usage, t.tool_calls, t.turns, **k),
    "retry_waste": lambda t, **k: plots.retry_waste(t.retries, **k),
    "retry_success": lambda t, **k: plots.retry_success(t.retries, **k),
    "counts": lambda t, **k: plots.counts(t.messages, "stop_reason", noun="message", **k),
    "counts_by_day": lambda t, **k: plots.counts_by_day(t.usage, "model", noun="request", **k),
    "context_growth": lambda t, **k: plots.context_growth(t.usage, t.compactions, **k),
    "compaction_savings": lambda t, **k: plots.compaction_savings(t.compactions, **k),
    "context_share": lambda t, **k: plots.context_share(t.messages, t.tool_calls, **k),
}
"""Every chart, from all tables."""


def frame(table: str, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Build a table from rows that name only what matters."""
    columns = schema(table)
    return pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], schema=columns)


def tables(**rows: Iterable[dict[str, Any]]) -> Tables[pl.DataFrame]:
    """Build all tables; those that are not named are empty."""
    return Tables(**{table: frame(table, rows.get(table, ())) for table in TABLES})


def encodable(name: str) -> str:
    """Return a name as polars can hold it: a lone surrogate cannot be UTF-8."""
    return name.encode("utf-8", "replace").decode()


def made(requests: int, models: Sequence[str] = MODELS, tools: Sequence[str] = TOOLS) -> Tables[pl.DataFrame]:
    """Make up weeks of work, the same each time.

    Args:
        requests: About how many.
        models: Names, the most used first.
        tools: Names.
    """
    chance = random.Random(requests)
    models, tools = [*map(encodable, models)], [*map(encodable, tools)]
    found: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    while len(found["usage"]) < requests:
        _session(found, chance, models, tools)
    return tables(**found)


def _session(
    found: dict[str, list[dict[str, Any]]], chance: random.Random, models: list[str], tools: list[str]
) -> None:
    number = len(found["sessions"])
    time = START + timedelta(days=chance.random() * 41)
    base: dict[str, Any] = {"session_id": f"{number:08x}-7a1e"}
    cwd = chance.choice(["/home/ana/shop", "/home/ana/shop-api", "/srv/infra", models[0]])
    found["sessions"].append(base | {"row_id": f"s{number}", "cwd": cwd, "time": time})
    model = models[min(int(chance.expovariate(0.7)), len(models) - 1)]
    context = 9000
    for prompt in range(chance.randint(1, 6)):
        base |= {"prompt_id": f"p{number}.{prompt}"}
        for _ in range(chance.randint(1, 14)):
            time, context = _turn(found, chance, base | {"time": time}, model, tools, context)
        found["messages"].append(base | {"role": "user", "content_bytes": chance.randint(50, 3000), "time": time})
        time += timedelta(minutes=chance.randint(1, 20))


def _turn(  # noqa: PLR0917
    found: dict[str, list[dict[str, Any]]],
    chance: random.Random,
    base: dict[str, Any],
    model: str,
    tools: list[str],
    context: int,
) -> tuple[datetime, int]:
    number = len(found["usage"])
    output, new = int(chance.lognormvariate(5.5, 1)), int(chance.lognormvariate(7, 1.1))
    hit = chance.random() < 0.93
    parts = {
        "cost_input_usd": 5e-6,
        "cost_output_usd": output * 25e-6,
        "cost_cache_read_usd": context * 5e-7 if hit else 0.0,
        "cost_cache_write_usd": (new if hit else context + new) * 6.25e-6,
    }
    took = chance.lognormvariate(1.6, 0.7)
    found["usage"].append(
        base
        | parts
        | {
            "row_id": f"u{number}", "operation": "turn", "model": model, "settled": True, "on_active_branch": True,
            "input_tokens": 20, "output_tokens": output, "cache_read_tokens": context if hit else 0,
            "cache_write_tokens": new if hit else context + new, "cost_usd": sum(parts.values()), "duration_s": took,
            "duration_source": "reported", "time_to_first_token_s": min(took, chance.lognormvariate(0.1, 0.5)),
        }
    )  # fmt: skip
    answer = {"role": "assistant", "stop_reason": "toolUse", "content_bytes": output * 4, "settled": True}
    found["messages"].append(base | answer | {"row_id": f"m{number}"})
    end, calls = took, chance.choice([0, 1, 1, 1, 2, 3])
    for call in range(calls):
        length, size = chance.lognormvariate(-0.5, 2), int(chance.lognormvariate(7, 1.6))
        end = max(end, took + length)
        found["tool_calls"].append(
            base
            | {
                "row_id": f"t{number}.{call}", "tool": chance.choice(tools), "duration_s": length, "result_bytes": size,
                "outcome": chance.choice(["ok", "ok", "ok", "error", "aborted", "unfinished"]),
                "duration_source": chance.choice(["reported", "arrival", "entry"]),
                "time": base["time"] + timedelta(seconds=took),
            }
        )  # fmt: skip
    found["turns"].append(base | {"row_id": f"T{number}", "duration_s": end, "duration_source": "arrival"})
    context += new + output
    if context > 60_000:
        after = chance.randint(9000, 20_000)
        cut = {"outcome": "ok", "reason": chance.choice(["threshold", "manual", "overflow", None])}
        found["compactions"].append(base | cut | {"tokens_before": context, "tokens_after": after})
        context = after
    for attempt in range(1, chance.choice([1, 1, 1, 1, 2, 4])):
        retry = {"scope": "turn", "attempt": attempt, "delay_s": 2.0**attempt, "discarded_tokens": context}
        ended = {"outcome": chance.choice(["success", "failed", "exhausted", None]), "error_type": "overloaded"}
        found["retries"].append(base | retry | ended)
    return base["time"] + timedelta(seconds=end + 1), context

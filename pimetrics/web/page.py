"""The page at /: what is read, what is found, and where to go on. Nothing on it names a session, a path or a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Final

from pimetrics import __version__
from pimetrics.names import PICO, printable
from pimetrics.snapshots import Snapshot

_SHOWN: Final = 20
"""Rows of a table; the rest is in /metrics."""

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; overflow-wrap: anywhere; }
th + th, td + td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
caption { text-align: left; font-weight: 600; }
"""


def render(now: Snapshot) -> str:
    """Return the page as HTML."""
    state = "ready" if now.ready else "catching up"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>pimetrics</title><style>{_STYLE}</style></head><body>",
            "<h1>pimetrics</h1>",
            f"<p>Version {escape(__version__)}, {state}: what the pi coding agent does and costs.</p>",
            '<p><a href="metrics">Metrics</a> · <a href="-/ready">Ready</a> · <a href="-/healthy">Healthy</a></p>',
            _reading(now),
            *(_found(now) if now.ready else []),
            "</body></html>",
            "",
        ]
    )


def _reading(now: Snapshot) -> str:
    sources = {labels[0]: int(n) for labels, n in now.gauges.get("pimetrics_sources", {}).items() if n}
    lag = sum(now.gauges.get("pimetrics_source_lag_bytes", {}).values())
    rows = [(f"Sources {state}", f"{n:,}") for state, n in sorted(sources.items())]
    rows += [
        ("Records", f"{_total(now, 'pimetrics_records_total'):,}"),
        ("Lines that gave no record", f"{_total(now, 'pimetrics_rejects_total'):,}"),
        ("Bytes to go", f"{int(lag):,}"),
    ]
    return _table("What is read", ("", ""), rows)


def _found(now: Snapshot) -> list[str]:
    cost: Counter[str] = Counter()
    for (provider, model, operation), pico in now.counters.get("pi_cost_usd_total", {}).items():
        if operation != "tool":
            cost[f"{provider}/{model}"] += pico
    requests: Counter[str] = Counter()
    for (provider, model, _reason), n in now.counters.get("pi_requests_total", {}).items():
        requests[f"{provider}/{model}"] += n
    calls: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for (tool, outcome), n in now.counters.get("pi_tool_calls_total", {}).items():
        calls[tool] += n
        errors[tool] += n if outcome in {"error", "aborted"} else 0
    models = sorted(requests | cost, key=lambda name: (-cost[name], -requests[name], name))[:_SHOWN]
    return [
        _table(
            "Models: requests, and cost as reported by pi (without tools' own)",
            ("Model", "Requests", "Cost"),
            [(name, f"{requests[name]:,}", f"${cost[name] / PICO:,.4f}") for name in models],
        ),
        _table(
            "Tools",
            ("Tool", "Calls", "Errors"),
            [(name, f"{n:,}", f"{errors[name]:,}") for name, n in calls.most_common(_SHOWN)],
        ),
    ]


def _total(now: Snapshot, metric: str) -> int:
    return sum(now.counters.get(metric, {}).values())


def _table(caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head) if any(head) else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(printable(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{titles}</tr>{body}</table>"

"""The page at /: what is read, what is found, and where to go on. Nothing on it names a session, a path or a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from pimetrics import __version__
from pimetrics.names import PICO, printable
from pimetrics.snapshots import Snapshot
from pimetrics.web.style import STYLE

_SHOWN: Final = 20
"""Rows of a table; the rest is in /metrics."""

_NOTHING: Final = (
    '<p class="note"><strong>No request seen yet.</strong> Run pi and its work shows here, or let '
    "<code>pimetrics demo</code> play some. <code>pimetrics doctor</code> says where pi's files are looked for.</p>"
)

_AGAIN_SECONDS: Final = 2
"""How often the page is loaded again while history is read, and only then: a page that is read should stand still."""


def render(now: Snapshot) -> str:
    """Return the page as HTML."""
    state = "ready" if now.ready else "catching up"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            *([] if now.ready else [f'<meta http-equiv="refresh" content="{_AGAIN_SECONDS}">']),
            f"<title>pimetrics</title><style>{STYLE}</style></head><body>",
            f'<header><h1>pimetrics</h1><p class="state{"" if now.ready else " behind"}">{state}</p>',
            '<nav><a href="metrics">Metrics</a><a href="-/ready">Ready</a><a href="-/healthy">Healthy</a></nav>',
            "</header><main>",
            *(_found(now) if now.ready else [_behind(now)]),
            _reading(now),
            "</main>",
            f"<footer>Version {escape(__version__)}. What the pi coding agent does and costs, as pi reports it.",
            "Days, sessions and projects: <code>pimetrics report</code></footer></body></html>",
            "",
        ]
    )


def _behind(now: Snapshot) -> str:
    return (
        f'<p class="note"><strong>Reading history.</strong> {_size(_gauge(now, "pimetrics_source_lag_bytes"))} to go; '
        "totals show when all of it is read, so that history is never a ramp in a graph.</p>"
    )


class _Model(NamedTuple):
    """What one model did.

    Attributes:
        provider: Its provider.
        name: The model.
        requests: Assistant messages.
        tokens: All four kinds.
        pico: Cost in pico-dollars.
    """

    provider: str
    name: str
    requests: int
    tokens: int
    pico: int


def _models(now: Snapshot) -> list[_Model]:
    """Return what each model did, without what tools reported of their own; the dearest first."""
    cost: Counter[tuple[str, str]] = Counter()
    for (provider, model, operation), pico in now.counters.get("pi_cost_usd_total", {}).items():
        cost[provider, model] += pico if operation != "tool" else 0
    tokens: Counter[tuple[str, str]] = Counter()
    for (provider, model, operation, _kind), n in now.counters.get("pi_tokens_total", {}).items():
        tokens[provider, model] += n if operation != "tool" else 0
    requests: Counter[tuple[str, str]] = Counter()
    for (provider, model, _reason), n in now.counters.get("pi_requests_total", {}).items():
        requests[provider, model] += n
    made = [_Model(*key, requests[key], tokens[key], cost[key]) for key in {*cost, *tokens, *requests}]
    some = [model for model in made if model.requests or model.tokens or model.pico]
    return sorted(some, key=lambda each: (-each.pico, -each.requests, each.provider, each.name))


def _found(now: Snapshot) -> list[str]:
    models = _models(now)
    calls: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for (tool, outcome), n in now.counters.get("pi_tool_calls_total", {}).items():
        calls[tool] += n
        errors[tool] += n if outcome in {"error", "aborted"} else 0
    if not models and not calls:
        return [_NOTHING]
    dearest = max((model.pico for model in models), default=0)
    most = max(calls.values(), default=0)
    return [
        _tiles(now, models, calls, errors),
        _now(now),
        _table(
            "Models",
            ("Model", "Requests", "Tokens", "Cost"),
            [
                (
                    _name(each.name, each.provider) + _bar(each.pico, dearest),
                    f"{each.requests:,}",
                    f"{each.tokens:,}",
                    f"${each.pico / PICO:,.4f}",
                )
                for each in models
            ],
        ),
        _table(
            "Tools",
            ("Tool", "Calls", "Errors"),
            [(_name(tool) + _bar(n, most), f"{n:,}", f"{errors[tool]:,}") for tool, n in calls.most_common()],
        ),
    ]


def _tiles(now: Snapshot, models: list[_Model], calls: Counter[str], errors: Counter[str]) -> str:
    series = now.counters.get("pi_cost_usd_total", {}).items()
    by_tools = sum(pico for (_provider, _model, operation), pico in series if operation == "tool")
    prompts = _total(now, "pi_prompts_total")
    tiles = [
        (
            "Cost",
            _money(sum(model.pico for model in models)),
            f"and {_money(by_tools)} reported by tools (may repeat sub-agent sessions)" if by_tools else "",
        ),
        ("Requests", _short(sum(model.requests for model in models)), f"{prompts:,} prompts" if prompts else ""),
        ("Tokens", _short(sum(model.tokens for model in models)), "cached ones included"),
        ("Tool calls", _short(calls.total()), f"{errors.total():,} failed" if errors.total() else ""),
    ]
    return (
        '<dl class="tiles">'
        + "".join(
            f"<div><dt>{escape(title)}</dt><dd>{escape(value)}</dd>{f'<dd>{escape(more)}</dd>' if more else ''}</div>"
            for title, value, more in tiles
        )
        + "</dl>"
    )


def _now(now: Snapshot) -> str:
    """Say what goes on at this moment."""
    runs = int(_gauge(now, "pi_runs_active"))
    parts = [f"{runs:,} {'run' if runs == 1 else 'runs'} in progress"]
    tools = int(_gauge(now, "pi_tool_executions_in_progress"))
    if tools:
        parts.append(f"{tools:,} {'tool' if tools == 1 else 'tools'} running")
    queued = int(_gauge(now, "pi_queue_depth"))
    if queued:
        parts.append(f"{queued:,} queued")
    last = _gauge(now, "pi_last_event_timestamp_seconds")
    if 0 < last < datetime.max.replace(tzinfo=UTC).timestamp():
        parts.append(f"last event {datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M:%S} UTC")
    return f"<p>Now: {', '.join(parts)}.</p>"


def _reading(now: Snapshot) -> str:
    sources = {labels[0]: int(n) for labels, n in now.gauges.get("pimetrics_sources", {}).items() if n}
    rejects = _total(now, "pimetrics_rejects_total")
    rows = [(f"Sources {state}", f"{n:,}") for state, n in sorted(sources.items())]
    rows += [
        ("Records", f"{_total(now, 'pimetrics_records_total'):,}"),
        ("Read", _size(_total(now, "pimetrics_bytes_read_total"))),
        ("To go", _size(_gauge(now, "pimetrics_source_lag_bytes"))),
        ("Lines that gave no record", f"{rejects:,}"),
    ]
    table = _table("What is read", (), [(escape(name), value) for name, value in rows])
    return table + ("<p><code>pimetrics doctor</code> says which lines gave no record, and why.</p>" if rejects else "")


def _total(now: Snapshot, metric: str) -> int:
    return sum(now.counters.get(metric, {}).values())


def _gauge(now: Snapshot, metric: str) -> float:
    return sum(now.gauges.get(metric, {}).values())


def _name(name: str, provider: str = "") -> str:
    """Show names from outside: escaped, and each in its own direction, so that none can turn its neighbours round."""
    before = f'<span class="dim"><bdi>{_shown(provider)}</bdi>/</span>' if provider else ""
    return f"{before}<bdi>{_shown(name)}</bdi>"


def _shown(name: str) -> str:
    """Escape a name; one of spaces only would not be seen, so it stands in quotes."""
    return escape(printable(name if name.strip() else f'"{name}"'))


def _bar(part: int, whole: int) -> str:
    return f'<i class="bar" style="width:{part / whole:.1%}"></i>' if part > 0 and whole else ""


def _money(pico: int) -> str:
    return f"${pico / PICO:,.4f}" if pico < 10 * PICO else f"${pico / PICO:,.2f}"


def _short(n: int) -> str:
    """Return a count in at most seven figures."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if n >= size:
            return f"{n / size:,.2f} {unit}"
    return f"{n:,}"


def _size(n: float) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return f"{n / size:,.1f} {unit}"
    return f"{n:.0f} B"


def _table(caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Build a table; cells are HTML already."""
    if not rows:
        return ""
    titles = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    top = f"<thead><tr>{titles}</tr></thead>" if head else ""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows[:_SHOWN])
    left = len(rows) - _SHOWN
    more = f'<p class="dim">{left:,} more in <a href="metrics">the metrics</a>.</p>' if left > 0 else ""
    return f"<section><h2>{escape(caption)}</h2><table>{top}<tbody>{body}</tbody></table>{more}</section>"

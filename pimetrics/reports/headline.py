"""The first lines of a report: what it cost, what was done for it, what was wasted, what is missing."""

from __future__ import annotations

from typing import Any

from pimetrics.ledger.totals import pico
from pimetrics.names import MICRO
from pimetrics.reports import wording
from pimetrics.reports.views import Group

Line = tuple[str, str, str]
"""Title, text, style."""


def headline(summary: dict[str, Any], everything: Group) -> list[Line]:
    """Return the lines. The cost has two: what tools reported stands beside it, for it may repeat sub-agents.

    Args:
        summary: What `report --json` says.
        everything: All groups of a view, added.
    """
    lines: list[Line | None] = [("Cost as reported by pi", _headline_cost(everything), "bold")]
    by_tools = everything.by_tools
    if by_tools.rows:
        digits = wording.decimals([everything.headline_pico])
        reported = wording.money(by_tools.cost_pico, digits, no_price=by_tools.no_price).text
        lines.append(("Reported by tools", f"{reported} (may repeat sub-agent sessions)", ""))
    lines += [
        ("Tokens", _tokens(everything), ""),
        ("Work", _work(summary, everything), ""),
        _unfinished(summary),
        _waste(everything),
        _gaps(summary, everything),
    ]
    return [line for line in lines if line is not None]


def rejected(summary: dict[str, Any]) -> str:
    """Say that lines gave no record, and why; empty when all did."""
    lines = summary["rejects"]["total"]
    if not lines:
        return ""
    reasons = ", ".join(f"{n} {reason}" for reason, n in summary["rejects"]["by_reason"].items())
    return f"{_number(lines, 'line')} gave no record ({reasons}); pimetrics doctor says where"


def _headline_cost(group: Group) -> str:
    used = group.total_tokens > 0
    no_price = group.all.no_price - group.by_tools.no_price
    cost = wording.money(group.headline_pico, no_price=no_price, used=used).text
    if cost == "-":
        return "nothing was used"
    unpriced = f", {group.unpriced:,} of {group.counts['requests']:,} requests unpriced" if group.unpriced else ""
    return f"{cost.removesuffix('+')}{unpriced}"


def _tokens(group: Group) -> str:
    t = group.all.tokens
    parts = [
        f"{wording.compact(t[kind])} {title}"
        for kind, title in (
            ("input", "input"), ("output", "output"), ("cache_read", "cache read"), ("cache_write", "cache write")
        )
    ]  # fmt: skip
    hits = f"; cache hit rate {wording.share(group.cache_hit_rate).text}" if t["cache_read"] or t["cache_write"] else ""
    return f"{', '.join(parts)}{hits}"


def _work(summary: dict[str, Any], group: Group) -> str:
    numbers = (
        (summary["sessions"], "session"), (summary["prompts"], "prompt"), (summary["turns"], "turn"),
        (group.counts["tool_calls"], "tool call"), (group.counts["compactions"], "compaction"),
    )  # fmt: skip
    return ", ".join(_number(number, word) for number, word in numbers if number or word != "compaction")


def _number(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _unfinished(summary: dict[str, Any]) -> Line | None:
    left = summary["unfinished"]
    if not left["messages"]:
        return None
    tokens = sum(left["tokens"][kind] for kind in ("input", "output", "cache_read", "cache_write"))
    cost = f", {wording.usd(pico(left['cost_usd']))}" if left["cost_usd"] else ""
    said = f"that had reported {tokens:,} tokens{cost} (in no total)" if tokens else "before any usage was reported"
    return ("Unfinished", f"{_number(left['messages'], 'answer')} cut off {said}", "")


def _waste(group: Group) -> Line | None:
    if not group.counts["retries"]:
        return None
    wasted = group.wasted
    tokens = wasted.tokens["all"]
    if tokens:
        cost = wording.money(wasted.cost_pico, no_price=1).text.removesuffix("+")
        thrown = f"{cost} and {wording.compact(tokens)} tokens thrown away"
    else:
        thrown = "no tokens thrown away"
    waited = f", {wording.length(group.backoff / MICRO)} waited" if group.backoff else ""
    return ("Retries", f"{_number(group.counts['retries'], 'attempt')}: {thrown}{waited}", "")


def _gaps(summary: dict[str, Any], group: Group) -> Line | None:
    parts = []
    if without := summary["usage"]["without_usage"]:
        parts.append(f"{without:,} of {group.counts['requests']:,} requests without usage")
    if invalid := summary["usage"]["invalid_cost"]:
        parts.append(f"{invalid:,} impossible costs (not added)")
    return ("Missing", ", ".join(parts), "") if parts else None

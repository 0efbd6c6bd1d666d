"""The most expensive prompts and turns, with what they caused."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

from pimetrics import keys
from pimetrics.names import UNKNOWN
from pimetrics.reports.selection import Facts, Values, Zone, iso
from pimetrics.reports.views import Group
from pimetrics.rows import Part


@dataclass
class Work:
    """A prompt or a turn, and what it caused.

    Attributes:
        row: Its own columns; empty when only its consequences are known.
        part: Whose it is.
        group: Its spending, tools' usage included, and its counts.
        tools: Calls by tool.
        models: Requests by model.
        result_bytes: What its tools gave back to the model.
        tool_s: Time that its tools took, seconds (they may overlap).
    """

    row: Values = field(default_factory=dict)
    part: Part | None = None
    group: Group = field(default_factory=lambda: Group(()))
    tools: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    result_bytes: int = 0
    tool_s: float = 0.0

    def call(self, v: Values) -> None:
        """Add a tool call."""
        self.tools[v.get("tool") or UNKNOWN] += 1
        self.group.add_tool_call(v)
        self.result_bytes += v.get("result_bytes") or 0
        self.tool_s += v.get("duration_s") or 0

    def spend(self, v: Values) -> None:
        """Add a usage row."""
        self.group.add_usage(v)
        if v["operation"] == "turn" and v["settled"]:
            self.models[v.get("response_model") or v.get("model") or UNKNOWN] += 1

    def as_dict(self, name: str, row_id: str | None, zone: Zone) -> dict[str, Any]:
        """Return it as plain data; `name` is what its id is called."""
        return {
            name: row_id,
            "time": iso(self.row.get("time"), zone),
            "session_id": self.part.session_id if self.part else None,
            "project": self.part.cwd if self.part else None,
            "outcome": self.row.get("outcome"),
            "duration_s": self.row.get("duration_s"),
            "models": dict(sorted(self.models.items())),
            "tools": dict(sorted(self.tools.items())),
            "tool_result_bytes": self.result_bytes,
            "tool_duration_s": round(self.tool_s, 6),
            **self.group.as_dict(),
        }


def prompts(ledger: Facts, count: int, zone: Zone) -> list[dict[str, Any]]:
    """Return the prompts that cost most, the most expensive first; of equal cost, the one with more tokens.

    Work outside any prompt is one row without an id, if it is among them.
    """
    found: dict[str | None, Work] = {}
    for key, fact in ledger.facts("prompts"):
        found[keys.row_id("prompts", key)] = Work(fact.values, fact.owner)

    def work(v: Values, part: Part) -> Work:
        prompt_id = v.get("prompt_id")
        each = found.setdefault(prompt_id, Work())
        if each.part is None and prompt_id is not None:
            each.part = part
        return each

    for _, fact in ledger.facts("usage"):
        work(fact.values, fact.owner).spend(fact.values)
    for _, fact in ledger.facts("messages"):
        work(fact.values, fact.owner).group.add_message(fact.values)
    for _, fact in ledger.facts("tool_calls"):
        work(fact.values, fact.owner).call(fact.values)
    for _, fact in ledger.facts("retries"):
        work(fact.values, fact.owner).group.add_retry(fact.values)
    for table in ("turns", "compactions"):
        for _, fact in ledger.facts(table):
            work(fact.values, fact.owner).group.counts[table] += 1
    return [each.as_dict("prompt_id", prompt_id, zone) for prompt_id, each in _dearest(found, count)]


def turns(ledger: Facts, count: int, zone: Zone) -> list[dict[str, Any]]:
    """Return the turns that cost most: an answer and what its tools reported and gave back."""
    found: dict[str | None, Work] = {}
    for key, fact in ledger.facts("turns"):
        found[keys.row_id("turns", key)] = Work(fact.values, fact.owner)
    for key, fact in ledger.facts("usage"):
        v = fact.values
        if v["operation"] == "turn":
            turn_id: str | None = keys.row_id("turns", key)  # an answer, its usage and its turn share their key
        elif v["operation"] == "tool":
            turn_id = v.get("turn_id")
        else:
            continue
        each = found.get(turn_id)
        if each is None:
            if turn_id is None:
                continue
            each = found[turn_id] = Work({"time": v.get("time")}, fact.owner)
        each.spend(v)
    for _, fact in ledger.facts("tool_calls"):
        each = found.get(fact.values.get("turn_id"))
        if each is not None:
            each.call(fact.values)
    return [each.as_dict("turn_id", turn_id, zone) for turn_id, each in _dearest(found, count)]


def _dearest(found: dict[str | None, Work], count: int) -> list[tuple[str | None, Work]]:
    def rank(item: tuple[str | None, Work]) -> tuple[Any, ...]:
        group = item[1].group
        return (-group.all.cost_pico, -group.total_tokens, item[1].row.get("time") or 0, item[0] or "")

    spent = (item for item in found.items() if item[1].group.all.rows)
    return nsmallest(count, spent, key=rank)

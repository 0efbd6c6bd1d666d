"""What the example archive holds, counted while it is written, without any code of pimetrics.

Money is whole nano-dollars (prices are whole nano-dollars a token), time whole milliseconds: sums are exact.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.bench.parts import Model

TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
WIRE = ("input", "output", "cacheRead", "cacheWrite")


class Spent(NamedTuple):
    """What one piece of work used; `reasoning` is inside `output`, and 0 where pi does not tell it apart."""

    model: Model
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def context(self) -> int:
        """Tokens that were sent, cached ones included."""
        return self.input + self.cache_read + self.cache_write

    @property
    def nano(self) -> int:
        """Cost, nano-dollars."""
        return sum(count * price for count, price in zip(self[1:5], self.model.prices, strict=True))

    def wire(self, *, reasoning: bool, flagged: bool) -> dict[str, Any]:
        """The `usage` object of pi.

        Args:
            reasoning: Whether this pi tells reasoning apart (from 0.80.3).
            flagged: Whether this pi says where the total comes from (from 1.5).
        """
        costs = [count * price / 1e9 for count, price in zip(self[1:5], self.model.prices, strict=True)]
        cost: dict[str, Any] = dict(zip(WIRE, costs, strict=True)) | {"total": self.nano / 1e9}
        if flagged:
            cost["totalFromProvider"] = False
        more = {"reasoning": self.reasoning} if reasoning else {}
        return dict(zip(WIRE, self[1:5], strict=True)) | more | {"totalTokens": sum(self[1:5]), "cost": cost}


@dataclass
class Sum:
    """Tokens, cost and number of usage objects."""

    rows: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    nano: int = 0

    def add(self, spent: Spent) -> None:
        """Add one."""
        self.rows += 1
        self.tokens.update(dict(zip(TOKENS, spent[1:], strict=True)))
        self.nano += spent.nano

    def join(self, other: Sum) -> None:
        """Add all of another."""
        self.rows += other.rows
        self.tokens.update(other.tokens)
        self.nano += other.nano

    def as_json(self) -> dict[str, Any]:
        """As an object of numbers; the cost is exact in `cost_nano_usd`."""
        tokens = {name: self.tokens[name] for name in TOKENS}
        return {"rows": self.rows, "tokens": tokens, "cost_nano_usd": self.nano}


@dataclass
class Books:
    """Totals over the archive; each piece of work once, however many files hold it."""

    operations: dict[str, Sum] = field(default_factory=dict)
    models: dict[tuple[str, str], Sum] = field(default_factory=dict)
    unfinished: Sum = field(default_factory=Sum)
    abandoned: Sum = field(default_factory=Sum)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    prompts: int = 0
    turns: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    tools: Counter[tuple[str, str]] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    backoff_ms: int = 0
    discarded: Sum = field(default_factory=Sum)
    compactions: Counter[tuple[str, str]] = field(default_factory=Counter)
    copied: Sum = field(default_factory=Sum)

    def spend(self, operation: str, spent: Spent, model: Model) -> None:
        """Enter a usage object under the model in force: the wire does not say which model a tool asked."""
        self.operations.setdefault(operation, Sum()).add(spent)
        self.models.setdefault((model.provider, model.name), Sum()).add(spent)

    def as_json(self) -> dict[str, Any]:
        """As one object, for `totals.json`."""
        everything = Sum()
        for each in self.operations.values():
            everything.join(each)
        return {
            "usage": everything.as_json(),
            "by_operation": {name: each.as_json() for name, each in sorted(self.operations.items())},
            "by_model": {"/".join(name): each.as_json() for name, each in sorted(self.models.items())},
            "unfinished": self.unfinished.as_json(),
            "abandoned": self.abandoned.as_json(),
            "copied_by_forks": self.copied.as_json(),
            "prompts": self.prompts,
            "turns": self.turns,
            "runs": dict(sorted(self.runs.items())),
            "stop_reasons": dict(sorted(self.stops.items())),
            "tools": {f"{tool}/{outcome}": count for (tool, outcome), count in sorted(self.tools.items())},
            "retries": dict(sorted(self.retries.items())),
            "retried_errors": dict(sorted(self.errors.items())),
            "backoff_ms": self.backoff_ms,
            "discarded": self.discarded.as_json(),
            "compactions": {f"{why}/{outcome}": n for (why, outcome), n in sorted(self.compactions.items())},
            "sessions": dict(sorted(self.sessions.items())),
        }

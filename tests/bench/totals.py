"""The exact totals of what was generated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Totals:
    """What a reader must find, exactly. Costs are nano-dollars, durations ms."""

    dialect: str
    bytes: int = 0
    types: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    prompts: int = 0
    runs: int = 0
    turns: int = 0
    requests: int = 0
    stop_reasons: Counter[str] = field(default_factory=Counter)
    models: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    compaction_usage: Counter[str] = field(default_factory=Counter)
    tools: dict[str, Counter[str]] = field(default_factory=dict)
    retries: Counter[str] = field(default_factory=Counter)
    compactions: Counter[str] = field(default_factory=Counter)

    @property
    def records(self) -> int:
        """Lines."""
        return self.types.total()

    @property
    def usage(self) -> Counter[str]:
        """Tokens by kind and `cost_nano`, of messages and compactions together."""
        total: Counter[str] = Counter(self.compaction_usage)
        for counts in self.models.values():
            total.update(counts)
        return total

    @property
    def cost_nano(self) -> int:
        """The bill."""
        return self.usage["cost_nano"]

    def as_json(self) -> dict[str, Any]:
        """A JSON object of everything."""
        return {
            "dialect": self.dialect, "bytes": self.bytes, "records": self.records, "types": dict(self.types),
            "sessions": self.sessions, "prompts": self.prompts, "runs": self.runs, "turns": self.turns,
            "requests": self.requests, "stop_reasons": dict(self.stop_reasons), "usage": dict(self.usage),
            "models": [{"provider": p, "model": m, **counts} for (p, m), counts in sorted(self.models.items())],
            "compaction_usage": dict(self.compaction_usage), "tools": {k: dict(v) for k, v in sorted(self.tools.items())},
            "retries": dict(self.retries), "compactions": dict(self.compactions),
        }  # fmt: skip

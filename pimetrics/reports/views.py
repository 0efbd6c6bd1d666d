"""Facts to groups: what was done and spent by day, week, month, model, provider, session, project, operation.

Pure functions over facts; money is added as integers, as everywhere. The groups of a view hold every fact: what has no
time, no session or no project is a group of its own (its label is None), so each view adds up to the same totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pimetrics.ledger.totals import MEASURED, is_unpriced, is_without_usage, micro, pico
from pimetrics.names import MICRO, UNKNOWN
from pimetrics.reports.selection import Facts, Values, Zone, iso
from pimetrics.reports.summary import Spend, spread
from pimetrics.rows import Part

Label = tuple[Any, ...]
KeyOf = Callable[[Values, Part], Label]

COUNTS: Final = (
    "requests", "errors", "aborted", "without_usage", "prompts", "turns", "tool_calls", "tool_errors", "retries",
    "compactions",
)  # fmt: skip
"""What a group counts besides spending. Requests are answers, whatever became of them; errors and aborted are those
that ended so."""


@dataclass
class Group:
    """What one label of a view holds.

    Attributes:
        label: Its name, or names (a model has its provider).
        all: Settled usage of every operation.
        by_tools: Of it, what tools reported; it may repeat sub-agent sessions.
        unfinished: What cut-off answers had reported; in no other sum.
        wasted: Answers that were thrown away and tried again; part of `all`.
        unpriced: Requests with tokens and a cost of 0.
        backoff: Announced waits before retries, microseconds.
        sessions: Those that took part, by (id, cwd).
    """

    label: Label
    all: Spend = field(default_factory=Spend)
    by_tools: Spend = field(default_factory=Spend)
    unfinished: Spend = field(default_factory=Spend)
    wasted: Spend = field(default_factory=Spend)
    counts: Counter[str] = field(default_factory=Counter)
    unpriced: int = 0
    backoff: int = 0
    sessions: set[tuple[str | None, str | None]] = field(default_factory=set)

    def add_usage(self, v: Values) -> None:
        """Add a usage row."""
        if not v["settled"]:
            self.unfinished.add(v)
            return
        self.all.add(v)
        if v["operation"] == "tool":
            self.by_tools.add(v)
        self.unpriced += is_unpriced(v)

    def add_message(self, v: Values) -> None:
        """Count a message, if it is an answer."""
        if v["role"] != "assistant" or not v["settled"]:
            return
        counts = self.counts
        counts["requests"] += 1
        counts["errors"] += v.get("stop_reason") == "error"
        counts["aborted"] += v.get("stop_reason") == "aborted"
        counts["without_usage"] += is_without_usage(v)

    def add_tool_call(self, v: Values) -> None:
        """Count a tool call."""
        self.counts["tool_calls"] += 1
        self.counts["tool_errors"] += v["outcome"] in {"error", "aborted"}

    def add_retry(self, v: Values) -> None:
        """Count an attempt, and what it threw away."""
        self.counts["retries"] += 1
        self.backoff += micro(v.get("delay_s") or 0)
        if v["scope"] == "turn" and v.get("discarded_tokens") is not None:
            self.wasted.rows += 1
            self.wasted.tokens["all"] += v["discarded_tokens"]
            self.wasted.cost_pico += pico(v.get("discarded_cost_usd") or 0)

    def join(self, other: Group) -> None:
        """Add another group."""
        for mine, theirs in (
            (self.all, other.all),
            (self.by_tools, other.by_tools),
            (self.unfinished, other.unfinished),
            (self.wasted, other.wasted),
        ):
            mine.join(theirs)
        self.counts.update(other.counts)
        self.unpriced += other.unpriced
        self.backoff += other.backoff
        self.sessions |= other.sessions

    @property
    def headline_pico(self) -> int:
        """Cost without what tools reported, pico-dollars."""
        return self.all.cost_pico - self.by_tools.cost_pico

    @property
    def total_tokens(self) -> int:
        """The four kinds of all operations, added."""
        return total_tokens(self.all)

    @property
    def cache_hit_rate(self) -> float | None:
        """Share of the context that was read from the cache, 0 to 1; None without context."""
        return cache_hit_rate(self.all)

    def as_dict(self, counts: Iterable[str] = COUNTS) -> dict[str, Any]:
        """Return it as plain data, without its label."""
        return {
            **{name: len(self.sessions) if name == "sessions" else self.counts[name] for name in counts},
            "usage_rows": self.all.rows,
            "tokens": self.all.token_counts(),
            "total_tokens": self.total_tokens,
            "cost_usd": self.all.cost_usd,
            "reported_by_tools": {
                "usage_rows": self.by_tools.rows,
                "tokens": self.by_tools.token_counts(),
                "cost_usd": self.by_tools.cost_usd,
            },
            "unpriced": self.unpriced,
            "no_price": self.all.no_price,
            "cache_hit_rate": self.cache_hit_rate,
            "retry_waste": {
                "answers": self.wasted.rows,
                "tokens": self.wasted.tokens["all"],
                "cost_usd": self.wasted.cost_usd,
                "backoff_s": self.backoff / MICRO,
            },
            "unfinished": {"tokens": self.unfinished.token_counts(), "cost_usd": self.unfinished.cost_usd},
        }


def total_tokens(spend: Spend) -> int:
    """Add the four kinds; reasoning and one-hour writes are inside them."""
    return sum(spend.tokens[kind] for kind in ("input", "output", "cache_read", "cache_write"))


def cache_hit_rate(spend: Spend) -> float | None:
    """Return the share of the context that was read from the cache, 0 to 1; None without context."""
    t = spend.tokens
    context = t["input"] + t["cache_read"] + t["cache_write"]
    return t["cache_read"] / context if context else None


def _model(v: Values) -> Label:
    return v.get("provider") or UNKNOWN, v.get("response_model") or v.get("model") or UNKNOWN


_QUARTER_MS: Final = 900_000
"""Every zone of today is off UTC by whole quarters of an hour and changes at whole quarters, so all instants of a
quarter have one local date; looking it up once for each saves most of the time of a view."""


def _local(to_label: Callable[[datetime], str]) -> Callable[[Zone], KeyOf]:
    """Return a maker of functions that label a fact by its local time."""

    def key(zone: Zone) -> KeyOf:
        known: dict[int, Label] = {}

        def label_of(v: Values, _: Part) -> Label:
            time = v.get("time")
            if time is None:
                return (None,)
            label = known.get(time // _QUARTER_MS)
            if label is None:
                label = known[time // _QUARTER_MS] = (to_label(zone.local(time)),)
            return label

        return label_of

    return key


def _week(when: datetime) -> str:
    year, number, _ = when.isocalendar()
    return f"{year}-W{number:02}"


@dataclass(frozen=True)
class View:
    """A way to group facts.

    Attributes:
        names: What its labels are called, in JSON and CSV.
        key: Makes the function that gives the label of a fact.
        by_time: Its groups are in the order of time; the others begin with the most expensive.
        tables: Which facts have such a label.
        counts: Which of `COUNTS` follow from them.
    """

    names: tuple[str, ...]
    key: Callable[[Zone], KeyOf]
    by_time: bool = False
    tables: tuple[str, ...] = ("usage", "messages", "prompts", "turns", "tool_calls", "retries", "compactions")
    counts: tuple[str, ...] = ("sessions", *COUNTS)


_OF_MODELS: Final = ("usage", "messages")
_COUNTS_OF_MODELS: Final = ("requests", "errors", "aborted", "without_usage", "retries")

VIEWS: Final[dict[str, View]] = {
    "day": View(("day",), _local(lambda when: when.date().isoformat()), by_time=True),
    "week": View(("week",), _local(_week), by_time=True),
    "month": View(("month",), _local(lambda when: when.date().isoformat()[:7]), by_time=True),
    "model": View(("provider", "model"), lambda _: lambda v, _: _model(v), tables=_OF_MODELS, counts=_COUNTS_OF_MODELS),
    "provider": View(("provider",), lambda _: lambda v, _: _model(v)[:1], tables=_OF_MODELS, counts=_COUNTS_OF_MODELS),
    "session": View(("session_id", "project"), lambda _: lambda _, part: (part.session_id, part.cwd)),
    "project": View(("project",), lambda _: lambda _, part: (part.cwd,)),
    "operation": View(("operation",), lambda _: lambda v, _: (v["operation"],), tables=("usage",), counts=()),
}


def groups(ledger: Facts, view: View, zone: Zone) -> list[Group]:
    """Return the groups of a view: in the order of time, or the most expensive first; what has no label last."""
    found: dict[Label, Group] = {}
    key_of = view.key(zone)
    for table in view.tables:
        count = _COUNTERS[table]
        for _, fact in ledger.facts(table):
            v = fact.values
            label = key_of(v, fact.owner)
            group = found.get(label)
            if group is None:
                group = found[label] = Group(label)
            group.sessions.add((fact.owner.session_id, fact.owner.cwd))
            count(group, v)
    if view is VIEWS["session"]:  # one in which nothing was done yet is a session, too
        for _, fact in ledger.facts("sessions"):
            label = key_of(fact.values, fact.owner)
            found.setdefault(label, Group(label))
        kept = list(found.values())
    else:
        kept = [g for g in found.values() if g.all.rows or g.unfinished.rows or any(g.counts.values())]
    if "retries" in view.counts and "retries" not in view.tables:
        for _, fact in ledger.facts("retries"):
            group = found.get(key_of(fact.values, fact.owner))
            if group is not None and fact.values.get("provider") is not None:
                group.add_retry(fact.values)
    return sorted(kept, key=_by_time if view.by_time else _by_cost)


def _named(label: Label) -> tuple[tuple[bool, str], ...]:
    return tuple((part is None, str(part or "")) for part in label)


def _by_time(group: Group) -> tuple[Any, ...]:
    return _named(group.label)


def _by_cost(group: Group) -> tuple[Any, ...]:
    return (group.label[0] is None, -group.all.cost_pico, -group.total_tokens, _named(group.label))


def _one(name: str) -> Callable[[Group, Values], None]:
    def count(group: Group, _v: Values) -> None:
        group.counts[name] += 1

    return count


_COUNTERS: Final[dict[str, Callable[[Group, Values], None]]] = {
    "usage": Group.add_usage,
    "messages": Group.add_message,
    "prompts": _one("prompts"),
    "turns": _one("turns"),
    "tool_calls": Group.add_tool_call,
    "retries": Group.add_retry,
    "compactions": _one("compactions"),
}


def total(found: Iterable[Group]) -> Group:
    """Add groups up."""
    result = Group(())
    for group in found:
        result.join(group)
    return result


def tools(ledger: Facts) -> list[dict[str, Any]]:
    """Return what each tool did: most calls first. Times are measured ones, else those of session entries."""
    calls: dict[str, list[Values]] = {}
    spent: dict[str, Group] = {}
    for _, fact in ledger.facts("tool_calls"):
        calls.setdefault(fact.values.get("tool") or UNKNOWN, []).append(fact.values)
    for _, fact in ledger.facts("usage"):
        v = fact.values
        if v["operation"] == "tool":
            spent.setdefault(v.get("tool") or UNKNOWN, Group(())).add_usage(v)
    rows = [tool_row(tool, calls.get(tool, []), spent.get(tool, Group(()))) for tool in calls.keys() | spent.keys()]
    return sorted(rows, key=lambda row: (-row["calls"], row["tool"]))


def tool_row(tool: str, found: list[Values], spent: Group) -> dict[str, Any]:
    """Return what one tool did, from its calls and from the usage that it reported."""
    ends = Counter(v["outcome"] for v in found)
    measured = [v["duration_s"] for v in found if v.get("duration_source") in MEASURED]
    by_entry = [v["duration_s"] for v in found if v.get("duration_source") == "entry"]
    return {
        "tool": tool,
        "calls": len(found),
        **{end: ends[end] for end in ("ok", "error", "aborted", "unfinished")},
        "duration_source": "measured" if measured else "entry" if by_entry else None,
        "duration_s": spread(measured or by_entry),
        "args_bytes": sum(v.get("args_bytes") or 0 for v in found),
        "result_bytes": sum(v.get("result_bytes") or 0 for v in found),
        "reported_by_tools": {
            "usage_rows": spent.all.rows,
            "tokens": spent.all.token_counts(),
            "cost_usd": spent.all.cost_usd,
            "no_price": spent.all.no_price,
        },
    }


def errors(ledger: Facts) -> list[dict[str, Any]]:
    """Return errors by class: answers that ended so, what they had cost, and the retries that they caused."""
    found: dict[str, Group] = {}

    def group(kind: str) -> Group:
        return found.setdefault(kind, Group((kind,)))

    for table, add in (("messages", Group.add_message), ("usage", Group.add_usage)):
        for _, fact in ledger.facts(table):
            v = fact.values
            if v["settled"] and v.get("stop_reason") in _FAILED:
                add(group(_class(v)), v)
    for _, fact in ledger.facts("retries"):
        group(fact.values.get("error_type") or UNKNOWN).add_retry(fact.values)
    rows = [error_row(each) for each in found.values()]
    return sorted(rows, key=lambda row: (-row["answers"], -row["retries"], row["error"]))


def error_row(group: Group) -> dict[str, Any]:
    """Return one class of errors as plain data."""
    return {
        "error": group.label[0],
        "answers": group.counts["requests"],
        "tokens": group.total_tokens,
        "cost_usd": group.all.cost_usd,
        "no_price": group.all.no_price,
        "retries": group.counts["retries"],
        "backoff_s": group.backoff / MICRO,
    }


_FAILED: Final = frozenset({"error", "aborted"})


def _class(v: Values) -> str:
    if v.get("stop_reason") == "aborted":
        return "aborted"
    return v.get("error_type") or UNKNOWN


def compactions(ledger: Facts, zone: Zone) -> list[dict[str, Any]]:
    """Return every compaction with its context before and after and its cost, in the order of time."""
    found = []
    for _, fact in ledger.facts("compactions"):
        v = fact.values
        order = (v.get("time") is None, v.get("time") or 0, fact.source, v.get("tokens_before") or 0)
        found.append((order, compaction_row(v, fact.owner, zone)))
    return [row for _, row in sorted(found, key=lambda each: each[0])]


def compaction_row(v: Values, part: Part, zone: Zone) -> dict[str, Any]:
    """Return one compaction as plain data; `no_price` is 1 when its summary has a cost of 0, which is not free."""
    return {
        "time": iso(v.get("time"), zone),
        "session_id": part.session_id,
        "project": part.cwd,
        "reason": v.get("reason") or UNKNOWN,
        "outcome": v.get("outcome"),
        "tokens_before": v.get("tokens_before"),
        "tokens_after": v.get("tokens_after"),
        "duration_s": v.get("duration_s"),
        "cost_usd": v.get("cost_usd"),
        "no_price": int(v.get("cost_usd") == 0),
    }

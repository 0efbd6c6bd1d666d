"""Facts to counters: running totals as exact integers.

A counter moves at most once per fact and metric, when that metric's own columns are first final. Each `Tally` names a
bit of the fact's `counted` mask, tells from the row's columns whether it is final, and what it then moves. A better
value that comes later changes the table, not the counter; it counts as a late revision.

Integers inside, floats only in exposition: tokens as they are, money in pico-dollars, time in microseconds. So totals
are exact, and the order in which facts come cannot change a bit of them. (Doubles added in another order differ by
1e-13, and PromQL takes a counter that falls by that for a reset and books the whole history again: measured.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from pimetrics.names import (
    COMPACTION_REASONS,
    ERROR_TYPES,
    FLEET_LABELS,
    FLEET_SERIES_CAP,
    HISTOGRAM,
    LABEL_CAP,
    METRICS,
    MICRO,
    OPEN_LABELS,
    OTHER,
    PICO,
    STOP_REASONS,
    UNKNOWN,
    label_value,
)
from pimetrics.rows import Part

Values = dict[str, Any]
Labels = tuple[str, ...]
Move = tuple[str, Labels, int]
"""(metric, label values, amount in internal units); a histogram observes the amount."""

MEASURED: Final = frozenset({"reported", "arrival"})
"""Where a duration must come from to be observed; entry times include work that is not the call's."""


GAVE_WAY: Final = 1 << 30
"""Mask of a cut-off fact whose settled twin is known: it counts for nothing."""


class Histogram:
    """Counts by bucket (not cumulative) and the exact sum, in internal units."""

    __slots__ = ("counts", "total")

    def __init__(self, size: int) -> None:
        self.counts = [0] * (size + 1)
        self.total = 0


class Tally(NamedTuple):
    """One way in which facts of a table move metrics."""

    bit: int
    final: Callable[[Values], bool]
    moves: Callable[[Values], Iterator[Move]]


class Totals:
    """The totals of a ledger.

    Attributes:
        counters: (metric, label values) to amount in internal units.
        histograms: The same for histograms.
        late: Late revisions by table.
        admitted: Values of each open label that have become series: first come, never revoked.
        overflow: Values folded into `other`, by label.
        moved: Series that have moved; whoever writes or shows totals takes them from here and clears it.
        newly_admitted: (label, value) pairs in the same way.
        births: When new series were first exposed (see `sinks.births`), kept here to be stored with the rest.
        newly_born: Those of them that are not stored yet.
        exemplars: (metric, label values) to bucket to (session id, amount), the latest of each; not stored.
        deliverer: Tells of the name of a source who delivered it (team, repo, host); None keeps no metrics of that.
    """

    def __init__(self) -> None:
        self.counters: dict[tuple[str, Labels], int] = {}
        self.histograms: dict[tuple[str, Labels], Histogram] = {}
        self.late: dict[str, int] = {}
        self.admitted: dict[str, set[str]] = {name: set() for name in OPEN_LABELS}
        self.overflow: dict[str, int] = dict.fromkeys(OPEN_LABELS, 0)
        self.moved: set[tuple[str, Labels]] = set()
        self.newly_admitted: set[tuple[str, str]] = set()
        self.births: dict[tuple[str, Labels], float] = {}
        self.newly_born: set[tuple[str, Labels]] = set()
        self.exemplars: dict[tuple[str, Labels], dict[int, tuple[str, int]]] = {}
        self.deliverer: Callable[[str], Labels] | None = None
        self._fleet: set[Labels] = set()
        self._folded: dict[str, set[str]] = {name: set() for name in OPEN_LABELS}

    def count(self, table: str, values: Values, counted: int, *, silent: bool = False, part: Part | None = None) -> int:
        """Move what has become final and was not counted; return the new mask.

        Args:
            table: Table of the fact.
            values: Its columns.
            counted: Its mask.
            silent: Take it as counted, and move nothing.
            part: Where it was seen: the session for exemplars, and the source that tells who delivered it.
        """
        if counted == GAVE_WAY:
            return counted
        for bit, final, moves in TALLIES.get(table, ()):
            if not counted & bit and final(values):
                counted |= bit
                if silent:
                    continue
                for metric, labels, amount in moves(values):
                    self.move(metric, labels, amount, None if part is None else part.session_id)
                    if self.deliverer is not None and part is not None and metric in FLEET:
                        self._deliver(metric, labels, amount, self.deliverer(part.source))
        return counted

    def _deliver(self, metric: str, labels: Labels, amount: int, who: Labels) -> None:
        """Count the same by who delivered it: whatever moves the one moves the other, so their sums agree."""
        who = tuple(self.admit(name, value) if value else "" for name, value in zip(FLEET_LABELS, who, strict=True))
        if not self._fleet:
            names = len(FLEET_LABELS)
            self._fleet.update(labels[:names] for name, labels in self.counters if name in FLEET.values())
        if who not in self._fleet and len(self._fleet) >= FLEET_SERIES_CAP:
            who = tuple(value and OTHER for value in who)
        self._fleet.add(who)
        mirror = FLEET[metric]
        self.move(mirror, (*who, *labels[-1:]) if METRICS[mirror].closed else who, amount)

    @staticmethod
    def counted_moves(table: str, values: Values, counted: int) -> list[Move]:
        """Return what the counted bits would move now, to tell whether a change is a late revision."""
        return [m for bit, _, moves in TALLIES.get(table, ()) if counted & bit for m in moves(values)]

    def revise(self, table: str) -> None:
        """Count a change that came after its counter had moved."""
        self.late[table] = self.late.get(table, 0) + 1

    def born(self, births: dict[tuple[str, Labels], float]) -> None:
        """Keep when series were first exposed."""
        self.births.update(births)
        self.newly_born.update(births)

    def move(self, metric: str, labels: Labels, amount: int, session_id: str | None = None) -> None:
        """Add to a counter or observe in a histogram."""
        family = METRICS[metric]
        key = (metric, self._admitted(metric, labels))
        self.moved.add(key)
        if family.kind == HISTOGRAM:
            found = self.histograms.get(key)
            if found is None:
                found = self.histograms[key] = Histogram(len(family.buckets))
            bucket = bisect_left(_BOUNDS[metric], amount)
            found.counts[bucket] += 1
            found.total += amount
            if session_id is not None:
                self.exemplars.setdefault(key, {})[bucket] = (session_id, amount)
        else:
            self.counters[key] = self.counters.get(key, 0) + amount

    def _admitted(self, metric: str, labels: Labels) -> Labels:
        return tuple(
            self.admit(name, value) if name in self.admitted and value else value
            for name, value in zip(METRICS[metric].labels, labels, strict=True)
        )

    def admit(self, label: str, value: str) -> str:
        """Return the value that an open label shows for a name: itself, or `other` when there are too many."""
        admitted = self.admitted[label]
        if value in admitted or value in (OTHER, UNKNOWN):
            return value
        if len(admitted) < LABEL_CAP:
            admitted.add(value)
            self.newly_admitted.add((label, value))
            return value
        if value not in self._folded[label] and len(self._folded[label]) < 10 * LABEL_CAP:
            self._folded[label].add(value)
            self.overflow[label] += 1
        return OTHER


_BOUNDS: Final = {
    name: [round(bound * family.scale) for bound in family.buckets]
    for name, family in METRICS.items()
    if family.kind == HISTOGRAM
}


FLEET: Final = {
    "pi_tokens_total": "pi_fleet_tokens_total",
    "pi_cost_usd_total": "pi_fleet_cost_usd_total",
    "pi_requests_total": "pi_fleet_requests_total",
    "pi_sessions_total": "pi_fleet_sessions_total",
}
"""What is also counted by who delivered it; of the labels the closed last one stays."""


def pico(usd: float) -> int:
    """Return USD as pico-dollars."""
    return round(usd * PICO)


def micro(length_s: float) -> int:
    """Return seconds as microseconds."""
    return round(length_s * MICRO)


def _provider_model(v: Values) -> tuple[str, str]:
    return label_value(v.get("provider")), label_value(v.get("response_model") or v.get("model"))


def _closed(value: str | None, allowed: tuple[str, ...]) -> str:
    return UNKNOWN if value is None else value if value in allowed else OTHER


def _settled(v: Values) -> bool:
    return v.get("settled") is True


def _is_answer(v: Values) -> bool:
    return v.get("settled") is True and v.get("role") == "assistant"


def _is_turn(v: Values) -> bool:
    return v.get("settled") is True and v.get("operation") == "turn"


def is_unpriced(v: Values) -> bool:
    """Whether a usage row has tokens and a cost of 0: no price is known."""
    return v.get("operation") == "turn" and v.get("cost_usd") == 0 and any(v.get(f"{t}_tokens") for t in _TOKEN_TYPES)


def is_without_usage(v: Values) -> bool:
    """Whether a message is an answer for which the provider reported no tokens."""
    return _is_answer(v) and not v.get("total_tokens") and v.get("stop_reason") not in {"error", "aborted"}


_TOKEN_TYPES: Final = ("input", "output", "cache_read", "cache_write")


def _spent(v: Values) -> Iterator[Move]:
    pm = _provider_model(v)
    operation = v["operation"]
    for kind in _TOKEN_TYPES:
        if amount := v.get(f"{kind}_tokens"):
            yield "pi_tokens_total", (*pm, operation, kind), amount
    if amount := v.get("reasoning_tokens"):
        yield "pi_reasoning_tokens_total", pm, amount
    if amount := v.get("cache_write_1h_tokens"):
        yield "pi_cache_write_1h_tokens_total", pm, amount
    if (cost := v.get("cost_usd")) is not None:
        yield "pi_cost_usd_total", (*pm, operation), pico(cost)
    if is_unpriced(v):
        yield "pi_unpriced_requests_total", pm, 1
    if operation == "turn" and any(v.get(f"{t}_tokens") for t in _TOKEN_TYPES):
        context = sum(v.get(f"{t}_tokens") or 0 for t in ("input", "cache_read", "cache_write"))
        yield "pi_request_context_tokens", pm, context


def _requested(v: Values) -> Iterator[Move]:
    pm = _provider_model(v)
    yield "pi_requests_total", (*pm, _closed(v.get("stop_reason"), STOP_REASONS)), 1
    if is_without_usage(v):
        yield "pi_requests_without_usage_total", pm, 1


def _request_took(v: Values) -> Iterator[Move]:
    pm = _provider_model(v)
    yield "pi_request_duration_seconds", pm, micro(v["duration_s"])
    yield "pi_timed_output_tokens_total", pm, v.get("output_tokens") or 0


def _first_token(v: Values) -> Iterator[Move]:
    yield "pi_time_to_first_token_seconds", _provider_model(v), micro(v["time_to_first_token_s"])


def _called(v: Values) -> Iterator[Move]:
    yield "pi_tool_calls_total", (label_value(v.get("tool")), v["outcome"]), 1


def _call_took(v: Values) -> Iterator[Move]:
    yield "pi_tool_execution_duration_seconds", (label_value(v.get("tool")),), micro(v["duration_s"])


def _retried(v: Values) -> Iterator[Move]:
    scope = v["scope"]
    yield "pi_retries_total", (scope, _closed(v.get("error_type"), ERROR_TYPES)), 1
    if delay := v.get("delay_s"):
        yield "pi_retry_backoff_seconds_total", (scope,), micro(delay)
    if scope == "turn" and v.get("provider") is not None:
        yield "pi_retry_discarded_tokens_total", _provider_model(v), v.get("discarded_tokens") or 0
        yield "pi_retry_discarded_cost_usd_total", _provider_model(v), pico(v.get("discarded_cost_usd") or 0)


def _retries_ended(v: Values) -> Iterator[Move]:
    yield "pi_retry_sequences_total", (v["scope"], v["outcome"]), 1


def _compacted(v: Values) -> Iterator[Move]:
    reason = _closed(v.get("reason"), COMPACTION_REASONS)
    reason = UNKNOWN if reason == OTHER else reason
    yield "pi_compactions_total", (reason, v["outcome"]), 1


def _before(v: Values) -> Iterator[Move]:
    reason = _closed(v.get("reason"), COMPACTION_REASONS)
    yield "pi_compaction_before_tokens", (UNKNOWN if reason == OTHER else reason,), v["tokens_before"]


def _removed(v: Values) -> Iterator[Move]:
    reason = _closed(v.get("reason"), COMPACTION_REASONS)
    taken = v["tokens_before"] - v["tokens_after"]
    if taken > 0:
        yield "pi_compaction_removed_tokens_total", (UNKNOWN if reason == OTHER else reason,), taken


def _compaction_took(v: Values) -> Iterator[Move]:
    reason = _closed(v.get("reason"), COMPACTION_REASONS)
    yield "pi_compaction_duration_seconds", (UNKNOWN if reason == OTHER else reason,), micro(v["duration_s"])


def _work(metric: str) -> Callable[[Values], Iterator[Move]]:
    def moves(v: Values) -> Iterator[Move]:
        yield metric, (v.get("outcome") or UNKNOWN,), 1

    return moves


def _prompt_took(v: Values) -> Iterator[Move]:
    yield "pi_prompt_duration_seconds", (v.get("outcome") or UNKNOWN,), micro(v["duration_s"])


def _missing(table: str) -> Callable[[Values], Iterator[Move]]:
    def moves(_v: Values) -> Iterator[Move]:
        yield "pimetrics_durations_missing_total", (table,), 1

    return moves


def _measured(v: Values) -> bool:
    return v.get("duration_source") in MEASURED


def _has_outcome(v: Values) -> bool:
    return v.get("outcome") is not None


TALLIES: Final[dict[str, tuple[Tally, ...]]] = {
    "sessions": (Tally(1, lambda _v: True, lambda _v: iter([("pi_sessions_total", (), 1)])),),
    "messages": (Tally(1, _is_answer, _requested),),
    "usage": (
        Tally(1, _settled, _spent),
        Tally(2, lambda v: _is_turn(v) and _measured(v), _request_took),
        Tally(4, lambda v: _is_turn(v) and v.get("time_to_first_token_s") is not None, _first_token),
        Tally(8, lambda v: _is_turn(v) and not _measured(v), _missing("usage")),
    ),
    "tool_calls": (
        Tally(1, _has_outcome, _called),
        Tally(2, lambda v: _has_outcome(v) and _measured(v), _call_took),
        Tally(8, lambda v: v.get("outcome") in {"ok", "error", "aborted"} and not _measured(v), _missing("tool_calls")),
    ),
    "retries": (
        Tally(1, lambda _v: True, _retried),
        Tally(2, lambda v: v.get("outcome") not in {None, "failed"}, _retries_ended),
    ),
    "compactions": (
        Tally(1, _has_outcome, _compacted),
        Tally(2, lambda v: _has_outcome(v) and _measured(v), _compaction_took),
        Tally(4, lambda v: v.get("tokens_before") is not None and v.get("tokens_after") is not None, _removed),
        Tally(8, lambda v: v.get("outcome") == "ok" and not _measured(v), _missing("compactions")),
        Tally(16, lambda v: v.get("tokens_before") is not None, _before),
    ),
    "prompts": (
        Tally(1, lambda _v: True, _work("pi_prompts_total")),
        Tally(2, _measured, _prompt_took),
    ),
    "runs": (Tally(1, _has_outcome, _work("pi_runs_total")),),
    "turns": (Tally(1, _has_outcome, _work("pi_turns_total")),),
}
"""What the facts of each table move."""

"""The ledger: merge, identity and exact totals."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimetrics import keys
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.merge import merge
from pimetrics.ledger.totals import Totals, micro, pico
from pimetrics.names import LABEL_CAP
from pimetrics.rows import Part, Row

_OR_NONE = st.none()
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "input_tokens": _OR_NONE | st.integers(0, 5),
        "tool": _OR_NONE | st.sampled_from(["a", "b"]),
        "outcome": _OR_NONE | st.sampled_from(["ok", "error", "retried", "unfinished"]),
        "turns": _OR_NONE | st.integers(0, 3),
        "runs": _OR_NONE | st.integers(0, 3),
        "last_time": _OR_NONE | st.integers(1, 3),
        "first_time": _OR_NONE | st.integers(1, 3),
        "settled": st.booleans(),
    },
)
TIMED = st.sampled_from([(None, None), (1, "message"), (2, "message"), (1, "entry"), (0, "anchor"), (3, "arrival")])
TOOK = st.sampled_from(
    [(None, None), (0.1, "reported"), (0.2, "arrival"), (0.3, "arrival"), (0.4, "entry"), (0.5, "entry")]
)
NAMED = st.sampled_from([(None, None), (1, "a"), (1, "b"), (2, "a"), (None, "a")])


@st.composite
def facts(draw: st.DrawFn) -> dict[str, Any]:
    values = dict(draw(VALUES))
    for names, pairs in (
        (("time", "time_source"), TIMED),
        (("duration_s", "duration_source"), TOOK),
        (("named_at", "name"), NAMED),
    ):
        if draw(st.booleans()):
            values |= dict(zip(names, draw(pairs), strict=True))
    return values


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    known = copy.deepcopy(parts[0])
    for part in parts[1:]:
        merge(known, part)
    return known


def told(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not known."""
    return {name: value for name, value in values.items() if value is not None}


@given(facts(), facts(), facts())
def test_merge_is_a_semilattice(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    """Merging is commutative, associative and idempotent, so the order of sources cannot matter."""
    assert told(merged(a, b)) == told(merged(b, a))
    assert told(merged(merged(a, b), c)) == told(merged(a, merged(b, c)))
    assert told(merged(a, a)) == told(a)
    assert told(merged(a, b, a, b)) == told(merged(a, b))


@given(facts(), facts())
def test_merge_tells_whether_it_changed_anything(a: dict[str, Any], b: dict[str, Any]) -> None:
    """A late revision is told from a repetition."""
    known = copy.deepcopy(a)
    changed = merge(known, b)
    assert changed == (told(known) != told(a))


PREFERRED = {
    "known beats null": ({"tool": None}, {"tool": "a"}, {"tool": "a"}),
    "reported beats arrival, also when longer": (
        {"duration_s": 0.1, "duration_source": "arrival"},
        {"duration_s": 0.9, "duration_source": "reported"},
        {"duration_s": 0.9, "duration_source": "reported"},
    ),
    "a known outcome beats unfinished": ({"outcome": "unfinished"}, {"outcome": "error"}, {"outcome": "error"}),
    "retried beats the error that a file shows": ({"outcome": "retried"}, {"outcome": "error"}, {"outcome": "retried"}),
    "0 turns beat unknown": ({"turns": None}, {"turns": 0}, {"turns": 0}),
    "a grown file knows more of a prompt": (
        {"duration_s": 1.0, "duration_source": "entry"},
        {"duration_s": 2.0, "duration_source": "entry"},
        {"duration_s": 2.0, "duration_source": "entry"},
    ),
}


@pytest.mark.parametrize("name", PREFERRED)
def test_what_merge_prefers(name: str) -> None:
    """The better value wins from either side."""
    a, b, want = PREFERRED[name]
    assert merged(a, b) == merged(b, a) == want


def usage_row(source: str, number: int = 0, **values: Any) -> Row:
    base = {"settled": True, "operation": "turn", "provider": "p", "model": "m", "input_tokens": 7, "cost_usd": 0.1}
    return Row("usage", (("assistant", 1, "p", "m", None), number), base | values, Part(source))


def test_the_same_key_is_one_fact_and_counts_once() -> None:
    """Two sources that hold a fact are one row; two occurrences inside one source are two."""
    ledger = MemoryLedger()
    ledger.add([usage_row("b"), usage_row("a"), usage_row("b"), usage_row("b", 1)])
    assert [row["source"] for row in ledger.rows("usage")] == ["a", "b"]
    assert ledger.duplicates == 1
    assert ledger.totals.counters["pi_tokens_total", ("p", "m", "turn", "input")] == 14


def test_a_better_value_changes_the_table_and_not_the_counter() -> None:
    """What comes later than its counter is a late revision."""
    ledger = MemoryLedger()
    ledger.add([usage_row("a", input_tokens=7)])
    ledger.add([usage_row("b", input_tokens=9)])
    assert [row["input_tokens"] for row in ledger.rows("usage")] == [9]
    assert ledger.totals.counters["pi_tokens_total", ("p", "m", "turn", "input")] == 7
    assert ledger.totals.late == {"usage": 1}


def test_a_cut_off_fact_gives_way_whichever_came_first() -> None:
    """As many cut-off facts as there are settled ones of their alias are hidden."""
    alias = ("assistant", 1, "p", "m")
    cut = Row("usage", keys.open_key(alias, 1), {"settled": False, "operation": "turn", "input_tokens": 3}, Part("a"))
    second = Row(
        "usage", keys.open_key(alias, 2), {"settled": False, "operation": "turn", "input_tokens": 4}, Part("a")
    )
    for order in ([cut, second, usage_row("b")], [usage_row("b"), second, cut]):
        ledger = MemoryLedger()
        ledger.add(order)
        assert sorted(row["input_tokens"] for row in ledger.rows("usage")) == [4, 7]
        assert sum(n for (metric, _), n in ledger.totals.counters.items() if metric == "pi_tokens_total") == 7


def test_the_earliest_header_owns_a_shared_row() -> None:
    """A row that a fork copied belongs to the session with the earlier header, in either order."""
    old, new = Part("z"), Part("a")
    old.session_id, old.time, new.session_id, new.time = "old", 1, "new", 2
    rows = [usage_row("x")._replace(part=part) for part in (old, new)]
    for order in (rows, rows[::-1]):
        ledger = MemoryLedger()
        ledger.add(order)
        (row,) = ledger.rows("usage")
        assert (row["session_id"], row["source"]) == ("old", "a")


def test_names_over_the_cap_fold_into_other() -> None:
    """Admission is first come and never revoked; what is folded is counted once a name."""
    totals = Totals()
    for _ in range(2):
        for number in range(LABEL_CAP + 3):
            totals.move("pi_tool_calls_total", (f"tool{number}", "ok"), 1)
    assert totals.counters["pi_tool_calls_total", ("tool0", "ok")] == 2
    assert totals.counters["pi_tool_calls_total", ("other", "ok")] == 6
    assert totals.overflow["tool"] == 3


@given(st.lists(st.floats(0, 1000), max_size=30), st.randoms())
def test_money_adds_up_in_any_order(costs: list[float], random: Any) -> None:
    """Integers inside: the total of the same costs is the same to the bit in any order."""
    shuffled = random.sample(costs, len(costs))
    assert sum(map(pico, costs)) == sum(map(pico, shuffled))
    assert abs(sum(map(pico, costs)) / 10**12 - sum(costs)) < 1e-6


def test_a_histogram_bound_is_inclusive() -> None:
    """A value at a bucket's upper bound belongs to that bucket, as `le` says."""
    totals = Totals()
    for length in (0.01, 0.010001):
        totals.move("pi_tool_execution_duration_seconds", ("bash",), micro(length))
    histogram = totals.histograms["pi_tool_execution_duration_seconds", ("bash",)]
    assert histogram.counts[:2] == [1, 1]
    assert histogram.total == 20001


def test_row_ids_are_stable() -> None:
    """The public name of a fact never changes between versions: Parquet files of different days must join."""
    assert keys.row_id("usage", (("assistant", 1, "p", None, "m", 0.1), 0)) == ROW_ID


ROW_ID = "c7fb81a2d96a052e113b6181"

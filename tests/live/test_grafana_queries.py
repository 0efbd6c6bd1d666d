"""Every expression of the dashboards and rules, on a real Prometheus and VictoriaMetrics that scraped a real exporter."""

from __future__ import annotations

import math
import re
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from pimetrics.sources.compressed import read_chunks
from tests import grafana_files as files
from tests.golden.recordings import Recording, recordings
from tests.live import grafana_stack as stack
from tests.live.prometheus import exporter, until

pytestmark = pytest.mark.live

RARE = {
    "models: Retried failures by class A": "shows only classes that occurred",
    "models: Unpriced or without usage A": "shows only models with an unpriced request",
    "models: Unpriced or without usage B": "shows only models with a request without usage",
    "models: Cache written for one hour A": "shows only models that were asked for such a cache",
    **{f"overview: By team {ref}": "only where a fleet delivers" for ref in "ABCD"},
    **{f"overview: Cost by {label} A": "only where a fleet delivers" for label in ("repo", "host")},
    "health: Deliveries by answer A": "only where a fleet delivers",
    "health: Bytes delivered per second A": "only where a fleet delivers",
    "tools: Running now by tool A": "shows only tools that run, and nothing runs after the play",
    "retries: Attempts by class of error A": "shows only classes that occurred",
    "retries: annotation Retries exhausted": "a mark only where it happened",
    "retries: annotation Compactions": "a mark only where it happened",
}
"""Expressions that may answer nothing when all is well, with the reason; their panels say so in words."""

HOLD = "--web.zero-hold=3"
"""Three scrapes, so that the tests need not wait for a minute."""

TARGETS = [target for name in files.NAMES for target in files.targets(name)]
RULES = files.rules()
PLAYED = [each for each in recordings() if re.match(r"1\.[36]\.\d+/(?!long_3000|big_output|continued)", each.name)]
"""Everything that pi 1.3 and 1.6 did; two recordings that share a session with another one are left out for a plain sum."""


class Stores(NamedTuple):
    """The databases after all recordings were played twice: when it began, when the second play did, and the end."""

    prometheus: stack.Store
    victoria: stack.Store
    start: float
    middle: float
    end: float

    @property
    def span(self) -> int:
        return math.ceil(self.end - self.start)


def _stamped(recording: Recording) -> bytes:
    """The stream as `pimetrics record` would have kept it: each record with the time of its arrival."""
    times = recording.stream.with_name(recording.name.rpartition("/")[2] + ".times").read_text().split()
    lines = b"".join(read_chunks(recording.stream, 1 << 20)).split(b"\n")
    whole = [line.startswith(b"{") and line.endswith(b"}") for line in lines]
    stamps = [b',"receivedAt":%s}' % at.encode() for at in times]
    return b"\n".join(
        line[:-1] + stamps[number] if whole[number] and number < len(stamps) else line
        for number, line in enumerate(lines)
    )


def _next_year(data: bytes) -> bytes:
    """Move a recording by 365 days and give it another session: the same work again, and new facts."""
    year = 365 * 86_400_000
    data = re.sub(rb'("(?:timestamp|receivedAt)":)(\d{13})', lambda m: m[1] + b"%d" % (int(m[2]) + year), data)
    data = data.replace(b'"timestamp":"2026-', b'"timestamp":"2027-')
    return re.sub(rb"[0-9a-f]{8}(-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})", rb"99999999\1", data)


def _cost(recording: Recording) -> float:
    stream = recording.oracle["stream"]
    parts = [model["tokens"] for model in stream["models"]]
    parts += [stream["compaction_usage"], stream["tool_result_usage"], stream["usage_entries"]["tokens"]]
    return sum(part["cost"] for part in parts)


def _two_scrapes(parts: list[stack.Store]) -> None:
    """Wait for two more scrapes: VictoriaMetrics shows the series of one scrape bit by bit."""
    after = time.time() + 2
    for part in parts:
        until(
            lambda part=part: (part.number("min(timestamp(pimetrics_ready))") or 0) > after,
            "later scrape",
            stack.PATIENCE_S,
        )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory):
    """Serve an empty folder, let both databases see it, play all recordings twice, wait until both have everything.

    Twice, so that every series is there before it grows, however new series are held back.
    """
    work, folder = tmp_path_factory.mktemp("stack"), tmp_path_factory.mktemp("recordings")
    with ExitStack() as open_parts:
        enter = open_parts.enter_context
        address = enter(exporter(work, folder, HOLD))
        parts = [
            enter(stack.prometheus(files.program("prometheus"), address, work)),
            enter(stack.victoria(files.program("victoria-metrics"), address, work)),
        ]
        times = [time.time()]
        for number, moved in enumerate([bytes, _next_year], 1):
            for recording in PLAYED:
                path = folder / f"{recording.name.replace('/', '-')}-{number}.jsonl"
                path.write_bytes(moved(_stamped(recording)))
            cost = number * sum(map(_cost, PLAYED))
            for part in parts:
                until(
                    lambda part=part, cost=cost: _close(part.number("sum(pi_cost_usd_total)"), cost),
                    f"cost of {cost}",
                    stack.PATIENCE_S,
                )
            _two_scrapes(parts)
            times.append(time.time())
        yield Stores(*parts, *times)


def _close(found: float | None, wanted: float) -> bool:
    return found is not None and math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)


def _expr(target: files.Target, stores: Stores) -> str:
    # Grafana's rate interval is at least four scrapes; one that spans the play makes "no data" mean a wrong expression.
    return files.substituted(target.expr, rate=f"{stores.span + 5}s", span=f"{stores.span + 5}s")


def _answer(store: stack.Store, target: files.Target, stores: Stores) -> list[dict[str, Any]]:
    if target.query.get("instant"):
        return store.ask(_expr(target, stores), stores.end)
    return store.ask_range(_expr(target, stores), stores.start, stores.end, 1)


each_target = pytest.mark.parametrize("target", TARGETS, ids=[target.where for target in TARGETS])
each_store = pytest.mark.parametrize("which", ["prometheus", "victoria"])


@each_store
@each_target
def test_expression_answers(stores: Stores, which: str, target: files.Target):
    """Each expression runs and returns data; those that may not are listed with the reason."""
    rows = _answer(getattr(stores, which), target, stores)
    assert rows or target.where in RARE
    legend = target.query.get("legendFormat", "")
    if "{{" in legend:
        label = legend.split("{{")[1].split("}}")[0]
        assert all(row["metric"].get(label) for row in rows)


@each_store
def test_one_value_of_each_variable(stores: Stores, which: str):
    """With one value picked for every variable, as well as with two, expressions still run."""
    store = getattr(stores, which)
    one = {"job": "pimetrics", "instance": ".+", "provider": "quill", "model": "quill-small", "tool": "bash"}
    two = {**one, "model": "(quill-small|ember-1)", "tool": "(bash|read)"}
    for values in (one, two):
        for target in TARGETS:
            store.ask(files.substituted(target.expr, "60s", "60s", values), stores.end)


@pytest.mark.parametrize("rule", RULES, ids=[rule.get("alert") or rule["record"] for rule in RULES])
def test_rule_runs(stores: Stores, rule: dict[str, Any]):
    """Each rule's expression runs on both; a recording rule from metrics returns data."""
    found = [store.ask(rule["expr"], stores.end) for store in (stores.prometheus, stores.victoria)]
    if "record" in rule:
        assert all(found)


@each_store
def test_last_minus_first_is_the_oracles_cost(stores: Stores, which: str):
    """Exact totals: last minus first of the cost over the range is what the oracle says the recordings cost."""
    rows = getattr(stores, which).ask_range("sum(pi_cost_usd_total)", stores.middle, stores.end, 1)
    (values,) = [[float(value) for _, value in row["values"]] for row in rows]
    assert math.isclose(values[-1] - values[0], sum(map(_cost, PLAYED)), rel_tol=1e-9)
    assert values == sorted(values)


@each_store
def test_requests_are_the_oracles(stores: Stores, which: str):
    """Both databases hold as many requests as the oracle counts, twice."""
    wanted = sum(model["messages"] for recording in PLAYED for model in recording.oracle["stream"]["models"])
    assert getattr(stores, which).number("sum(pi_requests_total)") == 2 * wanted


@each_store
def test_increase_loses_no_first_increment(stores: Stores, which: str):
    """Every series of the first play was new: held at 0 first, so increase() over that play finds all requests."""
    wanted = sum(model["messages"] for recording in PLAYED for model in recording.oracle["stream"]["models"])
    span = math.ceil(stores.middle - stores.start) + 2
    (row,) = getattr(stores, which).ask(f"sum(increase(pi_requests_total[{span}s]))", stores.middle)
    assert wanted * 0.999 <= float(row["value"][1]) <= wanted * 1.5


def test_variables_have_values(stores: Stores):
    """The queries of the variables find jobs, instances, providers, models and tools."""
    for name in ("job", "instance", "provider", "model", "tool"):
        variable = next(v for v in files.board("overview")["templating"]["list"] if v["name"] == name)
        asked = variable["query"]["query"].removeprefix("label_values(").rpartition(",")[0]
        found = {row["metric"][name] for row in stores.prometheus.ask(files.substituted(asked), stores.end)}
        assert len(found) >= 1, name


def test_exemplars_are_there(stores: Stores):
    """Panels that ask for exemplars get sessions."""
    target = next(t for t in TARGETS if t.where.startswith("tools: Latency of all calls: p50"))
    assert target.query["exemplar"]
    found = stores.prometheus.api("query_exemplars", query=_expr(target, stores), start=stores.start, end=stores.end)
    assert any(series["exemplars"] for series in found)


def test_an_idle_exporter_shows_zero_or_its_empty_state(tmp_path):
    """Case 88: with no data at all and with one tool call every expression runs, no panel shows NaN, counts are whole."""
    with ExitStack() as parts:
        folder = tmp_path / "recordings"
        folder.mkdir()
        address = parts.enter_context(exporter(tmp_path, folder, HOLD))
        store = parts.enter_context(stack.prometheus(files.program("prometheus"), address, tmp_path))
        _two_scrapes([store])
        _all_numbers(store)
        one = next(each for each in recordings() if each.name == "1.3.0/tool_read")
        (folder / "one.jsonl").write_bytes(_stamped(one))
        until(lambda: store.number("sum(pi_tool_calls_total)") == 1, "tool call", stack.PATIENCE_S)
        _two_scrapes([store])
        _all_numbers(store)


def _all_numbers(store: stack.Store) -> None:
    for target in TARGETS:
        values = [float(row["value"][1]) for row in store.ask(files.substituted(target.expr, "60s", "60s"))]
        assert not any(map(math.isnan, values)), target.where
        assert not target.expr.startswith("round(") or all(value.is_integer() for value in values), target.where

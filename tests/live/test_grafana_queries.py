"""Every expression of the dashboards and rules, on a real Prometheus and VictoriaMetrics that scraped a real exporter."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

import grafana_files as files
import grafana_stack as stack
import pytest
import support

pytestmark = pytest.mark.live

RARE = {
    "models: Retried failures by class A": "shows only classes that occurred",
    "models: Unpriced or without usage A": "shows only models with an unpriced request",
    "models: Unpriced or without usage B": "shows only models with a request without usage",
    "retries: Attempts by class of error A": "shows only classes that occurred",
    "retries: annotation Retries exhausted": "a mark only where it happened",
    "retries: annotation Compactions": "a mark only where it happened",
}
"""Expressions that may answer nothing when all is well, with the reason; their panels say so in words."""

TARGETS = [target for name in files.NAMES for target in files.targets(name)]
RULES = files.rules()
PLAYED = support.recordings(r"^1\.[36]\.\d+/(?!long_3000|big_output|continued)")
"""Everything that pi 1.3 and 1.6 did; two recordings that share a session with another one are left out for a plain sum."""


class Stores(NamedTuple):
    """The databases after all recordings were played, and when it began and ended."""

    prometheus: stack.Store
    victoria: stack.Store
    start: float
    end: float

    @property
    def span(self) -> int:
        return math.ceil(self.end - self.start)


def _cost(recording: support.Recording) -> float:
    stream = recording.expected["stream"]
    parts = [model["tokens"] for model in stream["models"]]
    parts += [stream["compaction_usage"], stream["tool_result_usage"], stream["usage_entries"]["tokens"]]
    return sum(part["cost"] for part in parts)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory):
    """Serve an empty folder, let both databases see it, play all recordings, wait until both have everything."""
    work, folder = tmp_path_factory.mktemp("stack"), tmp_path_factory.mktemp("recordings")
    with ExitStack() as open_parts:
        enter = open_parts.enter_context
        address = enter(stack.exporter(folder, work))
        parts = [
            enter(stack.prometheus(files.program("prometheus"), address, work)),
            enter(stack.victoria(files.program("victoria-metrics"), address, work)),
        ]
        for part in parts:
            stack.wait_for(lambda part=part: part.number("min(pimetrics_ready)") == 1, "scrape")
        start = time.time()
        for recording in PLAYED:
            (folder / f"{recording.version}-{recording.name}.jsonl").write_bytes(recording.stamped())
        cost = sum(map(_cost, PLAYED))
        for part in parts:
            stack.wait_for(lambda part=part: _close(part.number("sum(pi_cost_usd_total)"), cost), f"cost of {cost}")
        end = time.time()
        yield Stores(*parts, start, end)


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
    rows = getattr(stores, which).ask_range("sum(pi_cost_usd_total)", stores.start, stores.end, 1)
    (values,) = [[float(value) for _, value in row["values"]] for row in rows]
    assert math.isclose(values[-1] - min(values[0], 0), sum(map(_cost, PLAYED)), rel_tol=1e-9)
    assert values == sorted(values)


@each_store
def test_increase_sees_every_series_from_its_first_step(stores: Stores, which: str):
    """Series that appear with their first fact are held at 0 first: increase() misses none of the requests."""
    store = getattr(stores, which)
    wanted = sum(model["messages"] for recording in PLAYED for model in recording.expected["stream"]["models"])
    assert store.number("sum(pi_requests_total)") == wanted
    grown = store.ask(f"sum(increase(pi_requests_total[{stores.span + 5}s]))", stores.end)
    assert float(grown[0]["value"][1]) == pytest.approx(wanted, rel=0.25)


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
    text = stack.fetch(
        f"{stores.prometheus.url}/api/v1/query_exemplars", query=_expr(target, stores), start=stores.start, end=stores.end
    )
    assert text is not None
    assert '"exemplars":[{' in text


def test_an_idle_exporter_shows_zero_or_its_empty_state(tmp_path):
    """Case 88: with no data at all every expression runs, and no panel shows NaN."""
    with ExitStack() as parts:
        (tmp_path / "none").mkdir()
        address = parts.enter_context(stack.exporter(tmp_path / "none", tmp_path))
        store = parts.enter_context(stack.prometheus(files.program("prometheus"), address, tmp_path))
        stack.wait_for(lambda: store.number("min(pimetrics_ready)") == 1, "scrape")
        stack.wait_for(lambda: (store.number("count_over_time(pimetrics_ready[1m])") or 0) >= 3, "three scrapes")
        for target in TARGETS:
            rows = store.ask(files.substituted(target.expr, "60s", "60s"))
            assert all(row["value"][1] != "NaN" for row in rows), target.where

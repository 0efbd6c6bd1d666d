"""What the tests of grafana/ share: its files, its expressions, and a reader of PromQL."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pimetrics.names import COUNTER, HISTOGRAM, METRICS

ROOT = Path(__file__).parent.parent / "grafana"
NAMES = ("overview", "tools", "models", "retries", "health")
RATE, RANGE = timedelta(seconds=61), timedelta(seconds=3607)
"""Windows that no dashboard would write, put in for Grafana's so that the parser can tell them from fixed ones."""

EXTERNAL = {
    "up", "scrape_duration_seconds", "scrape_samples_scraped", "process_resident_memory_bytes",
}  # fmt: skip
"""Series of Prometheus and of the process, which METRICS does not hold."""


def _mandatory() -> bool:
    return bool(os.environ.get("CI")) or os.environ.get("PIMETRICS_LIVE") == "1"


def need(module: str) -> Any:
    """Import a module of the extra `grafana`: it may be missing at home, never in CI."""
    return importlib.import_module(module) if _mandatory() else pytest.importorskip(module)


def program(name: str) -> str:
    """Find a program: it may be missing at home, never in CI."""
    found = shutil.which(name)
    if not found and not _mandatory():
        pytest.skip(f"{name} is not installed")
    assert found, f"{name} is not installed: apt-get install prometheus victoria-metrics"
    return found


class Target(NamedTuple):
    """One expression of a dashboard and where it stands."""

    where: str
    expr: str
    panel: dict[str, Any]
    query: dict[str, Any]


def board(name: str) -> dict[str, Any]:
    """Read the committed JSON of a dashboard."""
    return json.loads((ROOT / "dashboards" / f"{name}.json").read_text(encoding="utf-8"))


def panels(name: str) -> list[dict[str, Any]]:
    """Give the panels that ask something."""
    return [panel for panel in board(name)["panels"] if panel["type"] != "row"]


def targets(name: str) -> list[Target]:
    """Give the expressions of a dashboard's panels and annotations."""
    made = [
        Target(f"{name}: {panel['title']} {query['refId']}", query["expr"], panel, query)
        for panel in panels(name)
        for query in panel["targets"]
    ]
    marks = board(name)["annotations"]["list"]
    return made + [
        Target(f"{name}: annotation {mark['name']}", mark["expr"], {"type": "annotation"}, mark) for mark in marks
    ]


def substituted(expr: str, rate: str = "61s", span: str = "3607s", values: dict[str, str] | None = None) -> str:
    """Put in what Grafana puts in: windows, and a variable's value (All is the variable's allValue)."""
    expr = expr.replace("$__rate_interval", rate).replace("$__range", span)
    return re.sub(r"\$(job|instance|provider|model|tool)\b", lambda m: (values or {}).get(m[1], ".+"), expr)


def rules() -> list[dict[str, Any]]:
    """Give every recording and alerting rule."""
    yaml = need("yaml")
    files = [yaml.safe_load((ROOT / "rules" / f"{name}.yaml").read_text()) for name in ("recording", "alerts")]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def nodes(expr: str) -> list[tuple[Any, tuple[Any, ...]]]:
    """Parse an expression; every node with its parents, the nearest last."""
    found: list[tuple[Any, tuple[Any, ...]]] = []

    def walk(node: Any, parents: tuple[Any, ...]) -> None:
        found.append((node, parents))
        below = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "param")]
        below += list(getattr(node, "args", None) or [])
        for child in below:
            if child is not None:
                walk(child, (*parents, node))

    walk(need("promql_parser").parse(expr), ())
    return found


def kind_of(node: Any) -> str:
    """Name the class of a node of the parser."""
    return type(node).__name__


def family(series: str) -> str:
    """Give the METRICS name of a series."""
    if series in METRICS:
        return series
    base = re.sub(r"_(bucket|sum|count)$", "", series)
    assert base in METRICS, f"METRICS does not know {series}"
    assert METRICS[base].kind == HISTOGRAM, f"{series}: {base} is no histogram"
    return base


def faults(expr: str, *, recorded: frozenset[str] = frozenset()) -> list[str]:
    """Say what is wrong with an expression: names, labels, counters without a rate, shapes of quantiles."""
    wrong = []
    known_labels: set[str] = {"job", "instance"}
    for node, parents in nodes(expr):
        if kind_of(node) == "SubqueryExpr":
            wrong.append("a subquery")
        if kind_of(node) != "VectorSelector" or node.name in recorded | EXTERNAL:
            continue
        try:
            name = family(node.name)
        except AssertionError as error:
            wrong.append(str(error))
            continue
        labels = {"job", "instance", *METRICS[name].labels} | ({"le"} if node.name.endswith("_bucket") else set())
        known_labels |= labels
        wrong += [f"{node.name} has no label {m.name}" for m in node.matchers.matchers if m.name not in labels]
        for matcher in node.matchers.matchers:
            closed = METRICS[name].closed.get(matcher.name)
            if closed and "$" not in matcher.value and not any(re.fullmatch(matcher.value, value) for value in closed):
                wrong.append(f"{node.name}: {matcher.name} is never {matcher.value}")
        calls = [parent.func.name for parent in parents if kind_of(parent) == "Call"]
        grown = bool({"rate", "increase"} & set(calls))
        if METRICS[name].kind in (COUNTER, HISTOGRAM) and not grown:
            wrong.append(f"{node.name} is a counter without rate or increase")
        if METRICS[name].kind not in (COUNTER, HISTOGRAM) and grown:
            wrong.append(f"{node.name} is a gauge under rate or increase")
    grouped = {
        label
        for node, _ in nodes(expr)
        if kind_of(node) == "AggregateExpr" and node.modifier
        for label in node.modifier.labels
    }
    if not recorded:
        wrong += [f"nothing has the label {label}" for label in grouped - known_labels]
    return wrong + [fault for node, _ in nodes(expr) if (fault := _quantile_fault(node))]


def _quantile_fault(node: Any) -> str | None:
    if kind_of(node) != "Call" or node.func.name != "histogram_quantile":
        return None
    total = node.args[1]
    shaped = (
        kind_of(total) == "AggregateExpr" and str(total.op) == "sum" and "le" in (total.modifier.labels if total.modifier else ())
        and kind_of(total.expr) == "Call" and total.expr.func.name == "rate"
        and total.expr.args[0].vector_selector.name.endswith("_bucket")
    )  # fmt: skip
    return None if shaped else "a quantile that is not histogram_quantile(q, sum by (le, ...) (rate(x_bucket[...])))"

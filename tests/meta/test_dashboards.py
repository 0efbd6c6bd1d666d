"""The dashboards as files: in step with their source, importable anywhere, and no panel that asks for what is not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from pimetrics.names import METRICS
from tests import grafana_files as files

need = files.need
need("promql_parser")
SDK = need("grafana_foundation_sdk.models.dashboard")

ALL_TARGETS = [target for name in files.NAMES for target in files.targets(name)]
ALL_PANELS = [(name, panel) for name in files.NAMES for panel in files.panels(name)]
UNITS = set((Path(__file__).parent.parent / "fixtures" / "grafana" / "units.txt").read_text().split())

NOT_SHOWN: dict[str, str] = {}
"""METRICS that no panel shows, with the reason."""

each_board = pytest.mark.parametrize("name", files.NAMES)
each_panel = pytest.mark.parametrize(("name", "panel"), ALL_PANELS, ids=[f"{n}-{p['title']}" for n, p in ALL_PANELS])
each_target = pytest.mark.parametrize("target", ALL_TARGETS, ids=[t.where for t in ALL_TARGETS])


def test_json_is_in_step_with_its_source():
    """The committed JSON is what build.py writes."""
    done = subprocess.run(
        [sys.executable, files.ROOT / "dashboards" / "build.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_check_notices_a_change(tmp_path):
    """A JSON edited by hand makes `build.py --check` fail and say what to run."""
    copy = tmp_path / "dashboards"
    shutil.copytree(files.ROOT / "dashboards", copy)
    (copy / "tools.json").write_text((copy / "tools.json").read_text().replace("Tool calls", "Tool falls"))
    done = subprocess.run([sys.executable, copy / "build.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("tools.json is not in step")


@each_board
def test_json_is_what_grafanas_schema_reads(name):
    """Grafana's model (the SDK is generated from its schema) reads the JSON and writes every key back: none is made up."""
    board = files.board(name)
    board["annotations"] = {"list": []}
    again = json.loads(
        json.dumps(SDK.Dashboard.from_json(board), cls=need("grafana_foundation_sdk.cog.encoder").JSONEncoder)
    )
    assert {**again, "id": None} == board
    assert board["schemaVersion"] == 41


@each_board
def test_no_fixed_data_source(name):
    """Case 85: `${datasource}` everywhere, chosen by a variable; nothing of the machine it was made on."""
    text = (files.ROOT / "dashboards" / f"{name}.json").read_text()
    board = files.board(name)
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {"${datasource}", board["uid"]}
    assert "${DS_" not in text
    assert "__inputs" not in board
    assert board["id"] is None
    assert board["templating"]["list"][0]["type"] == "datasource"
    found = [p["datasource"]["uid"] for p in files.panels(name)]
    found += [q["datasource"]["uid"] for p in files.panels(name) for q in p["targets"]]
    assert set(found) == {"${datasource}"}


def test_uids_are_set_and_unique():
    """Case 85: every dashboard has a uid of its own, short enough for Grafana."""
    uids = [files.board(name)["uid"] for name in files.NAMES]
    assert len(set(uids)) == len(uids)
    assert all(re.fullmatch(r"pimetrics-[a-z]{1,30}", uid) for uid in uids)


@each_board
def test_variables(name):
    """All six variables are there, can hold several values or All, and follow the time range."""
    variables = {v["name"]: v for v in files.board(name)["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "instance", "provider", "model", "tool"]
    for variable in list(variables.values())[1:]:
        assert variable["multi"], variable["name"]
        assert variable["includeAll"]
        assert variable["allValue"] == ".+"
        assert variable["refresh"] == 2
        asked, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
        assert label == variable["name"]
        selector = files.nodes(files.substituted(asked))[0][0]
        assert {label, *(m.name for m in selector.matchers.matchers)} <= {
            "job",
            "instance",
            *METRICS[selector.name].labels,
        }


@each_board
def test_a_variable_is_shown_where_it_changes_something(name):
    """A variable that no expression uses is hidden; it is there only to be carried along by links."""
    used = set(re.findall(r"\$(\w+)", " ".join(t.expr for t in files.targets(name))))
    for variable in files.board(name)["templating"]["list"][1:]:
        assert (variable["name"] in used) != (variable.get("hide") == 2), variable["name"]


@each_board
def test_frame(name):
    """Shared crosshair, links that keep time and variables, a tag, not editable, a description."""
    board = files.board(name)
    assert board["graphTooltip"] == 1
    assert board["editable"] is False
    assert board["description"]
    assert board["tags"] == ["pimetrics"]
    (link,) = board["links"]
    assert (link["tags"], link["keepTime"], link["includeVars"]) == (["pimetrics"], True, True)


@each_board
def test_grid(name):
    """Panels fit the grid, do not overlap, and have ids of their own."""
    boxes = [(p["id"], p["gridPos"]) for p in files.board(name)["panels"]]
    assert len({number for number, _ in boxes}) == len(boxes)
    assert all(box["x"] + box["w"] <= 24 for _, box in boxes)
    for (_, a), (_, b) in combinations(boxes, 2):
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, (a, b)


@each_board
def test_titles_are_unique(name):
    """No two panels of a dashboard have the same title."""
    titles = [panel["title"] for panel in files.panels(name)]
    assert len(set(titles)) == len(titles)


@each_panel
def test_panel_explains_itself(name, panel):
    """Title, description, a known unit, and an empty state in words (case 88)."""
    assert panel["title"]
    assert panel["description"].endswith((".", ")"))
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"] in UNITS
    assert len(defaults["noValue"]) > 5
    for override in panel["fieldConfig"]["overrides"]:
        assert {p["value"] for p in override["properties"] if p["id"] == "unit"} <= UNITS
    if panel["type"] in ("stat", "table", "bargauge"):
        assert defaults["thresholds"]["steps"]


@each_target
def test_expression_fits_the_metrics(target):
    """Case 88: names and labels are those of METRICS, counters are rated, quantiles have the right shape."""
    assert files.faults(files.substituted(target.expr, values={"job": "$j"})) == []


@each_target
def test_windows_follow_the_scrape_interval(target):
    """Case 86: `$__rate_interval` for rates, `$__range` for totals, nothing fixed, and no `$__interval`."""
    assert "$__interval" not in target.expr
    windows = {
        (parents[-1].func.name, node.range)
        for node, parents in files.nodes(files.substituted(target.expr))
        if files.kind_of(node) == "MatrixSelector"
    }
    assert {window for _, window in windows} <= {files.RATE, files.RANGE}
    quantile = "histogram_quantile" in target.expr
    assert quantile or ("rate", files.RANGE) not in windows
    if target.query.get("instant"):
        assert {window for _, window in windows} <= {files.RANGE}, "an instant answers for the picked range"


@each_target
def test_selectors_use_the_variables(target):
    """Every selector follows job and instance, and provider, model and tool where its metric has them."""
    for node, _ in files.nodes(
        files.substituted(target.expr, values={v: f"_{v}_" for v in ("job", "instance", "provider", "model", "tool")})
    ):
        if files.kind_of(node) == "VectorSelector":
            labels = () if node.name in files.EXTERNAL else METRICS[files.family(node.name)].labels
            wanted = {v for v in ("job", "instance", "provider", "model", "tool") if v in {"job", "instance", *labels}}
            assert {m.name for m in node.matchers.matchers if m.value == f"_{m.name}_"} == wanted


@each_target
def test_counts_are_whole_numbers(target):
    """Case 88: a growth that is shown as a count is rounded; money, seconds and ratios are not counts."""
    grown = {
        n.args[0].vector_selector.name
        for n, _ in files.nodes(files.substituted(target.expr))
        if files.kind_of(n) == "Call" and n.func.name == "increase"
    }
    measured = ("_usd_total", "_seconds_sum", "_seconds_total")
    if grown and not any(name.endswith(measured) for name in grown) and "/" not in target.expr:
        assert re.search(r"\bround\(", target.expr)


@each_target
def test_legends_name_labels_that_are_there(target):
    """A legend shows only labels that the expression keeps."""
    kept = {
        label for node, _ in files.nodes(files.substituted(target.expr))
        if files.kind_of(node) == "AggregateExpr" and node.modifier for label in node.modifier.labels
    }  # fmt: skip
    assert set(re.findall(r"\{\{(\w+)\}\}", target.query.get("legendFormat", ""))) <= kept


def test_every_metric_is_on_a_panel_or_says_why_not():
    """Case 88: every name of METRICS is shown somewhere, or listed with the reason."""
    shown = {
        files.family(node.name)
        for target in ALL_TARGETS
        for node, _ in files.nodes(files.substituted(target.expr))
        if files.kind_of(node) == "VectorSelector" and node.name not in files.EXTERNAL
    }
    assert shown | set(NOT_SHOWN) == set(METRICS)
    assert not shown & set(NOT_SHOWN)
    assert all(len(reason) > 20 for reason in NOT_SHOWN.values())


def test_headline_leaves_tools_out_and_shows_them_beside():
    """The headline cost is without operation="tool"; what tools report stands beside it under its own name."""
    first, second = files.panels("overview")[:2]
    assert 'operation!="tool"' in first["targets"][0]["expr"]
    assert first["title"] == "Cost, as reported by pi"
    assert 'operation="tool"' in second["targets"][0]["expr"]
    assert second["title"] == "Reported by tools (may repeat sub-agent sessions)"
    assert first["gridPos"]["y"] == second["gridPos"]["y"]


def test_links_down_lead_to_dashboards_that_exist():
    """A panel's link opens one of the other dashboards with the same time and variables."""
    uids = {files.board(name)["uid"] for name in files.NAMES}
    found = [link["url"] for _, panel in ALL_PANELS for link in panel.get("links", [])]
    assert len(found) >= 4
    for url in found:
        assert re.fullmatch(r"/d/([\w-]+)\?\$\{__url_time_range\}&\$\{__all_variables\}", url)[1] in uids


def test_retries_are_annotated():
    """Exhausted retries and compactions are marks on the graphs of their dashboard."""
    marks = files.board("retries")["annotations"]["list"]
    assert [mark["name"] for mark in marks] == ["Retries exhausted", "Compactions"]


@pytest.mark.parametrize(
    ("expr", "fault"),
    [
        ("sum(pi_cost_usd_total)", "without rate"),
        ("sum(rate(pi_cost_dollars_total[61s]))", "does not know"),
        ('sum(rate(pi_cost_usd_total{tool="x"}[61s]))', "no label tool"),
        ("sum(rate(pi_queue_depth[61s]))", "is a gauge"),
        ('sum(rate(pi_cost_usd_total{operation="tools"}[61s]))', "is never tools"),
        ("sum by (tool) (rate(pi_cost_usd_total[61s]))", "nothing has the label"),
        ("histogram_quantile(0.5, rate(pi_request_duration_seconds_bucket[61s]))", "a quantile that is not"),
        ("histogram_quantile(0.5, sum(rate(pi_request_duration_seconds_bucket[61s])))", "a quantile that is not"),
        ("sum(rate(pi_queue_depth_bucket[61s]))", "is no histogram"),
    ],
)
def test_the_lint_finds_faults(expr, fault):
    """The checks above do find what they look for."""
    assert any(fault in found for found in files.faults(expr))

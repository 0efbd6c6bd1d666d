"""The alerting and recording rules: right names, long windows, a test and a runbook entry for each."""

from __future__ import annotations

import re
import subprocess
from datetime import timedelta

import pytest

from tests import grafana_files as files

yaml = files.need("yaml")
files.need("promql_parser")

RULES = files.rules()
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = frozenset(rule["record"] for rule in RULES if "record" in rule)
TESTS = sorted((files.ROOT / "rules" / "tests").glob("*.yaml"))

each_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.get("alert") or rule["record"] for rule in RULES])
each_alert = pytest.mark.parametrize("alert", ALERTS, ids=[rule["alert"] for rule in ALERTS])


@each_rule
def test_expression_fits_the_metrics(rule):
    """Names and labels are those of METRICS or of a recording rule, and counters are rated."""
    assert files.faults(rule["expr"], recorded=RECORDED) == []


@each_rule
def test_windows_are_five_minutes_or_more(rule):
    """Case 86: a scrape interval of a minute still has samples enough in every window."""
    windows = [node.range for node, _ in files.nodes(rule["expr"]) if files.kind_of(node) == "MatrixSelector"]
    assert all(window >= timedelta(minutes=5) for window in windows)


@each_alert
def test_alert_has_words_and_a_runbook_entry(alert):
    """Severity, summary, description, and an entry in the runbook under its own name."""
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["description"].endswith(".")
    assert alert["annotations"]["runbook"] == f"grafana/runbook.md#{alert['alert'].lower()}"


def test_runbook_has_an_entry_for_each_alert_and_no_other():
    """The runbook's headings are the alerts, in their order."""
    headings = re.findall(r"(?m)^### (\w+)$", (files.ROOT / "runbook.md").read_text())
    assert headings == [alert["alert"] for alert in ALERTS]


def test_every_alert_has_a_test():
    """Each alert is named in a promtool test."""
    text = "".join(path.read_text() for path in TESTS)
    assert [
        alert["alert"] for alert in ALERTS if f"{alert['alert']}\n" not in text and f'"{alert["alert"]}"' not in text
    ] == []


def test_promtool_accepts_the_rules():
    """`promtool check rules` passes."""
    paths = [files.ROOT / "rules" / f"{name}.yaml" for name in ("recording", "alerts")]
    done = subprocess.run(
        [files.program("promtool"), "check", "rules", *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_promtool_runs_the_tests(path):
    """`promtool test rules` passes."""
    done = subprocess.run(
        [files.program("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

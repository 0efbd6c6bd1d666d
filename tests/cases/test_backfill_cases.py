"""The cases about history in OpenMetrics."""

from __future__ import annotations

import json
import time
from collections import defaultdict

import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse

from pimetrics.cli import cli
from pimetrics.errors import WrongUseError
from pimetrics.names import LABEL_CAP
from tests.cases.scans import case
from tests.golden.recordings import recordings, scraped


def backfilled(*args):
    """Return what `backfill` prints, and its samples by series in the order of the text."""
    result = CliRunner().invoke(cli, ["backfill", *map(str, args)])
    assert result.exit_code == 0, result.stderr
    series = defaultdict(list)
    for family in parse(result.stdout):
        for sample in family.samples:
            series[sample.name, tuple(sorted(sample.labels.items()))].append((float(sample.timestamp), sample.value))
    return result.stdout, series


def test_history_of_a_fork():
    """Case 84: ends with EOF, one head a family, times and counters never fall, and the fork's prefix counts once."""
    text, series = backfilled(*case("01").files)
    right = case("84").right
    assert text.endswith(right["ends_with"])
    for samples in series.values():
        times, values = zip(*samples, strict=True)
        assert list(times) == sorted(set(times))
        assert list(values) == sorted(values)
        assert values[0] == 0
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    cost = [samples[-1][1] for (name, _), samples in series.items() if name == "pi_cost_usd_total"]
    assert sum(cost) == pytest.approx(right["last_cost_usd"])


@pytest.mark.parametrize("recording", [r for r in recordings() if r.name.startswith("1.6.0/")], ids=lambda r: r.name)
def test_last_minus_first_is_the_scrape(recording):
    """Backfilled series end where the live ones of the same archive stand, to the last digit."""
    _, series = backfilled(recording.stream)
    live = {
        key: value
        for key, value in scraped(recording.stream).items()
        if key[0].startswith("pi_") and value and key[0].endswith(("_total", "_count", "_sum", "_bucket"))
    }
    found = {key: samples[-1][1] - samples[0][1] for key, samples in series.items()}
    timeless = ("pi_extension_errors_total",)  # an event without any time, and no row
    assert {k: v for k, v in found.items() if v} == {k: v for k, v in live.items() if k[0] not in timeless}


def test_labels_of_the_scrape_can_be_given():
    """`--label` adds job and instance to every series; what is no label is refused."""
    _, series = backfilled(*case("01").files, "--label", "job=pimetrics", "--label", "instance=a:1")
    assert all({("job", "pimetrics"), ("instance", "a:1")} <= set(labels) for _, labels in series)
    with pytest.raises(WrongUseError, match="NAME=VALUE"):
        CliRunner().invoke(cli, ["backfill", str(case("01").files[0]), "--label", "no-label"], catch_exceptions=False)


def _answer(at, model, **message):
    usage = {"input": 10, "output": 5, "cost": {"total": 0.25}}
    told = {"role": "assistant", "provider": "p", "model": model, "stopReason": "stop", "usage": usage, "content": []}
    return json.dumps({"type": "message_end", "message": {**told, "timestamp": at, **message}}) + "\n"


def _costs(series):
    found = {}
    for (name, labels), samples in series.items():
        if name == "pi_cost_usd_total":
            found[dict(labels)["model"]] = samples[-1][1]
    return found


def test_what_is_young_is_left_to_the_scrape(tmp_path):
    """`--older-than 3h` leaves out what ended later, and a call without an end that is not a day old."""
    now = round(time.time() * 1000)
    hour = 3_600_000
    head = json.dumps({"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"})
    call = {"content": [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}], "stopReason": "toolUse"}
    start = json.dumps({"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {}})
    path = tmp_path / "a.jsonl"
    lines = [
        _answer(now - 4 * hour, "old"),
        _answer(now - hour, "young"),
        _answer(now - 5 * hour, "old", **call),
        start,
    ]
    path.write_text("\n".join([head, *map(str.strip, lines)]) + "\n")
    _, everything = backfilled(path)
    _, older = backfilled(path, "--older-than", "3h")
    assert _costs(everything) == {"old": 0.5, "young": 0.25}
    assert _costs(older) == {"old": 0.5}
    calls = [{name for name, _ in series if name == "pi_tool_calls_total"} for series in (everything, older)]
    assert calls == [{"pi_tool_calls_total"}, set()]


def test_names_without_room_are_other(tmp_path):
    """More models than there is room for are folded into `other`, as in the scrape, and names are escaped."""
    names = [*(f"m{number}" for number in range(LABEL_CAP - 1)), 'a "\\\n', "late", "later"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(_answer(1_700_000_000_000 + number, name) for number, name in enumerate(names)))
    _, series = backfilled(path)
    costs = _costs(series)
    live = {
        dict(labels)["model"]: v for (name, labels), v in scraped(path).items() if name == "pi_cost_usd_total" and v
    }
    assert costs == live
    assert costs["other"] == 0.5
    assert costs['a "\\\n'] == 0.25

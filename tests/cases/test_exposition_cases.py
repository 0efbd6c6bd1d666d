"""The cases about what a scrape looks like."""

from __future__ import annotations

import gzip
import math

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from starlette.testclient import TestClient

from pimetrics.exporter import Exporter
from pimetrics.names import METRICS, RETRY_SCOPES
from pimetrics.sinks.exposition import Exposition
from pimetrics.sinks.metrics import PiCollector
from pimetrics.web.app import make_app
from tests.cases.scans import case
from tests.golden.recordings import scraped, total

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def client(*numbers: str) -> TestClient:
    """Serve the files of some cases."""
    exporter = Exporter(clock=lambda: 0.0)
    for number in numbers:
        for path in case(number).files:
            source = exporter.open(path.name)
            exporter.feed(source, path.read_bytes())
            exporter.finish(source)
    exporter.ready = True
    return TestClient(make_app(Exposition(exporter.snapshot), ready=lambda: exporter.ready))


@pytest.mark.parametrize("number", ["23", "45", "75", "12"])
def test_odd_values_never_break_a_scrape(number):
    """Negative costs, nulls, NaN and hostile names: both formats parse, and no sample is NaN."""
    web = client(number)
    text = web.get("/metrics")
    assert text.status_code == 200
    samples = [s for family in parse_text(text.text) for s in family.samples]
    assert [s for s in samples if math.isnan(s.value) or s.value < 0] == []
    body = web.get("/metrics", headers=OPENMETRICS).text
    assert body.endswith("# EOF\n")
    assert list(parse_openmetrics(body))


def test_label_values_are_escaped():
    """Case 75: a model name with quotes, backslashes and newlines is one label value, an empty one is `unknown`."""
    right = case("75").right
    for text, parse in (
        (client("75").get("/metrics").text, parse_text),
        (client("75").get("/metrics", headers=OPENMETRICS).text, parse_openmetrics),
    ):
        samples = [s for family in parse(text) for s in family.samples]
        assert [s for s in samples if s.name == "pwn"] == []
        assert {s.labels["model"] for s in samples if "model" in s.labels} == set(right["models"])


def test_content_negotiation():
    """Case 76: which format for which Accept header, HEAD, POST, unknown paths, gzip."""
    web = client("77")
    for accept, want in {
        None: "text/plain; version=0.0.4",
        "*/*": "text/plain; version=0.0.4",
        "text/plain;version=0.0.4": "text/plain; version=0.0.4",
        "application/openmetrics-text;version=1.0.0": "application/openmetrics-text; version=1.0.0",
        "application/openmetrics-text;q=0.2,text/plain;q=0.9": "text/plain; version=0.0.4",
        PROMETHEUS_3: "application/openmetrics-text; version=1.0.0",
        "application/json": "text/plain; version=0.0.4",
    }.items():
        answer = web.get("/metrics", headers={"Accept": accept} if accept is not None else {"Accept": ""})
        assert answer.headers["content-type"].startswith(want), accept
        assert answer.text.endswith("# EOF\n") == ("openmetrics" in want)
        assert answer.headers["vary"] == "Accept, Accept-Encoding"
    assert web.head("/metrics").status_code == 200
    assert web.head("/metrics").content == b""
    assert web.post("/metrics").status_code == 405
    assert web.get("/").status_code == 200
    assert web.get("/nope").status_code == 404
    assert web.get("/metrics/", follow_redirects=False).status_code == 404
    plain = web.get("/metrics", headers={"Accept-Encoding": "identity"})
    with web.stream("GET", "/metrics", headers={"Accept-Encoding": "gzip"}) as zipped:
        assert zipped.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(zipped.iter_raw())) == plain.content
    refused = web.get("/metrics", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in refused.headers


def test_a_part_of_the_metrics_can_be_asked_for():
    """`?name[]=` restricts the scrape to these samples."""
    text = client("77").get("/metrics?name[]=pi_sessions_total&name[]=pimetrics_ready").text
    assert {s.name for family in parse_text(text) for s in family.samples} == {"pi_sessions_total", "pimetrics_ready"}


def test_names_follow_the_rules():
    """Case 77: no `_created`, counters end in `_total`, units stand in names."""
    text = client("77").get("/metrics").text
    families = list(parse_text(text))
    names = {s.name for family in families for s in family.samples}
    assert [name for name in names if name.endswith("_created")] == []
    for family in families:
        if family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples)
    for unit in case("77").right["units_in_names"]:
        assert any(unit in name for name in names)
    assert len(families) == len(METRICS)


def test_slow_tools_fit_into_finite_buckets():
    """Case 53: builds of minutes and sub-agents of an hour are not all in +Inf, milliseconds not all in the first."""
    found, right = case("53"), case("53").right
    samples = scraped(*found.files)
    name = "pi_tool_execution_duration_seconds"
    bounds = sorted({float(dict(labels)["le"]) for (sample, labels) in samples if sample == f"{name}_bucket"})
    assert bounds[0] <= right["smallest_bucket_at_most_s"]
    assert bounds[-2] >= right["largest_finite_bucket_at_least_s"]
    for tool, want in right["tool_latency"].items():
        assert total(samples, f"{name}_count", tool=tool) == want["count"]
        assert total(samples, f"{name}_sum", tool=tool) == want["sum_s"]
        assert total(samples, f"{name}_bucket", tool=tool, le=str(bounds[-2])) == want["count"]


def test_rare_counters_are_there_at_zero_before_they_happen():
    """Case 70: every closed label combination is exposed from the start."""
    samples = scraped()
    for scope in RETRY_SCOPES:
        for outcome in ("success", "exhausted", "aborted"):
            key = ("pi_retry_sequences_total", (("outcome", outcome), ("scope", scope)))
            assert samples[key] == 0
    for reason in ("manual", "threshold", "overflow"):
        for outcome in ("ok", "aborted", "failed"):
            assert samples["pi_compactions_total", (("outcome", outcome), ("reason", reason))] == 0
    assert samples["pimetrics_rejects_total", (("reason", "invalid_json"),)] == 0
    assert samples["pi_extension_errors_total", ()] == 0
    assert samples["pimetrics_sources", (("state", "unreadable"),)] == 0


def test_before_catch_up_only_the_exporter_shows():
    """Until catch-up is done /-/ready is 503 and no `pi_` metric is served, so history is never a ramp."""
    exporter = Exporter(clock=lambda: 0.0)
    web = TestClient(make_app(Exposition(exporter.snapshot), ready=lambda: exporter.ready))
    assert web.get("/-/ready").status_code == 503
    assert web.get("/-/healthy").status_code == 200
    names = {family.name for family in parse_text(web.get("/metrics").text)}
    assert [name for name in names if not name.startswith("pimetrics_")] == []
    exporter.ready = True
    assert web.get("/-/ready").status_code == 200
    assert "pi_sessions_total" in web.get("/metrics").text


def test_series_do_not_grow_with_sessions():
    """Case 73: a second thousand of sessions, folders and call ids adds no series, and no label names any of them."""
    exporter = Exporter(clock=lambda: 0.0)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PiCollector(exporter.snapshot))

    def grow(first, last):
        source = exporter.open("all")
        for n in range(first, last):
            exporter.feed(source, _session(n))
        return {(s.name, tuple(s.labels.items())) for family in registry.collect() for s in family.samples}

    exporter.ready = True
    before, after = grow(0, 1000), grow(1000, 2000)
    assert len(after) == len(before)
    labels = {name for _, pairs in after for name, _ in pairs}
    assert labels.isdisjoint(case("73").right["forbidden_labels"])


def _session(n):
    usage = '{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{"total":0.001}}'
    calls = "".join(
        f'{{"type":"tool_execution_start","toolCallId":"{n}-{k}","toolName":"t{k % 2}","args":{{}}}}\n'
        f'{{"type":"tool_execution_end","toolCallId":"{n}-{k}","toolName":"t{k % 2}","result":{{}},"isError":false}}\n'
        for k in range(4)
    )
    return (
        f'{{"type":"session","version":3,"id":"s{n}","timestamp":"2026-11-01T10:00:00.000Z","cwd":"/srv/{n}"}}\n'
        f'{{"type":"message_end","message":{{"role":"assistant","content":[],"provider":"p","model":"m","usage":{usage},'
        f'"stopReason":"stop","timestamp":{1794052800000 + n}}}}}\n{calls}'
    ).encode()

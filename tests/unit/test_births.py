"""New series are held at 0 for scrapers, and only for them."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from starlette.testclient import TestClient

from pimetrics.exporter import Exporter
from pimetrics.ledger.sqlite import SqliteLedger
from pimetrics.sinks.births import Births, head_of
from pimetrics.sinks.exposition import Exposition
from pimetrics.web.app import make_app

SCRAPER = {"X-Prometheus-Scrape-Timeout-Seconds": "10"}


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


def answer(n, model="m", session="s1"):
    """Return a session header and one answer."""
    return (
        f'{{"type":"session","version":3,"id":"{session}","timestamp":"2026-11-01T10:00:00.000Z","cwd":"/srv"}}\n'
        f'{{"type":"message_end","message":{{"role":"assistant","content":[],"provider":"p","model":"{model}",'
        f'"durationMs":500,"usage":{{"input":7,"output":1,"cost":{{"total":0.5}}}},"stopReason":"stop",'
        f'"timestamp":{1794052800000 + n}}}}}\n'
    ).encode()


def web(exporter):
    """Serve an exporter as `serve` does."""
    scrapers = Exposition(lambda: exporter.snapshot(scraper=True))
    return TestClient(make_app(Exposition(exporter.snapshot), ready=lambda: exporter.ready, for_scrapers=scrapers))


def cost(client, model="m", **headers):
    """Return the cost that a request is shown; None when the series is not there."""
    text = client.get("/metrics", headers=headers).text
    found = [
        s.value
        for family in parse_text(text)
        for s in family.samples
        if s.name == "pi_cost_usd_total" and s.labels["model"] == model and s.labels["operation"] == "turn"
    ]
    return found[0] if found else None


def test_a_new_series_is_held_for_every_scraper_until_the_hold_has_passed():
    """Two scrapers and a person: each scraper has a sample at 0 first, the person sees the truth."""
    clock = Clock()
    exporter = Exporter(clock=clock, zero_hold=60)
    exporter.ready = True
    client = web(exporter)
    source = exporter.open("x")
    exporter.feed(source, answer(0))
    clock.now += 500  # nobody looks for a while
    assert cost(client) == 0.5
    assert cost(client, **SCRAPER) == 0
    clock.now += 59
    assert cost(client, **SCRAPER) == 0
    exporter.feed(source, answer(1))
    assert cost(client) == 1.0
    clock.now += 1
    assert cost(client, **SCRAPER) == 1.0
    clock.now -= 3600  # a clock that goes back must not make a counter fall
    assert cost(client, **SCRAPER) == 1.0


def test_a_clock_that_was_ahead_holds_no_longer():
    """A birth that lies in the future, by a clock that was set right since, is one of now."""
    clock = Clock()
    exporter = Exporter(clock=clock, zero_hold=60)
    exporter.ready = True
    client = web(exporter)
    clock.now += 86400 * 365
    exporter.feed(exporter.open("x"), answer(0))
    assert cost(client, **SCRAPER) == 0
    clock.now -= 86400 * 365
    assert cost(client, **SCRAPER) == 0
    clock.now += 60
    assert cost(client, **SCRAPER) == 0.5


def test_histograms_are_held_whole():
    """A held histogram has no count in any bucket, and no exemplar."""
    exporter = Exporter(clock=Clock(), zero_hold=60)
    exporter.ready = True
    exporter.feed(exporter.open("x"), answer(0))
    client = web(exporter)
    for headers, count in ((SCRAPER, 0), ({}, 1)):
        text = client.get("/metrics", headers=headers | {"Accept": "application/openmetrics-text"}).text
        samples = [s for f in parse_openmetrics(text) if f.name == "pi_request_duration_seconds" for s in f.samples]
        assert {s.value for s in samples if s.name.endswith("_count")} == {count}
        assert len([s for s in samples if s.exemplar]) == count


def test_what_the_first_catch_up_finds_is_not_held():
    """History shows as it is at the first ready scrape; a series that comes later is held."""
    exporter = Exporter(clock=Clock(), zero_hold=60)
    exporter.feed(exporter.open("old"), answer(0, "old-model"))
    exporter.ready = True
    client = web(exporter)
    assert cost(client, "old-model", **SCRAPER) == 0.5
    exporter.feed(exporter.open("new"), answer(1, "new-model", "s2"))
    assert cost(client, "new-model", **SCRAPER) == 0
    assert cost(client, "old-model", **SCRAPER) == 0.5


def test_births_outlive_a_restart(tmp_path):
    """A released series never falls back to 0, a held one keeps its birth, one that came meanwhile is held."""
    clock = Clock()

    def start():
        exporter = Exporter(clock=clock, zero_hold=60, ledger=SqliteLedger(tmp_path / "ledger.db"))
        exporter.ready = True
        return exporter, web(exporter)

    exporter, client = start()
    exporter.feed(exporter.open("a"), answer(0, "a"))
    assert cost(client, "a", **SCRAPER) == 0
    clock.now += 60
    assert cost(client, "a", **SCRAPER) == 0.5
    exporter.feed(exporter.open("b"), answer(1, "b", "s2"))
    assert cost(client, "b", **SCRAPER) == 0
    assert exporter.unsaved_births
    exporter.commit()
    assert not exporter.unsaved_births
    exporter.ledger.close()

    clock.now += 30
    exporter, client = start()
    assert cost(client, "a", **SCRAPER) == 0.5
    assert cost(client, "b", **SCRAPER) == 0
    exporter.feed(exporter.open("c"), answer(2, "c", "s3"))
    assert cost(client, "c", **SCRAPER) == 0
    clock.now += 30
    assert cost(client, "b", **SCRAPER) == 0.5
    assert cost(client, "c", **SCRAPER) == 0
    exporter.ledger.close()


def test_what_came_after_an_empty_start_is_no_history_after_a_restart(tmp_path):
    """Begun with nothing to read and restarted before any scrape met the first series: it is held all the same."""

    def start():
        exporter = Exporter(clock=Clock(), zero_hold=60, ledger=SqliteLedger(tmp_path / "ledger.db"))
        exporter.ready = True
        return exporter, web(exporter)

    exporter, client = start()
    assert cost(client, **SCRAPER) is None
    exporter.feed(exporter.open("a"), answer(0))
    exporter.ledger.close()
    exporter, client = start()
    assert cost(client, **SCRAPER) == 0
    assert cost(client) == 0.5
    exporter.ledger.close()


def test_without_a_hold_nothing_is_held():
    """`--web.zero-hold 0` shows new series at once."""
    births = Births(0)
    assert not births.is_held(("pi_cost_usd_total", ("p", "m")), 0.0)


@pytest.mark.parametrize(
    ("metric", "labels", "head"),
    [
        ("pi_sessions_total", (), None),
        ("pi_compactions_total", ("manual", "ok"), None),
        ("pi_tool_calls_total", ("bash", "ok"), ("pi_tool_calls_total", ("bash",))),
        ("pi_request_duration_seconds", ("p", "m"), ("pi_request_duration_seconds", ("p", "m"))),
    ],
)
def test_a_series_is_born_with_its_open_labels(metric, labels, head):
    """Closed labels exist at 0 as soon as their open ones do."""
    assert head_of(metric, labels) == head


@pytest.mark.parametrize("session", ["x" * 500, "\\ud83d", "a\\nb\\u202e", "", "ä" * 40, '\\"}{='])
def test_hostile_session_ids_never_break_a_scrape(session):
    """An exemplar's session id is cleaned and cut: both formats parse, whatever the id."""
    exporter = Exporter(clock=Clock(), zero_hold=0)
    exporter.ready = True
    exporter.feed(exporter.open("x"), answer(0, session=session))
    client = web(exporter)
    text = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert text.status_code == 200
    exemplars = [s.exemplar for f in parse_openmetrics(text.text) for s in f.samples if s.exemplar]
    assert len(exemplars) >= 1
    for each in exemplars:
        assert sum(len(k) + len(v) for k, v in each.labels.items()) <= 128
    assert list(parse_text(client.get("/metrics").text))

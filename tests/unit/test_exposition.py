"""A scrape is what prometheus_client writes of the same series, and costs what has moved."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest as text_format
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_format

from pimetrics.exporter import Exporter
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.names import METRICS, OPEN_LABELS
from pimetrics.sinks import exposition
from pimetrics.sinks.exposition import Exposition
from pimetrics.sinks.metrics import PiCollector

NAMES = st.sampled_from(["m", "", 'a"b', "x\ny", "back\\slash", "\u2028", "naïve", "#", "# EOF", "m" * 200])
FAMILIES = sorted(name for name, family in METRICS.items() if family.kind != "gauge" and name.startswith("pi_"))


@st.composite
def moves(draw):
    """A series and by how much it moves."""
    name = draw(st.sampled_from(FAMILIES))
    labels = tuple(
        draw(NAMES) if label in OPEN_LABELS else draw(st.sampled_from(METRICS[name].closed[label]))
        for label in METRICS[name].labels
    )
    return name, labels, draw(st.integers(0, 10**15)), draw(st.sampled_from([None, "s1", 'odd"id\n']))


def registry_of(exporter):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PiCollector(exporter.snapshot))
    return registry


@given(st.lists(st.lists(moves(), max_size=6), max_size=5), st.booleans())
def test_it_is_what_prometheus_client_writes(rounds, ready):
    """Byte by byte, in both formats, scrape after scrape while series come and move."""
    ledger = MemoryLedger()
    exporter = Exporter(ledger=ledger, clock=lambda: 1e9)
    exporter.ready = ready
    shown, registry = Exposition(exporter.snapshot), registry_of(exporter)
    for batch in [[], *rounds]:
        for move in batch:
            ledger.totals.move(*move)
        exporter.commit()
        assert shown.text() == text_format(registry)
        assert shown.openmetrics() == openmetrics_format(registry)


def test_other_collectors_and_names():
    """The process's own metrics come after METRICS; `name[]` restricts both."""
    exporter = Exporter(clock=lambda: 1e9)
    shown = Exposition(exporter.snapshot, ProcessCollector(registry=None))
    page = shown.openmetrics().decode()
    assert page.count("# EOF\n") == 1
    assert page.endswith("# EOF\n")
    assert page.index("process_open_fds") > page.index("pimetrics_ready")
    assert shown.text(["pimetrics_ready"]).decode().splitlines()[2:] == ["pimetrics_ready 0.0"]


def test_a_scrape_writes_only_what_has_moved(monkeypatch):
    """Of thousands of series one has moved: only that one is written anew, in a histogram too."""
    written = []
    write = exposition.metric_of
    monkeypatch.setattr(
        exposition, "metric_of", lambda name, series: written.append((name, *series)) or write(name, series)
    )
    ledger = MemoryLedger()
    exporter = Exporter(ledger=ledger, clock=lambda: 1e9)
    exporter.ready = True
    for number in range(190):
        ledger.totals.move("pi_requests_total", ("p", f"m{number}", "stop"), 1)
        ledger.totals.move("pi_request_duration_seconds", ("p", f"m{number}"), 10**6)
    exporter.commit()
    shown = Exposition(exporter.snapshot)
    shown.text()
    written.clear()
    ledger.totals.move("pi_requests_total", ("p", "m7", "stop"), 1)
    ledger.totals.move("pi_request_duration_seconds", ("p", "m7"), 10**6)
    exporter.commit()
    shown.text()
    assert [each for each in written if each[0].startswith("pi_")] == [
        ("pi_requests_total", ("p", "m7", "stop")),
        ("pi_request_duration_seconds", ("p", "m7")),
    ]


@pytest.mark.parametrize("form", ["text", "openmetrics"])
def test_no_counter_falls_for_whom_it_is_shown_at_once(form):
    """Scrapes that overlap, each with its own moment: none is shown an older value than it saw before."""
    ledger = MemoryLedger()
    exporter = Exporter(ledger=ledger, clock=lambda: 1e9)
    exporter.ready = True
    shown, stop = Exposition(exporter.snapshot), threading.Event()
    falls = []

    def scrape():
        last = 0.0
        while not stop.is_set():
            page = getattr(shown, form)().decode()
            now = float(page.split("\npi_sessions_total ")[-1].split("\n")[0])
            if now < last:
                falls.append((last, now))
            last = now

    threads = [threading.Thread(target=scrape) for _ in range(4)]
    for each in threads:
        each.start()
    for _ in range(300):
        ledger.totals.move("pi_sessions_total", (), 1)
        exporter.commit()
    stop.set()
    for each in threads:
        each.join()
    assert falls == []

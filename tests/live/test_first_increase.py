"""The first request of a new model moves `increase()` in real Prometheus servers by its full amount."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.live.parts import program as installed
from tests.live.prometheus import Prometheus, exporter, free_port, get, prometheus, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = "6s"
"""Longer than any scrape interval here by far, so that a busy machine may miss some scrapes."""

INTERVALS = ("200ms", "500ms")
COST = 0.25
SERIES = 'pi_cost_usd_total{model="fresh",operation="turn"}'
WINDOW = "1m"


def answer(number: int, model: str = "fresh") -> bytes:
    """Return a stream's record of one answer that cost `COST`."""
    return (
        f'{{"type":"message_end","message":{{"role":"assistant","content":[],"provider":"quill","model":"{model}",'
        f'"usage":{{"input":7,"output":1,"cost":{{"total":{COST}}}}},"stopReason":"stop",'
        f'"timestamp":{1_796_065_800_000 + number}}}}}\n'
    ).encode()


SESSION = (
    b'{"type":"session","version":3,"id":"0d9d5f3e-0000-7000-8000-000000000001",'
    b'"timestamp":"2026-11-29T10:00:00.000Z","cwd":"/srv"}\n'
)


@contextlib.contextmanager
def two_servers(folder: Path, address: str, up: int = 1) -> Iterator[list[Prometheus]]:
    """Run two Prometheus servers that scrape one exporter, each in its own time."""
    program = installed("prometheus", "prometheus")
    with contextlib.ExitStack() as stack:
        servers = []
        for interval in INTERVALS:
            own = folder / interval
            own.mkdir()
            servers.append(stack.enter_context(prometheus(program, own, address, interval=interval, up=up)))
        yield servers


def shown(address: str) -> float:
    """Return the cost that a person with curl is shown."""
    lines = get(address, "/metrics")[1].splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("pi_cost_usd_total") and 'model="fresh"' in line and 'operation="turn"' in line
    )


def increase(server: Prometheus) -> float:
    """Return `increase()` of the series, without what it extrapolates.

    It multiplies last minus first by (time it assumes to be covered) / (time from first to last sample). Before the
    first sample it assumes nothing where that is 0, since a counter cannot come from below 0; after the last one it
    assumes the time to the end of the window, which is none when the window ends at that sample. So the factor is 1
    here; a dashboard, whose windows end elsewhere, shows up to one scrape interval's share more.
    """
    last = server.total(f"timestamp({SERIES})")
    return server.total(f"increase({SERIES}[{WINDOW}] @ {last:.3f})")


def has_risen_in_full(server: Prometheus, amount: float = COST) -> None:
    """Wait for the amount, then assert that it rose from 0, by all of it, once."""
    until(lambda: server.total(SERIES) == amount, f"a scrape shows {amount}")
    assert server.total(f"min_over_time({SERIES}[{WINDOW}])") == 0
    assert server.total(f"resets({SERIES}[{WINDOW}])") == 0
    assert increase(server) == pytest.approx(amount, rel=1e-9)


def test_a_new_model_rises_in_full_on_two_servers(tmp_path: Path) -> None:
    """Two servers and a person between: each server books the whole first request, and the person sees it at once."""
    with contextlib.ExitStack() as stack:
        pi = stack.enter_context(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0))
        assert pi.stdin is not None
        assert pi.stdout is not None
        options = ("--no-state", "--web.zero-hold", HOLD)
        address = stack.enter_context(exporter(tmp_path, "-", stdin=pi.stdout, options=options))
        servers = stack.enter_context(two_servers(tmp_path, address))
        pi.stdin.write(SESSION + answer(0))
        until(lambda: shown(address) == COST, "a plain GET shows the cost")
        for server in servers:
            has_risen_in_full(server)
        # the second request needs no hold: the series is there
        pi.stdin.write(answer(1))
        for server in servers:
            has_risen_in_full(server, 2 * COST)
        pi.stdin.close()


def test_a_restart_while_a_series_is_held_loses_nothing(tmp_path: Path) -> None:
    """Stopped while scrapers are shown 0 and started again on its ledger, the exporter gives the rise in full, once."""
    options = ("--state", str(tmp_path / "ledger.db"), "--web.zero-hold", HOLD)
    port = free_port()
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as first:
            pi = first.enter_context(
                subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            )
            assert pi.stdin is not None
            assert pi.stdout is not None
            address = first.enter_context(exporter(tmp_path, "-", stdin=pi.stdout, options=options, port=port))
            servers = stack.enter_context(two_servers(tmp_path, address))
            pi.stdin.write(SESSION + answer(0))
            for server in servers:
                until(lambda server=server: list(server.query(SERIES).values()) == [0], "a scrape shows 0")
            assert shown(address) == COST
            pi.stdin.close()
        assert get(address, "/metrics")[0] == 0
        nothing = tmp_path / "nothing"
        nothing.mkdir()
        stack.enter_context(exporter(tmp_path, nothing, options=options, port=port))
        for server in servers:
            has_risen_in_full(server)


def test_history_is_no_increase(tmp_path: Path) -> None:
    """What session files held before the start shows in full at the first scrape, and as no increase at any time."""
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    entries = (
        answer(n).replace(b'"message_end"', b'"message","id":"%08x","timestamp":"2026-11-29T10:00:01.000Z"' % n)
        for n in range(40)
    )
    (sessions / "old.jsonl").write_bytes(SESSION + b"".join(entries))
    port = free_port()
    target = f"127.0.0.1:{port}"
    # the servers come first, so that they see the exporter from its first moment on
    with (
        two_servers(tmp_path, target, up=0) as servers,
        exporter(tmp_path, sessions, options=("--no-state", "--web.zero-hold", HOLD), port=port),
    ):
        for server in servers:
            until(lambda server=server: server.total(f"count_over_time({SERIES}[{WINDOW}])") >= 5, "five scrapes")
            assert server.total(f"min_over_time({SERIES}[{WINDOW}])") == 40 * COST
            assert server.total(f"increase({SERIES}[{WINDOW}])") == 0

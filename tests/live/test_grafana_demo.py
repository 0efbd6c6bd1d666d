"""What somebody sees who starts `pimetrics demo` to look at the dashboards."""

from __future__ import annotations

import sys
import time

import pytest

from tests import grafana_files as files
from tests.live import grafana_stack as stack
from tests.live.prometheus import free_port, get, running, until
from tests.live.test_grafana_queries import RARE, TARGETS

pytestmark = pytest.mark.live

SPEED = 8
FIVE_MINUTES_S = 300


def test_the_demo_fills_every_panel_within_five_minutes(tmp_path):
    """Played eight times as fast, the demo has data in every panel but the documented rare ones, in a part of the time."""
    address = f"127.0.0.1:{free_port()}"
    argv = [sys.executable, "-m", "pimetrics", "demo", "--web.listen-address", address, "--speed", str(SPEED)]
    with running(argv, tmp_path / "demo.log") as alive:
        until(lambda: alive() and get(address, "/-/ready")[0] == 200, "the demo is ready")
        with stack.prometheus(files.program("prometheus"), address, tmp_path) as store:
            start = time.time()
            waiting = [target for target in TARGETS if target.where not in RARE]

            def filled() -> bool:
                now = time.time()
                span = int(now - start) + 5
                waiting[:] = [target for target in waiting if not _answer(store, target, start, now, span)]
                return not waiting

            try:
                until(filled, "data in every panel", FIVE_MINUTES_S)
            except AssertionError:
                pytest.fail(f"no data in five minutes: {[target.where for target in waiting]}")


def _answer(store, target, start, now, span):
    expr = files.substituted(target.expr, "10s", f"{span}s")
    return store.ask(expr, now) if target.query.get("instant") else store.ask_range(expr, start, now, 5)

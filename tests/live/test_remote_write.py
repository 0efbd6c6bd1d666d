"""Years of it: a Prometheus agent scrapes and writes on to VictoriaMetrics, which goes away meanwhile."""

from __future__ import annotations

import json
import math
import os
import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.golden.recordings import recordings
from tests.grafana_files import program
from tests.live import grafana_stack as stack
from tests.live.history import AT, RANGE, backfill, imported, moved, spent
from tests.live.prometheus import exporter, free_port, get, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

PAST, FIRST, AWAY = (
    next(each for each in recordings() if each.name == name)
    for name in ("1.6.0/long_session", "1.6.0/threshold", "1.6.0/rpc_cache_warm")
)
"""What was there before all scraping, what comes while everything runs, what comes while the database is away."""


@contextmanager
def agent(target: str, database: str, work: Path) -> Iterator[str]:
    """Run Prometheus as an agent: it keeps nothing but what it has not yet written on."""
    config = work / "agent.yaml"
    queue = {"batch_send_deadline": "250ms", "min_backoff": "100ms", "max_backoff": "500ms"}
    written = {
        "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms"},
        "scrape_configs": [{"job_name": "pimetrics", "static_configs": [{"targets": [target]}]}],
        "remote_write": [{"url": f"http://{database}/api/v1/write", "queue_config": queue}],
    }
    config.write_text(json.dumps(written))
    address = f"127.0.0.1:{free_port()}"
    argv = [
        program("prometheus"), "--enable-feature=agent", f"--config.file={config}",
        f"--storage.agent.path={work / 'agent'}", f"--web.listen-address={address}",
    ]  # fmt: skip
    with running(argv, work / "agent.log") as alive:
        until(lambda: alive() and get(address, "/-/ready")[0] == 200, f"the agent at {address} is ready")
        yield address


def _pending(address: str) -> float:
    """How many samples an agent holds that the database has not taken."""
    _, page = get(address, "/metrics")
    found = re.search(r"^prometheus_remote_storage_samples_pending\{.*\} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _rise(store: stack.Store, metric: str, **labels: str) -> float:
    """Last minus least of every series over the whole time, summed up."""
    matcher = ",".join(f'{name}="{value}"' for name, value in {"job": "pimetrics", **labels}.items())
    series = f"{metric}{{{matcher}}}[{RANGE}]"
    return store.number(f"sum(last_over_time({series}) - min_over_time({series}))") or 0.0


def test_what_is_written_on_is_all_that_was_spent(tmp_path: Path) -> None:
    """The past imported, live through an agent, the database killed and back: cost and tokens are the oracle's."""
    folder, address = tmp_path / "archive", f"127.0.0.1:{free_port()}"
    folder.mkdir()
    past = folder / "past.jsonl"
    past.write_bytes(moved(PAST))
    os.utime(past, (AT, AT))
    wanted = [spent(each) for each in (PAST, FIRST, AWAY)]
    costs = [cost for cost, _ in wanted]
    assert all(costs)

    def costs_so_far(store: stack.Store, want: float) -> bool:
        return math.isclose(_rise(store, "pi_cost_usd_total"), want, rel_tol=1e-9)

    def database() -> Iterator[stack.Store]:
        return stack.victoria(program("victoria-metrics"), None, tmp_path, "-retentionPeriod=100y", address=address)

    with ExitStack() as parts:
        target = parts.enter_context(exporter(tmp_path, folder, options=("--no-state", "--web.zero-hold", "2s")))
        scraping = parts.enter_context(ExitStack())
        with database() as store:
            imported(store, backfill(past, target, tmp_path / "past.om"))
            writing = scraping.enter_context(agent(target, address, tmp_path))
            until(lambda: store.number("min(pimetrics_ready)") == 1, "the first scrapes, written on")
            (folder / "first.jsonl").write_bytes(moved(FIRST))
            until(lambda: costs_so_far(store, costs[0] + costs[1]), "what came while all ran", stack.PATIENCE_S)
        (folder / "away.jsonl").write_bytes(moved(AWAY))
        until(lambda: _pending(writing) > 0, "samples that wait for the database")
        with database() as store:
            until(lambda: costs_so_far(store, sum(costs)), "what came while it was away", stack.PATIENCE_S)
            for kind in wanted[0][1]:
                want = sum(tokens[kind] for _, tokens in wanted)
                until(lambda kind=kind, want=want: _rise(store, "pi_tokens_total", token_type=kind) == want, kind)
            gaps = store.ask(f'sum(resets(pi_cost_usd_total{{job="pimetrics"}}[{RANGE}]))')
            assert [float(row["value"][1]) for row in gaps] == [0]

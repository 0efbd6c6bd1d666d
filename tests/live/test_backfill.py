"""`pimetrics backfill` into a real Prometheus and VictoriaMetrics: exact totals, and live series go on where it ends."""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import pimetrics as pm
from pimetrics.names import COUNTER, HISTOGRAM, METRICS
from tests.golden.recordings import Recording, recordings
from tests.grafana_files import program
from tests.live import grafana_stack as stack
from tests.live.history import AT, MOVED_DAYS, RANGE, RECORDED, TOKENS, backfill, imported, moved, spent
from tests.live.prometheus import exporter, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

PLAYED = [each for each in recordings() if re.match(r"(0\.58|1\.[36])\.\d+/", each.name)]
ALONE = [
    each
    for each in PLAYED
    if each.name in {"1.6.0/long_session", "1.6.0/threshold", "1.6.0/rpc_cache_warm", "1.6.0/rpc_extension"}
]
"""Many turns; paid summaries; usage entries; a tool with usage of its own."""

TIMELESS = {"pi_extension_errors_total"}
"""An event without any time, and no row: live only."""

NAMES = [
    name + end
    for name, family in METRICS.items()
    if name.startswith("pi_") and name not in TIMELESS and family.kind in (COUNTER, HISTOGRAM)
    for end in (("_bucket", "_count", "_sum") if family.kind == HISTOGRAM else ("",))
]

Series = dict[tuple[tuple[str, str], ...], list[tuple[float, float]]]


class Past(NamedTuple):
    """Two databases with the backfilled past, that also scrape an exporter over the same archive."""

    folder: Path
    instance: str
    prometheus: stack.Store
    victoria: stack.Store
    start: float


def _blocks(text: Path, data: Path) -> None:
    argv = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=720h"]
    done = subprocess.run([*argv, str(text), str(data)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """Backfill all recordings together as the exporter's own series, and some alone, then start what scrapes it."""
    work, folder = tmp_path_factory.mktemp("past"), tmp_path_factory.mktemp("archive")
    for recording in PLAYED:
        path = folder / f"{recording.name.replace('/', '-')}.jsonl"
        path.write_bytes(moved(recording))
        os.utime(path, (AT, AT))  # an archive is as old as it says: what stands open in it has ended
    with ExitStack() as parts:
        instance = parts.enter_context(exporter(work, folder))
        texts = [backfill(folder, instance, work / "all.om")]
        for one in ALONE:
            path = folder / f"{one.name.replace('/', '-')}.jsonl"
            texts.append(backfill(path, one.name, work / f"{path.stem}.om"))
        for text in texts:
            _blocks(text, work / "prometheus")
        start = time.time()
        prometheus = parts.enter_context(
            stack.prometheus(program("prometheus"), instance, work, "--storage.tsdb.retention.time=100y")
        )
        victoria = parts.enter_context(
            stack.victoria(program("victoria-metrics"), instance, work, "-retentionPeriod=100y")
        )
        for text in texts:
            imported(victoria, text)
        for store in (prometheus, victoria):
            after = time.time() + 2
            until(
                lambda store=store, after=after: (
                    (store.number("min(timestamp(pimetrics_ready))") or 0) > after
                    and store.number(
                        f'count(last_over_time(pi_cost_usd_total{{instance="{ALONE[-1].name}"}}[{RANGE}]))'
                    )
                ),
                "scrapes, and what was imported",
                stack.PATIENCE_S,
            )
        yield Past(folder, instance, prometheus, victoria, start)


each_store = pytest.mark.parametrize("which", ["prometheus", "victoria"])


def _rise(store: stack.Store, metric: str, by: str, instance: str) -> dict[str, float]:
    """Last minus first over the whole range; a counter's first is its least."""
    series = f'{metric}{{job="pimetrics",instance="{instance}"}}[{RANGE}]'
    rows = store.ask(f"sum by ({by}) (last_over_time({series}) - min_over_time({series}))")
    return {row["metric"].get(by, ""): float(row["value"][1]) for row in rows}


def _close(found: float, wanted: float) -> bool:
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)


@each_store
@pytest.mark.parametrize("recording", ALONE, ids=[each.name for each in ALONE])
def test_a_recording_is_its_oracle(past: Past, which: str, recording: Recording):
    """Last minus first of cost and of each kind of tokens is what the oracle counted in the recording."""
    want, kinds = spent(recording)
    store = getattr(past, which)
    (cost,) = _rise(store, "pi_cost_usd_total", "job", recording.name).values()
    assert want > 0
    assert _close(cost, want)
    tokens = _rise(store, "pi_tokens_total", "token_type", recording.name)
    assert {kind: tokens.get(kind, 0) for kind in kinds} == kinds


@each_store
def test_an_archive_is_its_tables(past: Past, which: str):
    """All recordings together, which share sessions, are the distinct sum of the tables; live adds nothing to it."""
    usage = pm.read(past.folder).usage.filter("settled")
    store = getattr(past, which)
    (cost,) = _rise(store, "pi_cost_usd_total", "job", past.instance).values()
    assert _close(cost, usage["cost_usd"].sum())
    tokens = _rise(store, "pi_tokens_total", "token_type", past.instance)
    assert tokens == {label: usage[f"{label}_tokens"].fill_null(0).sum() for label in TOKENS.values()}


def _series(store: stack.Store, instance: str) -> Series:
    """All samples of the counters and histograms of an instance."""
    matcher = f'{{__name__=~"{"|".join(NAMES)}",instance="{instance}"}}'
    return {
        tuple(sorted(row["metric"].items())): [(float(at), float(value)) for at, value in row["values"]]
        for row in store.ask(f"{matcher}[{RANGE}]")
    }


@each_store
def test_live_goes_on_where_the_past_ends(past: Past, which: str):
    """Every backfilled series is scraped with the same labels, its first scraped value is the last backfilled one."""
    found = _series(getattr(past, which), past.instance)
    backfilled = {key: [v for at, v in samples if at < past.start] for key, samples in found.items()}
    scraped = {key: [v for at, v in samples if at >= past.start] for key, samples in found.items()}
    joined = {key: (values[-1], scraped[key]) for key, values in backfilled.items() if values}
    assert len(joined) > 300
    assert not {key: both for key, both in joined.items() if set(both[1]) != {both[0]}}
    assert all(backfilled[key] or not any(values) for key, values in scraped.items())


@each_store
def test_there_is_no_reset(past: Past, which: str):
    """PromQL sees no counter reset in the past, nor where live begins."""
    for name in NAMES:
        matcher = f'{name}{{instance="{past.instance}"}}[{RANGE}]'
        assert not getattr(past, which).number(f"sum(resets({matcher}))"), name


def test_the_past_stands_at_its_time(past: Past):
    """A block begins and ends with the facts: nothing reaches into the hours that Prometheus keeps in memory."""
    samples = [at for values in _series(past.prometheus, past.instance).values() for at, _ in values]
    last = max(at for at in samples if at < past.start)
    assert datetime.fromtimestamp(last, UTC).date() == RECORDED - timedelta(MOVED_DAYS)
    assert last < past.start - 3 * 3600

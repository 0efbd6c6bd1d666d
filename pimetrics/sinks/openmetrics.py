"""Facts to history: OpenMetrics text with the times at which things happened, for `promtool tsdb create-blocks-from`.

Every counter and histogram of METRICS that has moved becomes a series whose samples stand at the times of its facts. A
series begins with a sample at 0, and a sample repeats the old value shortly before each rise after a gap, so `rate()`
and `increase()` over any window see the rise where it was. The last values are the totals that `serve` shows for the
same archive: backfilled and live series join without a jump when their labels agree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from pimetrics.names import HISTOGRAM, METRICS
from pimetrics.names import Metric as Family

Labels = tuple[str, ...]

GAP_MS: Final = 60_000
"""A rise more than this after the sample before it gets a sample of the old value this long before it."""


class Moved(NamedTuple):
    """One move of a counter or one observation of a histogram.

    Attributes:
        metric: Name in METRICS.
        labels: Values of its labels.
        amount: In internal units.
        time: Epoch ms.
    """

    metric: str
    labels: Labels
    amount: int
    time: int


def history(moves: Iterable[Moved], extra: Mapping[str, str] | None = None) -> Iterator[bytes]:
    """Yield OpenMetrics text, a family at a time, `# EOF` last.

    Args:
        moves: In any order.
        extra: Labels that every series gets, for example job and instance.
    """
    families: dict[str, dict[Labels, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for move in moves:
        families[move.metric][move.labels].append((move.time, move.amount))
    added = dict(extra or {})
    for name, family in METRICS.items():
        if name in families:
            yield _text(_family(name, family, families.pop(name), added))
    yield b"# EOF\n"


class _Only(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _text(metric: Metric) -> bytes:
    text: bytes = generate_latest(_Only(metric))
    return text.removesuffix(b"# EOF\n")


def _family(name: str, family: Family, series: dict[Labels, list[tuple[int, int]]], added: dict[str, str]) -> Metric:
    names = (*family.labels, *added)
    out: Any = (HistogramMetricFamily if family.kind == HISTOGRAM else CounterMetricFamily)(
        name, family.help, labels=names
    )
    bounds = [round(bound * family.scale) for bound in family.buckets]
    texts = [*(str(float(bound)) for bound in family.buckets), "+Inf"]
    for labels, moves in sorted(series.items()):
        values = (*labels, *added.values())
        moves.sort()
        counts, total = [0] * (len(bounds) + 1), 0
        for time, amounts in _samples(moves):
            for amount in amounts:
                total += amount
                counts[bisect_left(bounds, amount)] += 1
            if family.kind == HISTOGRAM:
                buckets = list(zip(texts, map(float, accumulate(counts)), strict=True))
                out.add_metric(values, buckets, total / family.scale, timestamp=time / 1000)
            else:
                out.add_metric(values, total / family.scale, timestamp=time / 1000)
    found: Metric = out
    return found


def _samples(moves: list[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Yield (time, amounts that come in) of a series' samples, in order of time, none at the same time."""
    at: int | None = None
    group: list[int] = []
    last: int | None = None
    for time, amount in [*moves, (None, 0)]:
        if time == at:
            group.append(amount)
            continue
        if at is not None:
            if last is None or at - last > GAP_MS:
                yield at - GAP_MS, []
            yield at, group
            last = at
        at, group = time, [amount]

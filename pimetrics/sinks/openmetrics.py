"""Facts to history: OpenMetrics text with the times at which things happened, for `promtool tsdb create-blocks-from`.

Every counter and histogram of METRICS that has moved becomes a series whose samples stand at the times of its facts. A
series begins with a sample at 0, and a sample repeats the old value shortly before each rise after a gap, so `rate()`
and `increase()` over any window see the rise where it was. The last values are the totals that `serve` shows for the
same archive: backfilled and live series join without a jump when their labels agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, Metric, UnknownMetricFamily
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
        for metric in _families(name, family, families.pop(name, {}), added):
            yield _text(metric)
    yield b"# EOF\n"


class _Only(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _text(metric: Metric) -> bytes:
    text: bytes = generate_latest(_Only(metric))
    return text.removesuffix(b"# EOF\n")


def _families(
    name: str, family: Family, series: dict[Labels, list[tuple[int, int]]], added: dict[str, str]
) -> Iterator[Metric]:
    if not series:
        return
    if family.kind == HISTOGRAM:
        yield from _histogram(name, family, series, added)
        return
    out = CounterMetricFamily(name, family.help, labels=(*family.labels, *added))
    for labels, moves in sorted(series.items()):
        total = 0
        for time, amounts in _samples(moves):
            total += sum(amounts)
            out.add_metric((*labels, *added.values()), total / family.scale, timestamp=time / 1000)
    yield out


def _histogram(
    name: str, family: Family, series: dict[Labels, list[tuple[int, int]]], added: dict[str, str]
) -> Iterator[Metric]:
    """Yield a histogram's series as three families of no type.

    A typed histogram must have all its series together at each time, and Python's own parser then loses samples
    (prometheus_client 0.26). A database keeps names and values, which are the same either way.
    """
    names = (*family.labels, *added)
    buckets = UnknownMetricFamily(f"{name}_bucket", family.help, labels=(*names, "le"))
    count = UnknownMetricFamily(f"{name}_count", family.help, labels=names)
    total = UnknownMetricFamily(f"{name}_sum", family.help, labels=names)
    for labels, moves in sorted(series.items()):
        values = (*labels, *added.values())
        for bound in (*family.buckets, float("inf")):
            limit = bound * family.scale
            seen = 0
            for time, amounts in _samples(moves):
                seen += sum(amount <= limit for amount in amounts)
                buckets.add_metric((*values, _le(bound)), seen, timestamp=time / 1000)
        seen = added_up = 0
        for time, amounts in _samples(moves):
            seen += len(amounts)
            added_up += sum(amounts)
            count.add_metric(values, seen, timestamp=time / 1000)
            total.add_metric(values, added_up / family.scale, timestamp=time / 1000)
    yield from (buckets, count, total)


def _le(bound: float) -> str:
    """Write a bound as the scrape does, or the series would not join."""
    return "+Inf" if bound == float("inf") else str(float(bound))


def _samples(moves: list[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Yield (time, amounts that come in) of a series' samples, in order of time, none at the same time."""
    moves.sort()
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

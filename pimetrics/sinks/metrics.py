"""METRICS as a Prometheus collector: reads a snapshot of the totals and the live state, and never a session file.

The collector goes on whatever registry it is given. It keeps nothing between scrapes, so the cost of a scrape depends
on the number of series, not on history. (`exposition` keeps the text of what has not moved.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, product
from typing import Any, Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from pimetrics import __version__
from pimetrics.names import COUNTER, HISTOGRAM, METRICS, exemplar_value
from pimetrics.names import Metric as Family
from pimetrics.snapshots import Labels, Observed, Snapshot

T = TypeVar("T")


class PiCollector(Collector):
    """Collects METRICS from a snapshot.

    Args:
        snapshot: Called once a scrape.
    """

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[Metric]:
        """Name the families without taking a snapshot (registries ask once, to find clashes)."""
        for name, family in METRICS.items():
            yield Metric(name.removesuffix("_total") if family.kind == COUNTER else name, family.help, family.kind)

    def collect(self) -> Iterator[Metric]:
        """Yield every family, with all its series."""
        for name, series in shown(self._snapshot()):
            yield metric_of(name, series)


def shown(now: Snapshot) -> Iterator[tuple[str, Mapping[Labels, Any]]]:
    """Yield the families that a scrape shows: (name, label values to what the series shows), zeros included."""
    for name, family in METRICS.items():
        if not now.ready and name.startswith("pi_"):
            continue
        if name == "pimetrics_build_info":
            yield name, {(__version__,): 1}
        elif family.kind == COUNTER:
            yield name, _with_zeros(family, now.counters.get(name, {}), 0)
        elif family.kind == HISTOGRAM:
            yield name, _with_zeros(family, now.histograms.get(name, {}), _NOTHING[name])
        else:
            yield name, _with_zeros(family, now.gauges.get(name, {}), 0.0)


def metric_of(name: str, series: Mapping[Labels, Any]) -> Metric:
    """Return a family as prometheus_client has it, its series sorted by label values."""
    family = METRICS[name]
    if family.kind == COUNTER:
        return _counter(name, family, series)
    if family.kind == HISTOGRAM:
        return _histogram(name, family, series)
    return _gauge(name, family, series)


def _counter(name: str, family: Family, values: Mapping[Labels, int]) -> Metric:
    out = CounterMetricFamily(name, family.help, labels=family.labels)
    for labels, amount in sorted(values.items()):
        out.add_metric(labels, amount / family.scale)
    return out


def _gauge(name: str, family: Family, values: Mapping[Labels, float]) -> Metric:
    out = GaugeMetricFamily(name, family.help, labels=family.labels)
    for labels, value in sorted(values.items()):
        out.add_metric(labels, value)
    return out


def _histogram(name: str, family: Family, values: Mapping[Labels, Observed]) -> Metric:
    out = HistogramMetricFamily(name, family.help, labels=family.labels)
    bounds = _BOUNDS[name]
    for labels in sorted(values):
        seen = values[labels]
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        for index, (bound, count) in enumerate(zip(bounds, accumulate(seen.counts), strict=True)):
            found = seen.exemplars.get(index)
            buckets.append((bound, float(count)) if found is None else (bound, float(count), _exemplar(found, family)))
        out.add_metric(labels, buckets, seen.total / family.scale)
    return out


def _exemplar(found: tuple[str, int], family: Family) -> Exemplar:
    # Cleaned and cut: the encoder raises on a long one, and then every scrape fails.
    return Exemplar({"session_id": exemplar_value(found[0])}, found[1] / family.scale)


def _bound(value: float) -> str:
    return str(float(value))


_BOUNDS: Final = {
    name: [*map(_bound, family.buckets), "+Inf"] for name, family in METRICS.items() if family.kind == HISTOGRAM
}
_NOTHING: Final = {name: Observed((0,) * len(bounds), 0) for name, bounds in _BOUNDS.items()}


def _with_zeros(family: Family, values: Mapping[Labels, T], zero: T) -> dict[Labels, T]:
    """Add the series that exist at 0 from the start.

    Without open labels: every combination of the closed ones. With them: for each combination of open values that has
    been seen, every value of the last label, so that `rate()` of the first error of a tool is not lost.
    """
    filled = dict(values)
    last = family.labels[-1] if family.labels else None
    if all(label in family.closed for label in family.labels):
        for labels in product(*(family.closed[label] for label in family.labels)):
            filled.setdefault(labels, zero)
    elif last in family.closed:
        for head in {labels[:-1] for labels in values}:
            for value in family.closed[last]:
                filled.setdefault((*head, value), zero)
    return filled

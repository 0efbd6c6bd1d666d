"""A scrape as text, in both formats: written by prometheus_client, and only where something has moved.

Of ten thousand series a handful move between two scrapes. The text of each series is kept with the value that it
shows, so a scrape costs what has moved, and a look at the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import generate_latest as text_format
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_format
from prometheus_client.registry import Collector

from pimetrics.names import HISTOGRAM, METRICS
from pimetrics.sinks.metrics import PiCollector, metric_of, shown
from pimetrics.snapshots import Labels, Snapshot

Write = Callable[[Collector], bytes]

_HEAD_LINES = 2
"""HELP and TYPE."""


class Exposition:
    """What /metrics answers.

    Args:
        snapshot: Called once a scrape, from any thread.
        others: Whatever else is shown, after METRICS.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], *others: Collector) -> None:
        self._snapshot = snapshot
        self._others = _Ready(others)
        self._registry = CollectorRegistry(auto_describe=False)
        for each in (PiCollector(snapshot), *others):
            self._registry.register(each)
        self._text = {name: _Kept(name, text_format) for name in METRICS}
        self._openmetrics = {name: _Kept(name, openmetrics_format) for name in METRICS}

    def text(self, names: Sequence[str] = ()) -> bytes:
        """Return the text format; of samples with these names only, if any are given."""
        return self._page(text_format, self._text, names)

    def openmetrics(self, names: Sequence[str] = ()) -> bytes:
        """Return OpenMetrics, in the same way."""
        return self._page(openmetrics_format, self._openmetrics, names)

    def _page(self, write: Write, kept: Mapping[str, _Kept], names: Sequence[str]) -> bytes:
        if names:
            return write(self._registry.restricted_registry(names))
        ours = "".join(kept[name].text(series) for name, series in shown(self._snapshot()))
        return ours.encode() + write(self._others)


class _Kept:
    """One family in one format, as it was written last."""

    def __init__(self, name: str, write: Write) -> None:
        self._name = name
        self._write = write
        family = METRICS[name]
        self._lines = len(family.buckets) + 3 if family.kind == HISTOGRAM else 1  # +Inf, count and sum
        self._head = "".join(f"{line}\n" for line in self._written({})[:_HEAD_LINES])
        self._texts: dict[Labels, tuple[Any, str]] = {}

    def text(self, series: Mapping[Labels, Any]) -> str:
        """Return the family's text."""
        texts = self._texts
        moved = {
            labels: value for labels, value in series.items() if (kept := texts.get(labels)) is None or kept[0] != value
        }
        if moved:
            lines, size = self._written(moved)[_HEAD_LINES:], self._lines
            # Another scrape may do the same at this moment, with other values: each shows its own, the last is kept.
            texts = texts.copy()
            for number, labels in enumerate(sorted(moved)):
                own = lines[number * size : (number + 1) * size]
                texts[labels] = moved[labels], "".join(f"{line}\n" for line in own)
            self._texts = texts
        return self._head + "".join(texts[labels][1] for labels in sorted(series))

    def _written(self, series: Mapping[Labels, Any]) -> list[str]:
        return self._write(_Ready([metric_of(self._name, series)])).decode().split("\n")


class _Ready(Collector):
    """Families that are there, or those of other collectors."""

    def __init__(self, parts: Iterable[Metric | Collector]) -> None:
        self._parts = list(parts)

    def collect(self) -> Iterable[Metric]:
        for part in self._parts:
            if isinstance(part, Metric):
                yield part
            else:
                yield from part.collect()

"""Totals and gauges at one moment: what a request for metrics is shown. Exporters make it, sinks and page show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Labels = tuple[str, ...]


class Observed(NamedTuple):
    """A histogram at one moment.

    Attributes:
        counts: By bucket, not cumulative, +Inf last.
        total: The sum, in internal units.
        exemplars: Bucket to (session id, amount in internal units), the latest of each.
    """

    counts: tuple[int, ...]
    total: int
    exemplars: Mapping[int, tuple[str, int]] = {}


class Snapshot(NamedTuple):
    """Everything that a scrape shows, at one moment.

    Attributes:
        counters: By metric, label values to amount in internal units.
        histograms: The same for histograms.
        gauges: By metric, label values to value.
        ready: Whether catch-up is done; before that only `pimetrics_*` is shown, so that history is never a ramp.
    """

    counters: Mapping[str, Mapping[Labels, int]]
    histograms: Mapping[str, Mapping[Labels, Observed]]
    gauges: Mapping[str, Mapping[Labels, float]]
    ready: bool = True

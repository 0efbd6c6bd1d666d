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
from typing import Final, NamedTuple

from prometheus_client.utils import floatToGoString

from pimetrics.names import HISTOGRAM, METRICS
from pimetrics.names import Metric as Family

Labels = tuple[str, ...]
Moves = list[tuple[int, int]]
"""(epoch ms, amount) of one series."""

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
    """Yield OpenMetrics text, a series at a time, `# EOF` last.

    The text is written here and not by prometheus_client, which holds a whole family as objects and as text: history
    is a hundred times what a scrape is.

    Args:
        moves: In any order.
        extra: Labels that every series gets, for example job and instance.
    """
    families: dict[str, dict[Labels, Moves]] = defaultdict(lambda: defaultdict(list))
    for move in moves:
        families[move.metric][move.labels].append((move.time, move.amount))
    added = dict(extra or {})
    for name, family in METRICS.items():
        series = families.pop(name, None)
        if series:
            write = _histogram if family.kind == HISTOGRAM else _counter
            for text in write(name, family, series, added):
                yield text.encode()
    yield b"# EOF\n"


def _counter(name: str, family: Family, series: dict[Labels, Moves], added: dict[str, str]) -> Iterator[str]:
    yield _head(name.removesuffix("_total"), family, "counter")
    for labels in sorted(series):
        times, groups = _samples(series.pop(labels))
        totals = accumulate(map(sum, groups))
        yield _lines(_series(name, family, labels, added), times, (total / family.scale for total in totals))


def _histogram(name: str, family: Family, series: dict[Labels, Moves], added: dict[str, str]) -> Iterator[str]:
    """Yield a histogram's series as three families of no type.

    A typed histogram must have all its series together at each time, and Python's own parser then loses samples
    (prometheus_client 0.26). A database keeps names and values, which are the same either way.
    """
    kept = {labels: _samples(series.pop(labels)) for labels in sorted(series)}
    limits = [bound * family.scale for bound in family.buckets]
    yield _head(f"{name}_bucket", family, "unknown")
    for labels, (times, groups) in kept.items():
        buckets = [[bisect_left(limits, amount) for amount in amounts] for amounts in groups]
        for number, bound in enumerate((*family.buckets, float("inf"))):
            seen = accumulate(sum(bucket <= number for bucket in each) for each in buckets)
            yield _lines(_series(f"{name}_bucket", family, labels, {**added, "le": _le(bound)}), times, seen)
    yield _head(f"{name}_count", family, "unknown")
    for labels, (times, groups) in kept.items():
        yield _lines(_series(f"{name}_count", family, labels, added), times, accumulate(map(len, groups)))
    yield _head(f"{name}_sum", family, "unknown")
    for labels, (times, groups) in kept.items():
        totals = accumulate(map(sum, groups))
        yield _lines(_series(f"{name}_sum", family, labels, added), times, (total / family.scale for total in totals))


def _head(name: str, family: Family, kind: str) -> str:
    return f"# HELP {name} {_escaped(family.help)}\n# TYPE {name} {kind}\n"


def _series(name: str, family: Family, labels: Labels, added: Mapping[str, str]) -> str:
    named = {**dict(zip(family.labels, labels, strict=True)), **added}
    inside = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(named.items()))
    return f"{name}{{{inside}}}" if inside else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _lines(series: str, times: list[int], values: Iterable[float]) -> str:
    return "".join(
        f"{series} {floatToGoString(value)} {time // 1000}.{time % 1000:03d}\n"
        for time, value in zip(times, values, strict=True)
    )


def _le(bound: float) -> str:
    """Write a bound as the scrape does, or the series would not join."""
    return "+Inf" if bound == float("inf") else str(float(bound))


def _samples(moves: Moves) -> tuple[list[int], list[list[int]]]:
    """Return the times of a series' samples, rising, and the amounts that come in at each."""
    moves.sort()
    times: list[int] = []
    groups: list[list[int]] = []
    for time, amount in moves:
        if times and time == times[-1]:
            groups[-1].append(amount)
            continue
        if not times or time - times[-1] > GAP_MS:
            times.append(time - GAP_MS)
            groups.append([])
        times.append(time)
        groups.append([amount])
    return times, groups

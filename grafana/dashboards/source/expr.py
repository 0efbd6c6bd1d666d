"""PromQL for the panels, built from METRICS so that a panel cannot ask for a label that a metric does not have.

Rates use `$__rate_interval` and totals `$__range`: a fixed window either holds fewer than two samples or hides the
picked range.
"""

from __future__ import annotations

import re
from typing import Final

from pimetrics.names import HISTOGRAM, METRICS

RATE: Final = "$__rate_interval"
RANGE: Final = "$__range"

EXTERNAL: Final = {
    "up": (),
    "scrape_duration_seconds": (),
    "scrape_samples_scraped": (),
    "process_resident_memory_bytes": (),
}
"""Series that are not in METRICS: Prometheus itself and the client library's process collector write them."""

VARIABLE_LABELS: Final = ("job", "instance", "provider", "model", "tool")
NOT_TOOLS: Final = 'operation!="tool"'
"""The headline: tools may report what a sub-agent's own session file reports too."""


def family(series: str) -> str:
    """Give the METRICS name of a series (`x_bucket` belongs to `x`).

    Raises:
        KeyError: The series is in neither METRICS nor EXTERNAL.
    """
    if series in METRICS or series in EXTERNAL:
        return series
    base = re.sub(r"_(bucket|sum|count)$", "", series)
    if METRICS[base].kind != HISTOGRAM:
        raise KeyError(series)
    return base


def select(series: str, where: str = "") -> str:
    """Select a series with every dashboard variable that its labels allow, and `where` (PromQL matchers)."""
    name = family(series)
    labels = METRICS[name].labels if name in METRICS else EXTERNAL[name]
    matchers = [f'{label}=~"${label}"' for label in VARIABLE_LABELS if label in {"job", "instance", *labels}]
    return f"{series}{{{', '.join([*matchers, where] if where else matchers)}}}"


def by_sum(inner: str, *by: str) -> str:
    """Sum, by labels or over all of them."""
    return f"sum by ({', '.join(by)}) ({inner})" if by else f"sum({inner})"


def rate(series: str, *by: str, where: str = "") -> str:
    """Per-second rate, for a graph."""
    return by_sum(f"rate({select(series, where)}[{RATE}])", *by)


def total(series: str, *by: str, where: str = "") -> str:
    """Growth over the picked range, for money and seconds."""
    return by_sum(f"increase({select(series, where)}[{RANGE}])", *by)


def count(series: str, *by: str, where: str = "") -> str:
    """Growth over the picked range as a whole number: `increase` extrapolates, and 2.97 calls is no answer."""
    return f"round({total(series, *by, where=where)})"


def step_count(series: str, *by: str, where: str = "") -> str:
    """Growth within each step of a graph as a whole number, for rare events."""
    return f"round({by_sum(f'increase({select(series, where)}[{RATE}])', *by)})"


def gauge(series: str, *by: str, where: str = "") -> str:
    """Sum of a gauge now."""
    return by_sum(select(series, where), *by)


def share(part: str, whole: str) -> str:
    """Divide, and say nothing (instead of NaN) where the whole is 0."""
    return f"{part} / ({whole} > 0)"


def or_zero(expr: str, like: str) -> str:
    """Say 0 where `expr` has no series yet but `like` has: none of its kind occurred, which is an answer."""
    return f"{expr} or 0 * {like}"


def quantile(q: float, histogram: str, *by: str, window: str = RATE, where: str = "") -> str:
    """Quantile of a histogram; `>= 0` drops the NaN of an interval in which nothing was observed."""
    inner = f"rate({select(histogram + '_bucket', where)}[{window}])"
    return f"histogram_quantile({q}, sum by ({', '.join(('le', *by))}) ({inner})) >= 0"


def mean(histogram: str, *by: str) -> str:
    """Mean of a histogram over the picked range."""
    return share(total(histogram + "_sum", *by), total(histogram + "_count", *by))


def cache_hits(window: str, *by: str) -> str:
    """Share of the prompt tokens that came from the provider's cache (pi's input excludes cached tokens)."""
    prompt = 'operation="turn", token_type=~"input|cache_read|cache_write"'
    grow = {RATE: rate, RANGE: total}[window]
    hits = grow("pi_tokens_total", *by, where='operation="turn", token_type="cache_read"')
    return share(hits, grow("pi_tokens_total", *by, where=prompt))

"""The recordings with their oracles, and ways to look at them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from pimetrics.exporter import Exporter
from pimetrics.sinks.metrics import PiCollector
from pimetrics.sources.compressed import read_chunks

STREAMS = Path(__file__).parents[1] / "fixtures" / "streams"


class Recording(NamedTuple):
    """A stream, its session files, and what an independent program counted in them."""

    name: str
    stream: Path
    sessions: tuple[Path, ...]
    oracle: dict


@cache
def recordings() -> tuple[Recording, ...]:
    """Return all recordings."""
    found = []
    for oracle in sorted(STREAMS.rglob("*.expected.json")):
        stem = oracle.name.removesuffix(".expected.json")
        stream = next(
            (p for p in (oracle.with_name(stem + end) for end in (".jsonl", ".jsonl.zst")) if p.exists()), None
        )
        if stream is None:
            continue
        sessions = tuple(sorted(p for p in oracle.parent.glob(f"{stem}.session*.jsonl*")))
        found.append(
            Recording(f"{oracle.parent.name}/{stem}", stream, sessions, json.loads(oracle.read_text(encoding="utf-8")))
        )
    return tuple(found)


def scraped(*paths: Path) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read sources through an exporter and return every sample of a scrape: (name, sorted labels) to value."""
    exporter = Exporter(clock=lambda: 0.0)
    for path in paths:
        source = exporter.open(str(path))
        for chunk in read_chunks(path, 1 << 16):
            exporter.feed(source, chunk)
        exporter.finish(source)
    exporter.ready = True
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PiCollector(exporter.snapshot))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def total(samples: dict, name: str, **labels: str) -> float:
    """Add up the samples of a name that have these labels."""
    wanted = labels.items()
    return sum(value for (found, pairs), value in samples.items() if found == name and wanted <= dict(pairs).items())

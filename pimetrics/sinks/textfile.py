"""Metrics as text, for node_exporter's textfile collector."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from pimetrics.sinks.metrics import PiCollector
from pimetrics.snapshots import Snapshot


def text(snapshot: Snapshot) -> bytes:
    """Return what a scrape would show, in the text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PiCollector(lambda: snapshot))
    return generate_latest(registry)

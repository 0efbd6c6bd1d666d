"""Metrics as a file for node_exporter's textfile collector: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from pimetrics.errors import SourceError
from pimetrics.names import printable
from pimetrics.sinks.metrics import PiCollector
from pimetrics.snapshots import Snapshot


def write_textfile(path: Path, snapshot: Snapshot) -> None:
    """Write a snapshot in the text format; whoever reads the file sees the old one or the new one.

    Raises:
        SourceError: The file cannot be written.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PiCollector(lambda: snapshot))
    # Not `.prom`: the collector must not read a half-written one.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with aside.open("xb") as file:
            file.write(generate_latest(registry))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        reason = error.strerror or str(error)
        raise SourceError(f"{printable(str(path))} cannot be written ({reason}); choose another file") from None

"""Databases for the tests of grafana/: Prometheus and VictoriaMetrics with one configuration, asked in one way."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.live.prometheus import free_port, get, running, until

PATIENCE_S = 180
"""How long the tests wait for an event; an exporter holds new series at 0 for its first minute."""


class Store:
    """A database that speaks Prometheus's API."""

    def __init__(self, address: str) -> None:
        self.address = address

    def api(self, what: str, **params: Any) -> Any:
        """GET from the API; the answer's data."""
        status, text = get(self.address, f"/api/v1/{what}?{urllib.parse.urlencode(params)}")
        assert status == 200, f"{params}: {text}"
        return json.loads(text)["data"]

    def ask(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        """Answer an instant query; scalars come as one row."""
        data = self.api("query", query=expr, **({"time": at} if at else {}))
        return [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]

    def ask_range(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Answer a range query."""
        return self.api("query_range", query=expr, start=start, end=end, step=step)["result"]

    def number(self, expr: str) -> float | None:
        """Answer with one number, or None."""
        rows = self.ask(expr)
        return float(rows[0]["value"][1]) if rows else None


def _scrape_config(target: str, work: Path) -> Path:
    config = work / "scrape.yaml"
    job = {"job_name": "pimetrics", "static_configs": [{"targets": [target]}]}
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    return config


@contextmanager
def _store(argv: list[str], work: Path, address: str, health: str, *, scrapes: bool = True) -> Iterator[Store]:
    with running(argv, work / f"{Path(argv[0]).name}.log") as alive:
        until(lambda: alive() and get(address, health)[0] == 200, f"{argv[0]} at {address} is ready")
        store = Store(address)
        if scrapes:
            until(lambda: store.number("min(pimetrics_ready)") == 1, "a scrape of a ready exporter")
        yield store


@contextmanager
def prometheus(program: str, target: str, work: Path, *options: str) -> Iterator[Store]:
    """Run Prometheus until it has scraped a ready exporter once."""
    address = f"127.0.0.1:{free_port()}"
    argv = [
        program, f"--config.file={_scrape_config(target, work)}", f"--storage.tsdb.path={work / 'prometheus'}",
        f"--web.listen-address={address}", "--enable-feature=exemplar-storage", *options,
    ]  # fmt: skip
    with _store(argv, work, address, "/-/ready") as store:
        yield store


@contextmanager
def victoria(
    program: str, target: str | None, work: Path, *options: str, address: str | None = None
) -> Iterator[Store]:
    """Run VictoriaMetrics until it has scraped a ready exporter once; without a target it takes what is written to it."""
    address = address or f"127.0.0.1:{free_port()}"
    scrape = [] if target is None else [f"-promscrape.config={_scrape_config(target, work)}"]
    argv = [
        program, *scrape, f"-storageDataPath={work / 'victoria'}",
        f"-httpListenAddr={address}", "-search.latencyOffset=0s", *options,
    ]  # fmt: skip
    with _store(argv, work, address, "/health", scrapes=target is not None) as store:
        yield store

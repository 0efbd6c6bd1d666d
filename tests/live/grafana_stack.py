"""Real parts for the tests of grafana/: an exporter, Prometheus and VictoriaMetrics, each with a port of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 180
"""Seconds to wait for an event; an exporter holds new series at 0 for its first minute."""


def free_port() -> int:
    """Give a port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(event: Callable[[], Any], what: str) -> Any:
    """Poll until an event is true, and give what it returned."""
    end = time.monotonic() + PATIENCE
    while not (found := event()):
        assert time.monotonic() < end, f"no {what} within {PATIENCE} s"
        time.sleep(0.2)
    return found


def fetch(url: str, **params: Any) -> str | None:
    """GET a page; None while nobody answers or the answer is no success."""
    query = f"?{urllib.parse.urlencode(params)}" if params else ""
    try:
        with urllib.request.urlopen(url + query, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 400:
                raise ValueError(f"{params}: {error.read().decode()}") from error
        return None
    except OSError:
        return None


@contextmanager
def running(command: list[Any], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends."""
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "TZ": "UTC"}) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


class Store:
    """A database that speaks Prometheus's API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        """Answer an instant query; scalars come as one row."""
        text = fetch(f"{self.url}/api/v1/query", query=expr, **({"time": at} if at else {}))
        assert text is not None, expr
        data = json.loads(text)["data"]
        return [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]

    def ask_range(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Answer a range query."""
        text = fetch(f"{self.url}/api/v1/query_range", query=expr, start=start, end=end, step=step)
        assert text is not None, expr
        return json.loads(text)["data"]["result"]

    def number(self, expr: str) -> float | None:
        """Answer with one number, or None."""
        rows = self.ask(expr)
        return float(rows[0]["value"][1]) if rows else None


@contextmanager
def exporter(folder: Path, work: Path) -> Iterator[str]:
    """Serve a folder; gives the address."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "pimetrics", "serve", folder, "--no-state", "--web.listen-address", address]
    with running(command, work / "serve.log") as process:

        def ready() -> bool:
            assert process.poll() is None, (work / "serve.log").read_text()
            return fetch(f"http://{address}/-/ready") is not None

        wait_for(ready, "ready exporter")
        yield address


def scrape_config(address: str, work: Path) -> Path:
    """Write a configuration that scrapes one exporter each second."""
    config = work / "prometheus.yaml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [{"job_name": "pimetrics", "static_configs": [{"targets": [address]}]}],
            }
        )
    )
    return config


@contextmanager
def prometheus(binary: str, address: str, work: Path) -> Iterator[Store]:
    """Run Prometheus."""
    listen = f"127.0.0.1:{free_port()}"
    command = [
        binary, f"--config.file={scrape_config(address, work)}", f"--storage.tsdb.path={work / 'prometheus'}",
        f"--web.listen-address={listen}", "--enable-feature=exemplar-storage",
    ]  # fmt: skip
    with running(command, work / "prometheus.log"):
        wait_for(lambda: fetch(f"http://{listen}/-/ready"), "Prometheus")
        yield Store(f"http://{listen}")


@contextmanager
def victoria(binary: str, address: str, work: Path) -> Iterator[Store]:
    """Run VictoriaMetrics."""
    listen = f"127.0.0.1:{free_port()}"
    command = [
        binary, f"-promscrape.config={scrape_config(address, work)}", f"-storageDataPath={work / 'victoria'}",
        f"-httpListenAddr={listen}", "-search.latencyOffset=0s",
    ]  # fmt: skip
    with running(command, work / "victoria.log"):
        wait_for(lambda: fetch(f"http://{listen}/health"), "VictoriaMetrics")
        yield Store(f"http://{listen}")

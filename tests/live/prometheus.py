"""Runs the exporter and a real Prometheus that scrapes it, both on free ports of loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

SCRAPE_INTERVAL = "250ms"
START_TIMEOUT_S = 30.0
SERVING = re.compile(r"serving https?://(\S+?)/metrics")


def until(true: Callable[[], object], what: str, timeout_s: float = START_TIMEOUT_S) -> None:
    """Poll until something holds; the test fails when it does not in time."""
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, f"waited {timeout_s:g} s in vain: {what}"
        time.sleep(0.1)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def get(address: str, path: str) -> tuple[int, str]:
    """Return status and text of a GET; status 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""


@contextlib.contextmanager
def running(
    argv: Sequence[str], log: Path, stdin: int | IO[bytes] = subprocess.DEVNULL
) -> Iterator[Callable[[], bool]]:
    """Run a process while the context is open, its output in a log; yields what it has said while it still runs."""
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdin=stdin, stdout=output, stderr=subprocess.STDOUT)

    def alive() -> bool:
        said = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"{argv[0]} ended with {process.returncode}: {said}"
        return True

    try:
        yield alive
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def exporter(
    folder: Path,
    *sources: Path | str,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    options: Sequence[str] = ("--no-state",),
    port: int = 0,
    secured: bool = False,
) -> Iterator[str]:
    """Run `pimetrics serve` over sources, by default without state; yields its address once it is ready.

    One that is secured tells only who knows its secret, so it is not asked whether it is ready.
    """
    log = folder / "serve.log"
    listen = ["--web.listen-address", f"127.0.0.1:{port}"]
    argv = [sys.executable, "-m", "pimetrics", "serve", *map(str, sources), *options, *listen]
    with running(argv, log, stdin) as alive:
        until(lambda: alive() and SERVING.search(log.read_text()), "serve says where it listens")
        told = SERVING.search(log.read_text())
        assert told is not None
        address = told[1]
        if not secured:
            until(lambda: alive() and get(address, "/-/ready")[0] == 200, f"serve at {address} is ready")
        yield address


class Prometheus:
    """Asks a running Prometheus."""

    def __init__(self, address: str) -> None:
        self._address = address

    def query(self, promql: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return an instant query's values by their sorted labels."""
        status, text = get(self._address, "/api/v1/query?" + urllib.parse.urlencode({"query": promql}))
        assert status == 200, text
        data = json.loads(text)["data"]
        if data["resultType"] == "scalar":
            return {(): float(data["result"][1])}
        result: list[dict[str, Any]] = data["result"]
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in result}

    def last_error(self, job: str) -> str:
        """Return why the last scrape of a job's one target failed; empty when it did not."""
        status, text = get(self._address, "/api/v1/targets")
        assert status == 200, text
        (error,) = (
            each["lastError"] for each in json.loads(text)["data"]["activeTargets"] if each["scrapePool"] == job
        )
        return str(error)

    def total(self, promql: str) -> float:
        """Return the one value of a query that sums; 0 while there is none."""
        values = self.query(promql)
        assert len(values) <= 1, values
        return sum(values.values())


@contextlib.contextmanager
def prometheus(
    program: str,
    folder: Path,
    target: str,
    *,
    interval: str = SCRAPE_INTERVAL,
    up: int = 1,
    jobs: Mapping[str, Mapping[str, object]] = MappingProxyType({"pi": {}}),
) -> Iterator[Prometheus]:
    """Run Prometheus with one target; yields it once a scrape has succeeded (`up` 0: once one has been tried).

    Args:
        program: Prometheus.
        folder: For its files.
        target: What is scraped.
        interval: How often.
        up: What the first scrape of the job `pi` gives.
        jobs: How it is scraped, by job, in words of Prometheus' configuration.
    """
    static = {"static_configs": [{"targets": [target]}]}
    scraped = [{"job_name": name, **static, **job} for name, job in jobs.items()]
    timing = {"scrape_interval": interval, "scrape_timeout": interval}
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({"global": timing, "scrape_configs": scraped}))
    address = f"127.0.0.1:{free_port()}"
    argv = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    with running(argv, folder / "prometheus.log") as alive:
        until(lambda: alive() and get(address, "/-/ready")[0] == 200, f"{argv[0]} at {address} is ready")
        server = Prometheus(address)
        until(lambda: list(server.query('up{job="pi"}').values()) == [up], f"a scrape of {target} gives up={up}")
        yield server

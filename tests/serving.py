"""A real `pimetrics serve` on a port of its own, for measurements and fault tests."""

from __future__ import annotations

import base64
import http.client
import os
import re
import select
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self


class Ended(NamedTuple):
    """How a `serve` ended, and what it took from the signal on, seconds."""

    status: int
    wall_s: float
    cpu_s: float


class Served:
    """Runs `serve`; a context manager that kills what still runs at its end."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        context: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        **options: object,
    ) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pimetrics", "serve", *map(str, arguments), "--web.listen-address", listen],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,  # or a second line would wait in a buffer that `select` does not see
            **options,  # type: ignore[call-overload]
        )
        self.said = b""
        self.context = context
        self.login = login
        self._url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def url(self) -> str:
        """Where it serves; waits until it says so."""
        deadline = time.monotonic() + 30
        while not self._url:
            assert self.process.stderr is not None
            if select.select([self.process.stderr], [], [], 0.5)[0]:
                line = self.process.stderr.readline()
                self.said += line
                found = re.search(rb"serving (https?://\S+)/metrics", line)
                if found:
                    self._url = found.group(1).decode()
                assert line, f"it ended: {self.said.decode()}"
            assert time.monotonic() < deadline, self.said
        return self._url

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of it."""
        host, _, port = self.url.rpartition("//")[2].rpartition(":")
        return host, int(port)

    def get(self, path: str = "/metrics") -> str | None:
        """Return a page, None when it is refused or answers an error."""
        status, page = self.ask(path)
        return page if status == 200 else None

    def ask(self, path: str = "/metrics", *, login: tuple[str, str] | None = None) -> tuple[int, str]:
        """Return status and text of a page; status 0 when nobody answers.

        Args:
            path: The page.
            login: User and password; by default those of the whole object.
        """
        request = urllib.request.Request(self.url + path)
        given = login or self.login
        if given is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(":".join(given).encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""

    def ready(self) -> float:
        """Wait until it is ready; return how long that took since its start, seconds."""
        deadline = self.started + 600
        while self.get("/-/ready") is None:
            assert time.monotonic() < deadline, "it did not become ready"
            assert self.process.poll() is None, self.said
            time.sleep(0.02)
        return time.monotonic() - self.started

    @property
    def cpu_s(self) -> float:
        """Processor time that it has taken, seconds; also that of one that has ended and was not waited for."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mib(self) -> float:
        """Its resident memory, MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

    def end(self) -> Ended:
        """Send SIGTERM and wait."""
        cpu_s, start = self.cpu_s, time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        wall_s, cpu_s = time.monotonic() - start, self.cpu_s - cpu_s
        return Ended(self.process.wait(), wall_s, cpu_s)

    def sum(self, metric: str, **labels: str) -> float | None:
        """Return a metric summed over the labels that are not named; None while it does not show."""
        page = self.get()
        if page is None:
            return None
        found = [
            float(line.rpartition(" ")[2])
            for line in page.split("\n")
            if re.match(rf"{metric}[ {{]", line) and all(f'{k}="{v}"' in line for k, v in labels.items())
        ]
        return sum(found) if found else None

    def wait_for(self, metric: str, value: float, within: float = 20, **labels: str) -> None:
        """Wait until a metric shows a value."""
        deadline = time.monotonic() + within
        while (now := self.sum(metric, **labels)) != value:
            assert time.monotonic() < deadline, f"{metric} is {now}, not {value}"
            time.sleep(0.05)

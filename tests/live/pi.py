"""Drives the real pi in json and RPC mode, in a home of its own, against the scripted model."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from tests.live.parts import PiProgram

RUN_TIMEOUT_S = 90.0
SMALL_WINDOW_TOKENS = 6000
"""Context window of the model `tiny`: a few thousand tokens of usage bring pi to compact."""

PRICES = {"input": 0.6, "output": 2.4, "cacheRead": 0.06, "cacheWrite": 0.75}
"""USD for a million tokens, chosen so that costs are no round doubles."""


@dataclass(frozen=True)
class Home:
    """A home folder with pi's configuration and a small project to work in."""

    path: Path
    program: PiProgram
    model_url: str

    def __post_init__(self) -> None:
        self.agent.mkdir(parents=True)
        self.project.mkdir()
        (self.path / "tmp").mkdir()
        (self.project / "prices.txt").write_text("apple 35\nbread 240\ntea 310\n")
        (self.agent / "models.json").write_text(json.dumps(self._models()))
        settings = {
            "retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 60, "maxDelayMs": 60000},
            "compaction": {"enabled": True, "reserveTokens": 1000, "keepRecentTokens": 150},
            "enableInstallTelemetry": False,
            "quietStartup": True,
        }
        (self.agent / "settings.json").write_text(json.dumps(settings))

    @property
    def agent(self) -> Path:
        """Pi's own folder."""
        return self.path / ".pi" / "agent"

    @property
    def project(self) -> Path:
        """The working directory of the runs."""
        return self.path / "shop"

    @property
    def sessions(self) -> Path:
        """The folder of pi's session files."""
        return self.agent / "sessions"

    def session_files(self) -> list[Path]:
        """Return the session files, oldest first (their names begin with the time)."""
        return sorted(self.sessions.rglob("*.jsonl"), key=lambda path: path.name)

    def argv(self, mode: str, *arguments: str, model: str = "shop/small") -> list[str]:
        """Return the command line of pi in a mode."""
        prompt = "You help in a small shop."
        return self.program.argv("--mode", mode, "--model", model, "--system-prompt", prompt, *arguments)

    def env(self) -> dict[str, str]:
        """Return the whole environment of pi: this home, and nothing that leads out of it."""
        return {
            "HOME": str(self.path),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TMPDIR": str(self.path / "tmp"),
            "TERM": "dumb",
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
        }

    def run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end, without input."""
        return subprocess.run(
            argv,
            cwd=self.project,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )

    def stats(self, session: Path) -> dict[str, Any]:
        """Open a session file in RPC mode and return pi's own `get_session_stats`."""
        with Rpc(self, self.argv("rpc", "--session", str(session))) as rpc:
            data = rpc.call("get_session_stats")
        assert Path(data["sessionFile"]) == session, "pi opened another session than the one it was given"
        return data

    def _models(self) -> dict[str, Any]:
        def model(name: str, window: int) -> dict[str, Any]:
            return {
                "id": name,
                "name": name,
                "reasoning": False,
                "input": ["text"],
                "contextWindow": window,
                "maxTokens": 1000,
                "cost": PRICES,
            }

        shop = {
            "baseUrl": self.model_url,
            "api": "openai-completions",
            "apiKey": "unused",
            "models": [model("small", 128000), model("tiny", SMALL_WINDOW_TOKENS)],
        }
        return {"providers": {"shop": shop}}


class Rpc:
    """One process in RPC mode: commands go in, records come out in order."""

    def __init__(self, home: Home, argv: Sequence[str]) -> None:
        self.stdout: list[bytes] = []
        self.status: int | None = None
        self._errors = (home.path / "tmp" / "rpc-stderr").open("w+b")
        self._records: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._commands = 0
        self._process = subprocess.Popen(
            argv,
            cwd=home.project,
            env=home.env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)

    def send(self, command: str, **fields: Any) -> str:
        """Send a command and return its id."""
        self._commands += 1
        number = f"command-{self._commands}"
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "type": command, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        return number

    def call(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send a command, wait for its response and return the data; a refusal fails the test."""
        number = self.send(command, **fields)
        answer = self.wait(lambda record: record.get("type") == "response" and record.get("id") == number)
        assert answer["success"], answer
        data: dict[str, Any] = answer.get("data") or {}
        return data

    def prompt(self, text: str) -> None:
        """Send a prompt and wait until pi has no more work for it."""
        self.send("prompt", message=text)
        self.wait(lambda record: record.get("type") == "agent_settled")

    def wait(self, wanted: Callable[[dict[str, Any]], bool], timeout_s: float = RUN_TIMEOUT_S) -> dict[str, Any]:
        """Return the next record that is wanted; what comes before it is passed over."""
        until = time.monotonic() + timeout_s
        while True:
            try:
                record = self._records.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"pi said nothing more for {timeout_s:g} s: {self._said()}") from None
            if record is None:
                raise AssertionError(f"pi ended before it answered: {self._said()}")
            if wanted(record):
                return record

    def _said(self) -> str:
        self._errors.seek(0)
        return f"stderr {self._errors.read()[-1000:]!r}, last record {self.stdout[-1:]!r}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.stdout.append(line)
            self._records.put(json.loads(line))
        self._records.put(None)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close pi's input, which ends it; `status` is its exit status, negative for a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self.status = self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self.status = self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._errors.close()

"""A real Prometheus scrapes the exporter while the real pi runs: its totals are pi's own."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.modelserver import Answer, Failure
from tests.live.parts import program as installed
from tests.live.pi import RUN_TIMEOUT_S, Rpc
from tests.live.prometheus import Prometheus, exporter, get, prometheus, until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.live.modelserver import ModelServer
    from tests.live.pi import Home

RECORD = [sys.executable, "-m", "pimetrics", "record"]
STAMP = re.compile(rb',"receivedAt":\d+}(\r?\n)$')
WINDOW = "10m"
OPTIONS = ("--no-state", "--web.zero-hold", "6s")
"""A new series is held at 0 for scrapers: shorter than by default, and still many scrape intervals."""

HELD_S = 60.0
"""How long Prometheus may wait for a total."""

TOKENS = {"input": "input", "output": "output", "cache_read": "cacheRead", "cache_write": "cacheWrite"}
ANSWERS = (
    Answer(calls=(("read", {"path": "prices.txt"}),), tokens=700, output=18),
    Failure(529, "Overloaded", "overloaded_error"),
    Answer(text="An apple is 35.", tokens=761, cached=640, output=6),
    Answer(text="Tea is the dearest.", tokens=83, cached=1400, output=9),
)
PROMPTS = ("What is an apple?", "And the dearest?")


class Rise:
    """How far counters have risen since now, by PromQL: last minus first, exact where `increase()` extrapolates."""

    def __init__(self, server: Prometheus) -> None:
        self._server = server
        self._start_s = server.total("time()")

    def of(self, metric: str, **labels: str) -> float:
        """Return the rise of a counter, summed over the labels that are not given; a series not yet there was at 0."""
        chosen = ",".join(f'{name}="{value}"' for name, value in labels.items())
        series = f"{metric}{{{chosen}}}"
        first = f"(sum({series} @ {self._start_s}) or vector(0))"
        return self._server.total(f"sum(last_over_time({series}[{WINDOW}])) - {first}")

    def agrees(self, stats: dict[str, Any]) -> None:
        """Wait until Prometheus has all tokens and requests that pi counted, then compare everything."""
        tokens = stats["tokens"]
        until(
            lambda: (
                self.of("pi_tokens_total") >= tokens["total"]
                and self.of("pi_requests_total") >= stats["assistantMessages"]
            ),
            f"Prometheus has {tokens['total']} tokens in {stats['assistantMessages']} requests",
            HELD_S,
        )
        counted = {name: self.of("pi_tokens_total", token_type=name) for name in TOKENS}
        assert counted == {name: tokens[wire] for name, wire in TOKENS.items()}
        assert self.of("pi_cost_usd_total") == pytest.approx(stats["cost"], rel=0, abs=1e-9)
        assert self.of("pi_requests_total") == stats["assistantMessages"]
        assert self.of("pi_tool_calls_total", tool="read", outcome="ok") == stats["toolCalls"] == 1
        assert self.of("pi_retries_total", scope="turn") == 1
        for metric in ("pi_tokens_total", "pi_cost_usd_total", "pi_requests_total"):
            assert self._server.total(f"sum(resets({metric}[{WINDOW}]))") == 0, metric


def promtool_is_content(address: str) -> None:
    """Assert that promtool finds nothing to say about the exposition."""
    status, text = get(address, "/metrics")
    assert status == 200
    assert "pi_tokens_total{" in text
    argv = [installed("promtool", "prometheus"), "check", "metrics"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_prometheus_has_what_pi_says_of_a_recorded_run(home: Home, model: ModelServer, tmp_path: Path) -> None:
    """Recorded in RPC mode and followed with its session file, a run moves the counters by pi's own totals, once."""
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    home.sessions.mkdir()
    model.script(ANSWERS)
    argv = [*RECORD, "-o", str(recordings), "--", *home.argv("rpc")]
    with (
        exporter(tmp_path, recordings, home.sessions, options=OPTIONS) as address,
        prometheus(installed("prometheus", "prometheus"), tmp_path, address) as server,
    ):
        rise = Rise(server)
        with Rpc(home, argv) as rpc:
            for prompt in PROMPTS:
                rpc.prompt(prompt)
            stats = rpc.call("get_session_stats")
        assert rpc.status == 0
        rise.agrees(stats)
        promtool_is_content(address)
    (recording,) = (path for path in recordings.rglob("*") if ".jsonl" in path.name)
    stamped = recording.read_bytes().splitlines(keepends=True)
    assert all(STAMP.search(line) for line in stamped)
    assert [STAMP.sub(rb"}\1", line) for line in stamped] == rpc.stdout


def test_prometheus_has_what_pi_says_of_a_piped_run(home: Home, model: ModelServer, tmp_path: Path) -> None:
    """Piped into `serve -` in json mode, a run moves the counters by pi's own totals."""
    model.script(ANSWERS)
    # pi waits for a line: it starts when Prometheus has scraped once, since what is there before is no rise
    waiting = ["sh", "-c", 'read go && exec "$@"', "sh", *home.argv("json", *PROMPTS)]
    with contextlib.ExitStack() as stack:
        pipe = subprocess.PIPE
        pi = stack.enter_context(subprocess.Popen(waiting, cwd=home.project, env=home.env(), stdin=pipe, stdout=pipe))
        assert pi.stdin is not None
        assert pi.stdout is not None
        address = stack.enter_context(exporter(tmp_path, "-", stdin=pi.stdout, options=OPTIONS))
        pi.stdout.close()
        server = stack.enter_context(prometheus(installed("prometheus", "prometheus"), tmp_path, address))
        rise = Rise(server)
        pi.stdin.write(b"go\n")
        pi.stdin.close()
        assert pi.wait(RUN_TIMEOUT_S) == 0
        (session,) = home.session_files()
        rise.agrees(home.stats(session))
        promtool_is_content(address)


def plain_and_recorded(
    home: Home, arguments: Sequence[str], folder: Path
) -> tuple[subprocess.CompletedProcess[bytes], subprocess.CompletedProcess[bytes]]:
    """Run pi bare and through `record`."""
    argv = home.program.argv(*arguments)
    return home.run(argv), home.run([*RECORD, "-o", str(folder), "--", *argv])


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--no-such-option",), ("--mode", "json", "--model", "no/such", "hi")]
)
def test_record_changes_nothing(arguments: tuple[str, ...], home: Home, tmp_path: Path) -> None:
    """Exit status, standard output and standard error are pi's own, also when pi refuses to run."""
    plain, recorded = plain_and_recorded(home, arguments, tmp_path / "recordings")
    assert recorded.returncode == plain.returncode
    assert recorded.stdout == plain.stdout
    assert recorded.stderr == plain.stderr


def test_record_passes_on_the_status_of_a_failed_run(home: Home, model: ModelServer, tmp_path: Path) -> None:
    """A run that the provider refuses ends as it ends without `record`, with the same kinds of records."""
    refused = Failure(401, "invalid api key", "authentication_error")
    model.script([refused, refused])
    plain, recorded = plain_and_recorded(
        home, ["--mode", "json", "--model", "shop/small", "hello"], tmp_path / "recordings"
    )
    assert recorded.returncode == plain.returncode
    kinds = [[json.loads(line)["type"] for line in done.stdout.splitlines()] for done in (plain, recorded)]
    assert kinds[0] == kinds[1]
    assert b"receivedAt" not in recorded.stdout

"""One run of the real pi, seen as stream, as recording and as session file: one answer."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.modelserver import Answer, Failure
from tests.live.pi import SMALL_WINDOW_TOKENS, Rpc

if TYPE_CHECKING:
    from tests.live.conftest import Report
    from tests.live.modelserver import ModelServer
    from tests.live.pi import Home

LONG = "The list holds three goods and every price in it is in pence, so that no rounding is ever lost. " * 8
SOURCES = ("stream", "recording", "session")


def script(model: ModelServer) -> None:
    """A run with parallel tools (one fails), a 529 that is retried, and a compaction whose summary is paid."""
    model.script(
        [
            Answer(calls=(("read", {"path": "prices.txt"}), ("bash", {"command": "exit 3"})), tokens=2200, output=20),
            Failure(529, "Overloaded", "overloaded_error"),
            Answer(text=LONG, tokens=2000, cached=SMALL_WINDOW_TOKENS - 2600, output=250),
            Answer(text="Tea is the dearest.", tokens=600, output=12),
        ],
        [Answer(text="## Goal\nKnow the prices.\n", tokens=3100, output=64)],
    )


def facts(result: dict[str, Any]) -> dict[str, Any]:
    """Return what every source knows: tokens, rows, requests, tool calls. Cost stands apart: sums of doubles differ."""
    return {
        "rows": result["usage"]["rows"],
        "tokens": result["usage"]["tokens"],
        "requests": [(one["provider"], one["model"], one["requests"]) for one in result["usage"]["by_model"]],
        "operations": {one["operation"]: one["rows"] for one in result["usage"]["by_operation"]},
        "tools": {one["tool"]: (one["calls"], one["errors"], one["unfinished"]) for one in result["tools"]},
        "unfinished": result["unfinished"]["messages"],
        "sessions": result["sessions"],
        "compactions": sum(one["count"] for one in result["compactions"]),
    }


@pytest.fixture
def run(home: Home, model: ModelServer, tmp_path: Path) -> dict[str, Path]:
    """The run's three sources by name."""
    script(model)
    recordings = tmp_path / "recordings"
    prompts = [f"Read the prices. {LONG}", f"And the dearest? {LONG}"]
    argv = home.argv("json", *prompts, model="shop/tiny")
    done = home.run([sys.executable, "-m", "pimetrics", "record", "-o", str(recordings), "--", *argv])
    assert done.returncode == 0, done.stderr.decode()
    stream = tmp_path / "stream.jsonl"
    stream.write_bytes(done.stdout)
    (recording,) = (path for path in recordings.rglob("*") if ".jsonl" in path.name)
    (session,) = home.session_files()
    return {"stream": stream, "recording": recording, "session": session}


def test_the_run_is_what_it_is_meant_to_be(run: dict[str, Path]) -> None:
    """The stream holds a retry, a compaction with usage and a failed tool: what the other tests rest on."""
    records = [json.loads(line) for line in run["stream"].read_text().splitlines()]
    kinds = {record["type"] for record in records}
    assert {"auto_retry_start", "auto_retry_end", "compaction_end", "tool_execution_end"} <= kinds
    (compaction,) = (record for record in records if record["type"] == "compaction_end")
    assert compaction["result"]["usage"]["input"] == 3100
    assert sorted(record["isError"] for record in records if record["type"] == "tool_execution_end") == [False, True]


def test_each_source_alone_says_what_pi_says(run: dict[str, Path], home: Home, report: Report, tmp_path: Path) -> None:
    """The stream, the recording and the session file of a run each give pi's own totals."""
    stats = home.stats(Path(shutil.copy(run["session"], tmp_path / "opened.jsonl")))
    answers = {name: report(run[name]) for name in SOURCES}
    for name, result in answers.items():
        tokens = result["usage"]["tokens"]
        assert tokens["input"] == stats["tokens"]["input"] == 2200 + 2000 + 600 + 3100, name
        assert tokens["output"] == stats["tokens"]["output"] == 20 + 250 + 12 + 64, name
        assert tokens["cache_read"] == stats["tokens"]["cacheRead"] == SMALL_WINDOW_TOKENS - 2600, name
        assert result["usage"]["cost_usd"] == pytest.approx(stats["cost"], rel=0, abs=1e-9), name
        assert facts(result) == facts(answers["stream"]), name


@pytest.mark.parametrize("size", [2, 3])
def test_sources_together_say_what_one_says(run: dict[str, Path], report: Report, size: int) -> None:
    """Any two, and all three, in any order, count the run once."""
    alone = report(run["stream"])
    for names in itertools.permutations(SOURCES, size):
        result = report(*(run[name] for name in names))
        assert facts(result) == facts(alone), names
        assert result["usage"]["cost_usd"] == pytest.approx(alone["usage"]["cost_usd"], rel=0, abs=1e-9), names
        assert result["duplicates_skipped"] == (size - 1) * alone["usage"]["rows"], names


def test_forks_and_copies_add_nothing(run: dict[str, Path], home: Home, report: Report, tmp_path: Path) -> None:
    """The stream, the session file, a fork that pi made of it and a copy together cost what the run cost."""
    with Rpc(home, home.argv("rpc", "--fork", str(run["session"]))) as rpc:
        stats = rpc.call("get_session_stats")
    fork = Path(stats["sessionFile"])
    assert fork != run["session"]
    copied = Path(shutil.copy(run["session"], tmp_path / "copy.jsonl"))
    alone = facts(report(run["stream"]))
    assert facts(report(fork)) == alone
    together = facts(report(run["stream"], fork, copied, run["session"], run["recording"]))
    assert together.pop("sessions") == alone.pop("sessions") + 1
    assert together == alone

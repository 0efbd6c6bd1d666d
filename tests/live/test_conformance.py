"""Pi itself is the oracle: what it says of a session is what `report` says."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live import crafted
from tests.live.modelserver import Answer
from tests.live.pi import Rpc

if TYPE_CHECKING:
    from tests.live.conftest import Report
    from tests.live.modelserver import ModelServer
    from tests.live.pi import Home

NAMES = tuple(crafted.sessions(Path()))
USD = 1e-9


def pi_spend(stats: dict[str, Any]) -> dict[str, int]:
    """Return the tokens of `get_session_stats` under the names of the report."""
    return {name: stats["tokens"][wire] for name, wire in crafted.WIRE_NAMES.items()}


def report_spend(result: dict[str, Any]) -> dict[str, int]:
    """Return the tokens of the report that pi knows too."""
    return {name: result["usage"]["tokens"][name] for name in crafted.WIRE_NAMES}


def agree(stats: dict[str, Any], result: dict[str, Any], spend: crafted.Spend) -> None:
    """Assert that pi, the report and the builder of the file say the same."""
    assert pi_spend(stats) == spend.tokens
    assert stats["cost"] == pytest.approx(spend.cost_usd, rel=0, abs=USD)
    assert report_spend(result) == pi_spend(stats)
    assert result["usage"]["cost_usd"] == pytest.approx(stats["cost"], rel=0, abs=USD)
    assert result["usage"]["rows"] == spend.rows
    assert sum(model["requests"] for model in result["usage"]["by_model"]) == stats["assistantMessages"]
    assert result["rejects"]["total"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_session_costs_what_pi_says(name: str, home: Home, report: Report, tmp_path: Path) -> None:
    """Every kind of spend, on every branch, in every version of the format, is counted as pi counts it."""
    session = crafted.sessions(home.project)[name]
    path = session.write(tmp_path / f"{name}.jsonl")
    opened = Path(shutil.copy(path, tmp_path / "opened.jsonl"))
    stats = home.stats(opened)
    agree(stats, report(path), session.spend)
    # pi may have rewritten the file that it opened (old formats get new ids): the same facts, still counted once
    agree(stats, report(opened), session.spend)
    agree(stats, report(path, opened), session.spend)


def test_each_fork_costs_what_pi_says(home: Home, report: Report, tmp_path: Path) -> None:
    """A fork counts its copied prefix in full when it is read alone, as pi does; its parent need not be there."""
    files, _ = crafted.family(home.project, tmp_path)
    for path, session in files.items():
        agree(home.stats(path), report(path), session.spend)


def test_a_family_counts_each_call_once(home: Home, report: Report, tmp_path: Path) -> None:
    """A session and its forks together cost what was paid, in any order and beside copies of the files."""
    files, together = crafted.family(home.project, tmp_path)
    copies = tmp_path / "copies"
    copies.mkdir()
    copied = [Path(shutil.copy(path, copies)) for path in files]
    for paths in (*itertools.permutations(files), (*files, *copied), (tmp_path,)):
        result = report(*paths)
        assert report_spend(result) == together.tokens
        assert result["usage"]["cost_usd"] == pytest.approx(together.cost_usd, rel=0, abs=USD)
        assert result["usage"]["rows"] == together.rows


def test_a_live_session_costs_what_pi_says(home: Home, report: Report, model: ModelServer) -> None:
    """What pi wrote itself, with a tool, a fork and an abandoned branch, is counted as pi counts it."""
    model.script(
        [
            Answer(calls=(("read", {"path": "prices.txt"}),), tokens=700, output=18),
            Answer(text="An apple is 35.", tokens=760, cached=640, output=6),
            Answer(text="Bread is 240.", tokens=90, cached=1400, output=5),
            Answer(text="Tea is 310, in another session.", tokens=95, cached=1400, output=9),
        ]
    )
    with Rpc(home, home.argv("rpc")) as rpc:
        rpc.prompt("What is an apple?")
        rpc.prompt("And bread?")
        first = rpc.call("get_session_stats")
        turns = rpc.call("get_fork_messages")["messages"]
        rpc.call("fork", entryId=turns[-1]["entryId"])
        rpc.prompt("And tea?")
        second = rpc.call("get_session_stats")
    assert first["sessionFile"] != second["sessionFile"]
    for stats in (first, second):
        result = report(Path(stats["sessionFile"]))
        assert report_spend(result) == pi_spend(stats)
        assert result["usage"]["cost_usd"] == pytest.approx(stats["cost"], rel=0, abs=USD)
    result = report(home.sessions)
    assert result["usage"]["rows"] == 4
    assert result["usage"]["tokens"]["input"] == 700 + 760 + 90 + 95

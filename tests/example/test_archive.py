"""The example archive: pimetrics finds in it what was put in, and writing it again gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pimetrics as pm
from pimetrics.sinks.frames import Tables
from pimetrics.sources.compressed import read_chunks
from tests.example.archive import FOLDER, write
from tests.example.books import TOKENS

Numbers = dict[str, Any]
MEGABYTE = 1_000_000


@cache
def totals() -> Numbers:
    """What was put in."""
    found: Numbers = json.loads((FOLDER / "totals.json").read_text())
    return found


@cache
def tables() -> Tables[pl.DataFrame]:
    """What is found."""
    return pm.read(FOLDER)


def counted(usage: pl.DataFrame) -> Numbers:
    """Add up usage rows; each cost is a whole number of nano-dollars."""
    return {
        "rows": usage.height,
        "tokens": {name: usage[f"{name}_tokens"].sum() for name in TOKENS},
        "cost_nano_usd": sum(round(cost * 1e9) for cost in usage["cost_usd"].drop_nulls()),
    }


def settled() -> pl.DataFrame:
    """Usage that is in totals."""
    return tables().usage.filter("settled")


def tally(frame: pl.DataFrame, *columns: str) -> dict[str, int]:
    """Count rows by their values."""
    return {"/".join(x or "unknown" for x in row[:-1]): row[-1] for row in frame.group_by(columns).len().rows()}


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive, uncompressed: how well a zlib packs is no matter of ours."""
    for path in sorted(folder.rglob("*.json*")):
        packed = path.suffix in {".gz", ".zst"}
        yield str(path.relative_to(folder)), b"".join(read_chunks(path, MEGABYTE)) if packed else path.read_bytes()


def test_usage_is_what_was_put_in() -> None:
    """Tokens and cost, to the nano-dollar: in all, by operation, by model, unfinished and on abandoned branches."""
    usage, want = settled(), totals()
    assert counted(usage) == want["usage"]
    by_operation = {name: counted(rows) for (name,), rows in usage.group_by("operation")}
    assert by_operation == want["by_operation"]
    by_model = {"/".join(name): counted(rows) for name, rows in usage.group_by("provider", "model")}
    assert by_model == want["by_model"]
    assert counted(tables().usage.filter(~pl.col("settled"))) == want["unfinished"]
    assert counted(usage.filter(~pl.col("on_active_branch"))) == want["abandoned"]


def test_each_session_has_what_was_spent_in_it() -> None:
    """A fork has its own part; what it copied stays with the session it copied from."""
    nothing = counted(settled().clear())
    found = {name: counted(rows) for (name,), rows in settled().group_by("session_id")}
    assert {name: found.get(name, nothing) for name in totals()["sessions"]} == {
        name: told["own"] for name, told in totals()["sessions"].items()
    }
    assert dict(tables().sessions.select("session_id", "cwd").rows()) == {
        name: told["cwd"] for name, told in totals()["sessions"].items()
    }


def test_work_is_what_was_put_in() -> None:
    """Prompts, turns, runs, stop reasons, tools, retries and compactions are as many as happened."""
    t, want = tables(), totals()
    assert t.prompts.height == want["prompts"]
    assert t.turns.filter(pl.col("outcome") != "unfinished").height == want["turns"]
    assert tally(t.runs, "outcome") == want["runs"]
    assert tally(settled().filter(operation="turn"), "stop_reason") == want["stop_reasons"]
    assert tally(t.tool_calls, "tool", "outcome") == want["tools"]
    assert tally(t.retries, "outcome") == want["retries"]
    assert tally(t.retries, "error_type") == want["retried_errors"]
    assert round(t.retries["delay_s"].sum() * 1000) == want["backoff_ms"]
    assert sum(round(cost * 1e9) for cost in t.retries["discarded_cost_usd"]) == want["discarded"]["cost_nano_usd"]
    assert tally(t.compactions, "reason", "outcome") == want["compactions"]
    assert t.rejects.is_empty()


def test_recordings_add_no_spend() -> None:
    """Every recorded run has its session file beside it, so the files alone hold the same spend."""
    alone = pm.read(FOLDER / "sessions").usage
    assert counted(alone) == totals()["usage"]
    assert tables().runs.height > 100


def test_it_holds_something_for_every_chart() -> None:
    """Several of everything that people meet: models, projects, weeks, versions, forks, errors, sources of time."""
    t, want = tables(), totals()
    assert len(want["by_model"]) == 5
    assert t.sessions["cwd"].n_unique() == 4
    assert t.sessions["parent_session_id"].drop_nulls().len() >= 3
    assert settled()["time"].dt.week().n_unique() == 7
    assert set(want["by_operation"]) == {"turn", "tool", "compaction", "branch_summary", "cache_warm"}
    assert set(t.usage["duration_source"].drop_nulls()) == {"reported", "arrival", "entry"}
    assert t.usage["time_to_first_token_s"].drop_nulls().len() > 300
    assert set(want["retries"]) == {"success", "failed", "exhausted", "aborted"}
    assert len(want["retried_errors"]) >= 4
    assert {name.split("/")[0] for name in want["compactions"]} == {"threshold", "overflow", "manual", "unknown"}
    assert set(want["stop_reasons"]) == {"stop", "toolUse", "length", "error", "aborted"}
    unpriced = settled().filter(pl.col("cost_usd") == 0, pl.col("input_tokens") > 0)
    assert set(unpriced["model"]) == {"plain-8b"}


def test_writing_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """What is in git is what the script writes."""
    write(tmp_path)
    assert dict(contents(tmp_path)) == dict(contents(FOLDER))


@pytest.mark.parametrize(("packed", "limit"), [(True, 1.2 * MEGABYTE), (False, 6 * MEGABYTE)])
def test_it_is_small(packed: bool, limit: float) -> None:
    """A clone of the repository and a first read stay quick."""
    stored = [path.stat().st_size for path in FOLDER.rglob("*.json*")]
    sizes = stored if packed else [len(data) for _, data in contents(FOLDER)]
    assert 0.3 * MEGABYTE < sum(sizes) < limit

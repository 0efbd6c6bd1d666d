"""One run seen through its stream, its session files and copies of both is one run, in any order."""

from __future__ import annotations

import random
import shutil

import pytest

from pimetrics.api import load
from pimetrics.keys import is_open
from tests.golden.recordings import recordings, scraped

WITH_FILES = pytest.mark.parametrize("recording", [r for r in recordings() if r.sessions], ids=lambda r: r.name)
BOTH_KNOW = ("prompts", "turns", "messages", "usage", "tool_calls", "compactions")

CUT = ("killed9", "sigterm", "sigterm_tool", "disconnect")
"""Streams that end in the middle of an answer: the answer is unfinished in the stream, or in the file alone."""

RESUMED = ("continued_b", "resumed_b")
"""Their session file also holds the run before."""


def keys(*paths):
    """Return the names of all facts, by table."""
    ledger, _ = load(paths)
    return {table: {key for key, _ in ledger.facts(table)} for table in (*BOTH_KNOW, "sessions", "runs", "retries")}


@WITH_FILES
def test_stream_and_files_name_the_same_facts(recording):
    """Every settled fact of a stream that files can know is in its files under the same name, and the other way."""
    stem = recording.name.split("/")[1]
    stream, files = keys(recording.stream), keys(*recording.sessions)
    ledger, _ = load([*recording.sessions])
    roles = {key: fact.values["role"] for key, fact in ledger.facts("messages")}
    reasons = {key: fact.values for key, fact in load([recording.stream])[0].facts("compactions")}
    for table in BOTH_KNOW:
        only_stream = {k for k in stream[table] - files[table] if not is_open(k)}
        only_files = {k for k in files[table] - stream[table] if not is_open(k)}
        if table == "compactions":  # a failed one is not written; manual ones before 0.63.1 have no events
            only_stream = {k for k in only_stream if reasons[k]["outcome"] == "ok"}
            only_files = set() if recording.name == "0.58.4/rpc_compact" else only_files
        if table == "messages":  # direct bash commands are no events
            only_files = {k for k in only_files if roles[k] != "bashExecution"}
        if table == "usage":  # a branch summary stands only in the file
            only_files = {k for k in only_files if k[0] != "entry"}
        if stem not in RESUMED and stem not in CUT:
            assert (only_stream, only_files) == (set(), set()), table
        assert only_stream == set() or stem in CUT, table


@WITH_FILES
def test_any_mix_is_one_run(recording, tmp_path):
    """Stream and files, in either order, twice, copied and shuffled: the same facts and totals."""
    paths = [recording.stream, *recording.sessions]
    once = keys(*paths)
    copies = [shutil.copy(path, tmp_path / f"copy-{n}-{path.name}") for n, path in enumerate(paths)]
    mixed = [*paths, *copies]
    random.Random(recording.name).shuffle(mixed)
    assert keys(*reversed(paths)) == once
    assert keys(*mixed) == once
    for table in BOTH_KNOW:
        assert len(once[table]) == len({*keys(recording.stream)[table], *keys(*recording.sessions)[table]}) or any(
            is_open(key) for key in keys(recording.stream)[table] | keys(*recording.sessions)[table]
        )


@WITH_FILES
def test_counters_do_not_depend_on_the_order(recording):
    """Tokens, money, requests and calls are counted once, whichever source comes first."""
    paths = [recording.stream, *recording.sessions]
    exact = ("pi_tokens_total", "pi_cost_usd_total", "pi_requests_total", "pi_tool_calls_total", "pi_sessions_total")
    there, back = scraped(*paths), scraped(*reversed(paths))
    assert {k: v for k, v in there.items() if k[0] in exact} == {k: v for k, v in back.items() if k[0] in exact}

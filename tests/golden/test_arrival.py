"""Latencies offline are those of live: every recording stamped with the times at which its lines arrived."""

from __future__ import annotations

import json

import polars as pl
import pytest

import pimetrics as pm
from pimetrics.sources.compressed import read_chunks
from pimetrics.stamping import Stamper
from tests.golden.recordings import recordings, scraped, total

TIMED = pytest.mark.parametrize(
    "recording",
    [r for r in recordings() if r.stream.with_name(r.name.split("/")[1] + ".times").exists()],
    ids=lambda r: r.name,
)


def arrivals(recording):
    """Return (line, epoch ms of its arrival) of a recording."""
    data = b"".join(read_chunks(recording.stream, 1 << 20))
    times = recording.stream.with_name(recording.name.split("/")[1] + ".times").read_text().split()
    return list(zip(data.splitlines(keepends=True), map(int, times), strict=False))


def stamped(recording, tmp_path):
    """Write a recording as `record` would have."""
    stamper = Stamper()
    path = tmp_path / "stamped.jsonl"
    path.write_bytes(b"".join(stamper.feed(line, at) for line, at in arrivals(recording)) + stamper.finish())
    return path


def ms(seconds):
    return sorted(round(each * 1000) for each in seconds)


@TIMED
def test_tools_last_as_long_as_observed(recording, tmp_path):
    """A call lasts from the arrival of its start to that of its end, unless pi reported its length itself."""
    calls = pm.read(stamped(recording, tmp_path)).tool_calls
    for tool, want in recording.oracle["stream"]["tools"].items():
        found = calls.filter(pl.col("tool") == tool)
        reported = found.filter(pl.col("duration_source") == "reported")
        arrival = found.filter(pl.col("duration_source") == "arrival")
        assert ms(reported["duration_s"]) == sorted(want["reported_ms"])
        if want["reported_ms"]:
            assert set(ms(arrival["duration_s"])) <= set(want["observed_ms"])
        else:
            assert ms(arrival["duration_s"]) == sorted(want["observed_ms"])
        assert found.height - reported.height - arrival.height == want["starts"] - want["executions"]


@TIMED
def test_requests_and_first_tokens(recording, tmp_path):
    """A request lasts from its timestamp to the arrival of its end, its first token to that of its first delta."""
    durations, first_tokens = {}, {}
    first = None
    for line, at in arrivals(recording):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        message = record.get("message") or {}
        if record["type"] == "message_start" and message.get("role") == "assistant":
            first = None
        elif record["type"] == "message_update":
            if first is None and record["assistantMessageEvent"]["type"].endswith("_delta"):
                first = at
        elif record["type"] == "message_end" and message.get("role") == "assistant":
            key = message["timestamp"]
            durations[key] = message.get("durationMs", at - key)
            first_tokens[key] = None if first is None else first - key
            first = None
    usage = pm.read(stamped(recording, tmp_path)).usage.filter(pl.col("settled") & (pl.col("operation") == "turn"))
    found = {
        row["time"].timestamp() * 1000: (row["duration_s"], row["time_to_first_token_s"]) for row in usage.to_dicts()
    }
    assert {k: round(v[0] * 1000) for k, v in found.items()} == durations
    assert {k: None if v[1] is None else round(v[1] * 1000) for k, v in found.items()} == first_tokens


@TIMED
def test_the_scrape_observes_the_same(recording, tmp_path):
    """Counts and sums of the histograms are those of the tables' reported and measured durations."""
    path = stamped(recording, tmp_path)
    t, samples = pm.read(path), scraped(path)
    measured = pl.col("duration_source").is_in(["reported", "arrival"])
    for metric, lengths in {
        "pi_tool_execution_duration_seconds": t.tool_calls.filter(measured)["duration_s"],
        "pi_request_duration_seconds": t.usage.filter(measured & pl.col("settled"))["duration_s"],
        "pi_time_to_first_token_seconds": t.usage.filter("settled")["time_to_first_token_s"].drop_nulls(),
        "pi_compaction_duration_seconds": t.compactions.filter(measured)["duration_s"],
        "pi_prompt_duration_seconds": t.prompts.filter(measured)["duration_s"],
    }.items():
        assert total(samples, f"{metric}_count") == len(lengths)
        assert total(samples, f"{metric}_sum") == pytest.approx(lengths.sum(), abs=1e-6)

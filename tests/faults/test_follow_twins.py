"""A fact from a session file waits for its twin from a stream, which knows more; recordings are read first."""

from __future__ import annotations

import os

import pytest

from pimetrics.sinks.recording import create, is_over, new_name
from tests.property.test_sources_in_any_order import WITH_FILES
from tests.rig import Rig
from tests.support import assert_same, read, result
from tests.tails import append

PAIR = next(each for each in WITH_FILES if len(each.session_paths) == 1)


def shown(rig: Rig) -> dict[tuple[str, tuple[str, ...]], int]:
    """The counters and sums of pi's own metrics that are not 0."""
    return {key: n for key, n in rig.increase.items() if key[0].startswith("pi_") and n}


def wanted(*sources: tuple[str, bytes]) -> dict[tuple[str, tuple[str, ...]], int]:
    """The same of a ledger that was given the stream first."""
    result = read(*sources)
    found = {key: n for key, n in result.counters.items() if key[0].startswith("pi_") and n}
    for (metric, labels), (counts, total) in result.histograms.items():
        found[metric + "_sum", labels], found[metric + "_count", labels] = total, sum(counts)
    return {key: n for key, n in found.items() if n}


@pytest.mark.parametrize("first", ["stream", "file"])
def test_either_twin_first_within_the_settle_time(folder, first):
    """Whichever comes first, within two seconds, counters are those of the stream: no late revision."""
    stream, file = PAIR.stamped(), PAIR.session_paths[0].read_bytes()
    rig = Rig(folder)
    rig.poll()
    order = [("r.jsonl", stream), ("s.jsonl", file)]
    for name, data in order if first == "stream" else reversed(order):
        append(folder / name, data)
        rig.poll()
    rig.rest()
    want = wanted(("r", stream), ("s", file))
    got = shown(rig)
    for key in want:
        if key[0] not in {"pi_prompts_total", "pi_prompt_duration_seconds_sum"}:
            assert got.get(key) == want[key], key


def test_catching_up_reads_recordings_first(folder):
    """Session files are named before the recording, and still the stream moves the counters."""
    append(folder / "a-session.jsonl", PAIR.session_paths[0].read_bytes())
    append(folder / "z-recording.jsonl", PAIR.stamped())
    rig = Rig(folder)
    rig.poll(1)
    assert rig.exporter.ready
    seen = rig.exporter.snapshot().histograms.get("pi_time_to_first_token_seconds", {})
    want = read(("r", PAIR.stamped())).histograms
    assert {labels: each.total for labels, each in seen.items()} == {
        labels: total for (metric, labels), (_, total) in want.items() if metric == "pi_time_to_first_token_seconds"
    }
    assert rig.total("pimetrics_late_revisions_total", table="usage") == 0


def test_a_fact_of_a_file_shows_after_the_settle_time(folder):
    """Without a twin it shows two seconds later, not before."""
    rig = Rig(folder)
    rig.poll()
    append(folder / "s.jsonl", PAIR.session_paths[0].read_bytes())
    rig.poll(2)
    assert rig.total("pi_requests_total") == 0
    rig.rest()
    assert rig.total("pi_requests_total") == read(PAIR.session_paths[0].read_bytes()).total("pi_requests_total")


def test_a_recording_ends_when_its_recorder_is_gone(tmp_path):
    """While the recorder holds its lock a call that runs is open; once it is gone the call is unfinished, at once."""
    path = tmp_path / new_name(1_794_000_000.0)
    lines = [
        b'{"type":"session","version":3,"id":"s","timestamp":"2026-11-17T12:00:00.000Z","cwd":"/d"}\n',
        b'{"type":"agent_start"}\n',
        b'{"type":"tool_execution_start","toolCallId":"a","toolName":"bash","args":{}}\n',
    ]
    fd = create(path)
    os.write(fd, b"".join(lines))
    rig = Rig(tmp_path, settle=0, ended=is_over)
    rig.rest()
    assert rig.total("pi_tool_calls_total") == 0
    assert rig.gauge("pi_tool_executions_in_progress") == 1
    os.write(fd, b'{"type":"queue_update","steering":["x"],"followUp":[]}\n')
    os.close(fd)
    rig.rest()
    assert rig.total("pi_tool_calls_total", outcome="unfinished") == 1
    assert rig.total("pi_runs_total", outcome="unfinished") == 1
    assert rig.gauge("pi_tool_executions_in_progress") == 0
    assert rig.total("pimetrics_records_total", record="queue_update") == 1


@pytest.mark.parametrize("recording", WITH_FILES, ids=lambda each: each.id)
@pytest.mark.parametrize("first", ["stream", "files"])
def test_every_pair_in_either_order_gives_the_tables_of_a_read(folder, recording, first):
    """Stream and session files of a recording, minutes apart, followed to a day's silence: the tables of `read`."""
    streams = [("r.jsonl", recording.stamped())]
    files = [(f"s{n}.jsonl", path.read_bytes()) for n, path in enumerate(recording.session_paths)]
    rig = Rig(folder)
    rig.poll()
    for part in (streams, files) if first == "stream" else (files, streams):
        for name, data in part:
            append(folder / name, data)
        rig.rest()
        rig.rest(60)
    rig.rest(90_000)
    rig.rest(90_000)
    assert rig.exporter.states == {"done": 1 + len(files)}
    want = read(*((str(folder / name), data) for name, data in (*streams, *files)))
    ledger = rig.daemon._ledger
    found = result(ledger, want.stats)
    assert_same(found._replace(counters=want.counters, histograms=want.histograms, late=want.late), want)
    for metric in ("pi_tokens_total", "pi_cost_usd_total", "pi_requests_total"):
        assert found.total(metric) == want.total(metric)

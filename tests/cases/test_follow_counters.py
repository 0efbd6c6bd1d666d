"""The cases about what a scrape of a follower shows: zeros, history, gauges, latencies, series."""

from __future__ import annotations

import itertools
import json

import pytest

import pimetrics
from pimetrics.names import METRICS
from pimetrics.sinks.metrics import PiCollector
from tests.cases.scans import case
from tests.rig import Rig
from tests.tails import append, tail_lines


def series(rig: Rig) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples of a scrape."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in PiCollector(rig.exporter.snapshot).collect()
        for sample in family.samples
    }


def test_37_a_line_in_two_writes(folder):
    """Half a line is neither a reject nor a record, a line without LF is no record yet; scanned, it is one."""
    path, (file,) = folder / "s.jsonl", case("37").files
    data = file.read_bytes()
    end = data.index(b"\n") + 1
    rig = Rig(folder, settle=0)
    path.touch()
    rig.poll()
    for piece, rows in ((data[: end + 90], 0), (data[end + 90 :], 0), (b"\n", 1)):
        append(path, piece)
        rig.poll()
        rig.assert_right({"usage_rows": rows})
        assert rig.rejects == 0
    assert len(pimetrics.read(file).usage) == 1


@pytest.mark.parametrize(("number", "reason", "rows"), [("40", "nul_padding", 3), ("41", "invalid_utf8", 2)])
def test_40_41_a_bad_line_costs_itself_only(folder, number, reason, rows):
    """NUL padding and broken UTF-8, byte by byte as they come."""
    path, data = folder / "s.jsonl", case(number).files[0].read_bytes()
    rig = Rig(folder, settle=0)
    rig.poll()
    for at in range(0, len(data), 97):
        append(path, data[at : at + 97])
        rig.poll(1)
    rig.assert_right({"usage_rows": rows})
    assert rig.total("pimetrics_rejects_total", reason=reason) == rig.rejects == 1
    assert [reason for reason, _ in rig.notices.lines] == ["rejected"]


def test_47_a_record_shows_while_the_pipe_is_open(folder):
    """What came through a pipe shows with the next step; the end of the pipe changes nothing of it."""
    rig = Rig(folder, paths=[], piped=True)
    rig.poll()
    rig.pipe.put(case("47").files[0].read_bytes())
    rig.poll(1)
    rig.assert_right({"usage_rows": 1})
    rig.pipe.end()
    rig.poll(1)
    rig.assert_right({"usage_rows": 1})


def test_53_long_tools_have_their_bucket(folder):
    """Twelve minutes and an hour are below the largest finite bound, three milliseconds in the first."""
    rig = Rig(folder, settle=0)
    (folder / "s.jsonl").write_bytes(case("53").files[0].read_bytes())
    rig.poll()
    right = case("53").right
    seen = rig.exporter.snapshot().histograms["pi_tool_execution_duration_seconds"]
    found = {tool: {"count": sum(each.counts), "sum_s": each.total / 1e6} for (tool,), each in seen.items()}
    assert found == right["tool_latency"]
    assert sum(each.counts[-1] for each in seen.values()) == 0
    buckets = METRICS["pi_tool_execution_duration_seconds"].buckets
    assert buckets[0] <= right["smallest_bucket_at_most_s"]
    assert buckets[-1] >= right["largest_finite_bucket_at_least_s"]


def test_70_zeros_from_the_first_scrape(folder):
    """Every bounded series exists at 0 before the first event, so that the first increment is an increase."""
    rig = Rig(folder, settle=0)
    rig.poll()
    first = series(rig)
    bounded = [
        name
        for name, family in METRICS.items()
        if family.kind == "counter" and set(family.closed) == set(family.labels)
    ]
    for name in bounded:
        family = METRICS[name]
        for values in itertools.product(*family.closed.values()):
            assert first[name, tuple(sorted(zip(family.closed, values, strict=True)))] == 0, (name, values)
    assert first["pimetrics_sources", (("state", "unreadable"),)] == 0
    header = {"type": "session", "version": 3, "id": "z", "timestamp": "2026-11-17T12:00:00.000Z", "cwd": "/srv/demo"}
    stream = [
        header,
        {"type": "agent_start"},
        {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 1, "delayMs": 2000, "errorMessage": "529 overloaded"},
        {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "529 overloaded"},
        {"type": "compaction_start", "reason": "threshold"},
        {"type": "compaction_end", "reason": "threshold", "aborted": False, "willRetry": False, "errorMessage": "no"},
    ]
    append(folder / "s.jsonl", *(json.dumps(each).encode() + b"\n" for each in stream))
    rig.poll()
    second = series(rig)
    assert second["pi_retry_sequences_total", (("outcome", "exhausted"), ("scope", "turn"))] == 1
    assert second["pi_compactions_total", (("outcome", "failed"), ("reason", "threshold"))] == 1


def test_71_history_is_no_ramp(folder, tmp_path):
    """Before catch-up is done no `pi_` series shows; then all of it at once, and it never moves again."""
    header, *records = tail_lines("71")
    for copy in range(300):
        own = [
            each.replace(b"tail-", b"t%d-" % copy).replace(b'"timestamp":1794819', b'"timestamp":%d' % (1794000 + copy))
            for each in records
        ]
        append(folder / f"s{copy}.jsonl", header.replace(b"sess-tail", b"sess-%d" % copy), *own)
    rig = Rig(folder, state=tmp_path / "l.db")
    assert not rig.exporter.ready
    assert [name for name, _ in series(rig) if name.startswith("pi_")] == []
    rig.poll(1)
    assert rig.exporter.ready
    first = {key: n for key, n in series(rig).items() if key[0].startswith("pi_")}
    rig.assert_right({"usage_rows": 1800})
    rig.rest()
    assert {key: n for key, n in series(rig).items() if key[0].startswith("pi_")} == first
    rig.stop()


def test_73_sessions_make_no_series(folder):
    """A thousand sessions, directories and calls more: not one series more, and no label that names them."""
    rig = Rig(folder, settle=0)

    def ingest(first: int) -> None:
        out = []
        for n in range(first, first + 1000):
            at = 1_794_819_000_000 + n * 1000
            message = {
                "role": "assistant", "provider": "p", "model": "m", "timestamp": at, "stopReason": "toolUse",
                "content": [
                    {"type": "toolCall", "id": f"c{n}-{k}", "name": ("bash", "read")[k % 2], "arguments": {}} for k in range(4)
                ],
                "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.001}},
            }  # fmt: skip
            out.append(
                {
                    "type": "session",
                    "version": 3,
                    "id": f"s{n}",
                    "cwd": f"/w/{n}",
                    "timestamp": "2026-11-16T09:00:00.000Z",
                }
            )
            out.append(
                {
                    "type": "message",
                    "id": f"{n:08x}",
                    "parentId": None,
                    "timestamp": "2026-11-16T09:00:01.000Z",
                    "message": message,
                }
            )
        append(folder / "many.jsonl", *(json.dumps(each).encode() + b"\n" for each in out))
        rig.rest()

    ingest(0)
    before = series(rig)
    ingest(1000)
    after = series(rig)
    assert rig.total("pi_sessions_total") == 2000
    assert before.keys() == after.keys()
    labels = {name for _, each in after for name, _ in each}
    assert labels.isdisjoint(case("73").right["forbidden_labels"])


def test_78_one_session_in_two_processes(folder, tmp_path):
    """Two files of one session id grow in turn: no sample falls, and the sum is exact."""
    one, two = (path.read_bytes().splitlines(keepends=True) for path in case("78").files)
    rig = Rig(folder, state=tmp_path / "l.db")
    for pair in itertools.zip_longest(one, two):
        for name, line in zip(("one", "two"), pair, strict=True):
            if line is not None:
                append(folder / f"{name}.jsonl", line)
                rig.rest()
    rig.assert_right({"usage_rows": 6, "input": 330, "output": 33, "cost_usd": 0.33})
    rig.stop()


def test_79_gauges_do_not_stick(folder, tmp_path):
    """A run that died in the middle is over for the gauges after the idle time, and after a restart."""
    (folder / "s.jsonl").write_bytes(case("79").files[0].read_bytes())
    rig = Rig(folder, state=tmp_path / "l.db", idle=2.0)

    def doing() -> tuple[float, float, float]:
        names = ("pi_runs_active", "pi_tool_executions_in_progress", "pi_queue_depth")
        return tuple(rig.gauge(name) for name in names)

    rig.poll(1)
    assert doing() == (1, 1, 3)
    rig.rest()
    assert doing() == (0, 0, 0)
    rig.stop()
    rig.start()
    rig.rest()
    assert doing() == (0, 0, 0)
    assert rig.total("pi_tool_calls_total") == 0  # silence ends gauges, never a call
    assert list(pimetrics.read(folder).tool_calls["outcome"]) == ["unfinished"]
    rig.stop()


def test_79_a_restart_finds_what_goes_on(folder, tmp_path):
    """A run in progress shows again after a restart, though not a byte of its file is new."""
    (folder / "s.jsonl").write_bytes(case("79").files[0].read_bytes())
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    rig.stop()
    rig.start()
    rig.poll()
    assert rig.gauge("pi_runs_active") == 1
    rig.stop()


def test_79_a_day_of_silence_is_an_end(folder, tmp_path):
    """After 24 hours what was open is counted as unfinished, once, over restarts."""
    (folder / "s.jsonl").write_bytes(case("79").files[0].read_bytes())
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    rig.rest(90_000)
    rig.rest(90_000)
    assert rig.total("pi_tool_calls_total", outcome="unfinished") == 1
    assert rig.exporter.states == {"done": 1}
    rig.stop()
    rig.start()
    rig.rest()
    assert rig.total("pi_tool_calls_total", outcome="unfinished") == 1
    rig.stop()

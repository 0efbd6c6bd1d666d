"""kill -9, SIGTERM and restarts of a real `serve`."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pimetrics
from tests.cases.test_follow_rotation import append, tail_lines
from tests.faults.kill_rounds import kill_rounds
from tests.serving import Served


def test_a_few_kills_lose_and_double_nothing(tmp_path):
    """Killed at random moments while its file grows: counters and cost are exact and never fall."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    found = kill_rounds(tmp_path, rounds=4, seed=seed)
    assert found.total == found.last == found.want
    assert found.cost == found.want_cost
    assert found.falls == 0


def test_sigterm_ends_it_at_once_with_all_committed(tmp_path: Path):
    """Exit 0 within two seconds, and what was read a moment before is in the ledger."""
    header, *records = tail_lines("65")
    path, state = tmp_path / "s.jsonl", tmp_path / "state" / "l.db"
    append(path, header, *records[:3])
    with Served([path, "--state", state]) as served:
        served.ready()
        append(path, records[3])
        time.sleep(0)  # the ledger may or may not have it; the end must not lose what was read
        start = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0
        assert time.monotonic() - start < 2
    with Served([path, "--state", state]) as served:
        served.ready()
        served.wait_for("pi_tokens_total", 100, token_type="input")
    assert len(pimetrics.read(state).usage) == 4


def test_sigterm_while_it_catches_up(tmp_path):
    """In the middle of thousands of files: exit 0 within two seconds, and the next start goes on from there."""
    header, *records = tail_lines("65")
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(1500):
        own = [line.replace(b"tail-", b"t%d-" % number) for line in records]
        append(folder / f"{number}.jsonl", header.replace(b"sess-tail", b"s%d" % number), *own)
    with Served([folder, "--state", tmp_path / "l.db"]) as served:
        _ = served.url
        while not served.sum("pimetrics_bytes_read_total"):
            assert served.process.poll() is None
        start = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0
        assert time.monotonic() - start < 2
    with Served([folder, "--state", tmp_path / "l.db"]) as served:
        served.ready()
        served.wait_for("pi_requests_total", 9000)

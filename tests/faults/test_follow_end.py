"""SIGTERM: exit 0 at once, with what was read in the ledger and the rest left to the next start.

What the end costs is told by processor time and by the order of things: the wall clock of a busy machine says nothing.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pimetrics
from tests import crowd
from tests.rig import Rig
from tests.serving import Served
from tests.tails import append, tail_lines

END_CPU_S = 0.6
"""Most processor time from the signal to the end: 0.2 s on a quiet machine, three times that on one whose cores are
shared."""

SETTLED_CPU_S = 2.0
"""The same with 2,000 answers that wait for a twin: 0.6 s."""


def test_what_was_read_a_moment_before_is_in_the_ledger(tmp_path: Path):
    """Exit 0 within two seconds, and the last record is not lost."""
    header, *records = tail_lines("65")
    path, state = tmp_path / "s.jsonl", tmp_path / "state" / "l.db"
    append(path, header, *records[:3])
    with Served([path, "--state", state]) as served:
        served.ready()
        append(path, records[3])
        ended = served.end()  # the ledger may or may not have it; the end must not lose what was read
        assert ended.status == 0
        assert ended.wall_s < 2
    with Served([path, "--state", state]) as served:
        served.ready()
        served.wait_for("pi_tokens_total", 100, token_type="input")
    assert len(pimetrics.read(state).usage) == 4


def test_in_the_middle_of_thousands_of_files(tmp_path):
    """While it catches up with many small files: little more to do, and the next start goes on from there."""
    crowd.make(tmp_path / "s", 1500, 6)
    _ends_while_catching_up(tmp_path, 9000)


def test_in_the_middle_of_a_large_file(tmp_path):
    """While it catches up with files of many megabytes: no large piece of one is worked off first."""
    crowd.make(tmp_path / "s", 3, 9000)
    _ends_while_catching_up(tmp_path, 27_000)


def _ends_while_catching_up(tmp_path: Path, answers: int) -> None:
    with Served([tmp_path / "s", "--state", tmp_path / "l.db"]) as served:
        _ = served.url
        while not served.sum("pimetrics_bytes_read_total"):
            assert served.process.poll() is None
        ended = served.end()
        assert ended.status == 0
        assert ended.cpu_s < END_CPU_S
    assert len(pimetrics.read(tmp_path / "l.db").usage) < answers, "it had caught up: nothing was tested"
    with Served([tmp_path / "s", "--state", tmp_path / "l.db"]) as served:
        served.ready()
        served.wait_for("pi_requests_total", answers)
        served.wait_for("pi_tokens_total", answers * crowd.INPUT, token_type="input")


def test_while_two_thousand_answers_wait_for_a_twin(tmp_path):
    """Two seconds of 1,000 records/s wait for richer streams: all of it is committed."""
    root, state = tmp_path / "s", tmp_path / "l.db"
    crowd.make(root, 50, 1)
    with Served([root, "--state", state]) as served:
        served.ready()
        for number in range(50):
            crowd.grow(root, number, 1, 40)
        served.wait_for("pimetrics_records_total", 50 * 41, record="message")
        ended = served.end()
        assert ended.status == 0
        assert ended.cpu_s < SETTLED_CPU_S
    usage = pimetrics.read(state).usage
    assert usage["input_tokens"].sum() == len(usage) * crowd.INPUT
    with Served([root, "--state", state]) as served:
        served.ready()
        served.wait_for("pi_requests_total", 50 * 41)


def test_a_machine_too_slow_to_commit_it_all_leaves_the_rest_to_the_next_start(tmp_path):
    """What waits in files when time is up is not committed now but found again: nothing lost, nothing twice."""
    header, *records = tail_lines("65")
    folder = tmp_path / "followed"
    folder.mkdir()
    rig = Rig(folder, state=tmp_path / "l.db")
    rig.poll()
    append(folder / "s.jsonl", header)
    for record in records:
        append(folder / "s.jsonl", record)
        rig.poll(1)
    ledger = rig.daemon._ledger
    add = ledger.add

    def slow_add(rows):
        add(rows)
        rig.monotonic += 0.4

    ledger.add = slow_add
    rig.stop()
    assert 0 < rig.summed("pi_requests_total") < len(records)
    rig.start()
    rig.rest()
    rig.assert_right({"usage_rows": 6, "input": 210, "output": 21, "cost_usd": 0.21})


def test_the_signal_before_it_serves(tmp_path):
    """While it looks for its files, before anything was read: exit 0, and no trace is left on standard error."""
    code = (
        "import os, signal, sys\n"
        "from pimetrics.commands import serve\n"
        "begin = serve.Daemon.begin\n"
        "def told(self):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    begin(self)\n"
        "serve.Daemon.begin = told\n"
        "serve.command(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "--no-state", "--web.listen-address", "127.0.0.1:0"],
        check=False, capture_output=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_cut_the_end_short(tmp_path, kind):
    """Ctrl-C or SIGTERM, pressed again and again: the commit is finished, exit 0."""
    root, state = tmp_path / "s", tmp_path / "l.db"
    crowd.make(root, 50, 1)
    with Served([root, "--state", state]) as served:
        served.ready()
        for number in range(50):
            crowd.grow(root, number, 1, 20)
        served.wait_for("pimetrics_records_total", 50 * 21, record="message")
        while served.process.poll() is None:
            served.process.send_signal(kind)
            time.sleep(0.01)
        assert served.process.wait() == 0
    assert len(pimetrics.read(state).usage) == 50 * 21

"""A report that several processes read: one of them is killed, or the user gives up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pimetrics import gathering
from tests import crowd

FILES, EACH = 60, 2500

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor reads alone")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("archive")
    crowd.make(root, FILES, EACH)
    assert sum(path.stat().st_size for path in root.rglob("*.jsonl")) > gathering.PARALLEL_BYTES
    return root


@contextmanager
def reporting(archive: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A report on its way, and the processes that read for it."""
    command = [sys.executable, "-m", "pimetrics", "report", "--json", str(archive)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while len(readers := psutil.Process(process.pid).children()) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield process, readers
    process.kill()
    process.communicate()


def test_it_comes_to_what_was_written(archive: Path) -> None:
    """The whole, and nobody is left."""
    with reporting(archive) as (process, readers):
        out, err = process.communicate(timeout=120)
        found = json.loads(out)
        assert err == ""
        assert process.returncode == 0
        assert found["usage"]["tokens"]["input"] == FILES * EACH * crowd.INPUT
        assert found["usage"]["cost_usd"] == pytest.approx(FILES * EACH * crowd.COST, abs=1e-9)
        psutil.wait_procs(readers, timeout=10)
        assert not any(reader.is_running() for reader in readers)


def test_a_killed_reader_is_one_sentence(archive: Path) -> None:
    """No figures that lack a part, no traceback, no wait without end."""
    with reporting(archive) as (process, readers):
        readers[0].kill()
        out, err = process.communicate(timeout=60)
        assert out == ""
        assert process.returncode == 2
        assert err.count("\n") == 1
        assert "a decoding process ended early" in err


def test_an_interrupt_ends_them_all(archive: Path) -> None:
    """As at a terminal, where each process gets the signal."""
    with reporting(archive) as (process, readers):
        time.sleep(0.3)
        for each in (*readers, psutil.Process(process.pid)):
            each.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert out == ""
        assert process.returncode in {130, -signal.SIGINT}
        assert "Traceback" not in err
        psutil.wait_procs(readers, timeout=10)
        assert not any(reader.is_running() for reader in readers)

"""A report of facts that several processes found is the report of one that read it all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from archives import ARCHIVES, Plan, write_archive
from hypothesis import given, settings

from pimetrics import gathering
from pimetrics.api import load
from pimetrics.commands.report import _BY
from pimetrics.pipeline import Stats
from pimetrics.reports.data import rows, top_rows
from pimetrics.reports.selection import Facts, Range, Selected, Zone
from pimetrics.reports.summary import summarize
from tests.support import STREAMS

UTC = Zone("UTC")
EXAMPLE = Path(__file__).parents[2] / "notebooks" / "example"


def told(facts: Facts, stats: Stats) -> dict[str, Any]:
    """All that reports say."""
    return {
        "summary": summarize(facts, stats),
        "top": top_rows(facts, 1000, UTC),
        **{by: rows(facts, by, UTC) for by in _BY},
    }


def read(folder: Path) -> tuple[Facts, Stats]:
    ledger, pipeline = load([folder])
    return ledger, pipeline.stats


@contextmanager
def shared(batch_bytes: int) -> Iterator[None]:
    """However small an archive is, two processes read it."""
    with (
        patch.object(gathering, "PARALLEL_BYTES", 0),
        patch.object(gathering, "_BATCH_BYTES", batch_bytes),
        patch.object(gathering, "processors", lambda: 2),
    ):
        yield


@given(plans=ARCHIVES)
@settings(max_examples=30)
def test_any_archive(plans: list[Plan]) -> None:
    """Forks, copies, joined files, files without a header: every figure of every view."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_archive(folder, plans)
        with shared(1):
            found = gathering.gather([folder], named=True)
        assert told(*found) == told(*read(folder))


def test_a_system_without_processes_to_give() -> None:
    """No room for one more, or no semaphores (a sandbox without /dev/shm): this process reads alone."""
    pool = "concurrent.futures.ProcessPoolExecutor"
    for where, error in (
        (pool, NotImplementedError("no semaphores")),
        (f"{pool}.submit", BlockingIOError("no process")),
    ):
        with shared(1), patch(where, side_effect=error) as refused:
            facts, stats = gathering.gather([EXAMPLE], named=True)
        refused.assert_called_once()
        assert not isinstance(facts, gathering.Archive)
        assert told(facts, stats) == told(*read(EXAMPLE))


def test_an_error_of_what_is_read_is_no_lack_of_processes() -> None:
    """It is told, not taken for a reason to read it all once more."""
    with (
        shared(1),
        patch.object(gathering, "load_files", side_effect=OSError(errno.EIO, "broken disk")) as again,
        pytest.raises(OSError, match="broken disk"),
    ):
        gathering.gather([EXAMPLE], named=True)
    again.assert_not_called()


def test_the_recordings_and_the_example() -> None:
    """Real ones: streams beside their session files, all versions; and what lies in a range of time."""
    for folder, size in ((STREAMS, 100_000), (EXAMPLE, 20_000)):
        with shared(size):
            facts, stats = gathering.gather([folder], named=True)
        assert isinstance(facts, gathering.Archive)
        ledger, read_stats = read(folder)
        assert told(facts, stats) == told(ledger, read_stats)
        within = Range(1_790_000_000_000, 1_794_000_000_000)
        assert told(Selected(facts, within), stats) == told(Selected(ledger, within), read_stats)

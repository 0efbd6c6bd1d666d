"""A few seconds of `python -m tests.faults.soak`."""

from __future__ import annotations

from tests.faults.soak import soak


def test_a_crowd_of_files_counts_exactly(tmp_path):
    """Hundreds of files, some of which grow by hundreds of records a second: exact, no fall, exit 0."""
    found = soak(tmp_path, files=300, growing=40, records_per_s=300, seconds=4)
    assert found.written > 300
    assert found.exact
    assert found.falls == 0
    assert found.status == 0

"""Shippers and receivers that are killed, over networks that break."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.fleet import run


@pytest.mark.parametrize("receivers", [1, 2])
def test_nothing_is_lost_or_doubled(tmp_path: Path, receivers: int) -> None:
    """Twelve shippers, kills on both sides, cut connections: sums and files are exact, over one receiver or two."""
    found = run(tmp_path, shippers=12, seed=7, receivers=receivers, records=30, kills=4)
    assert found.right, found
    assert found.killed_receivers
    assert found.broken
    assert found.files == 12

"""A file that is over leaves nothing behind: no source of it waits for the cycle collector, which a daemon runs seldom."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path

import pytest

from pimetrics.decoding import Decoder
from pimetrics.pipeline import Source
from pimetrics.reducing import Reduction
from tests import crowd
from tests.rig import Rig
from tests.support import STREAMS


@pytest.fixture
def no_collector():
    """Nothing but the last reference frees an object."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[type]:
    """How many readers of sources there are."""
    kinds = (Source, Decoder, Reduction)
    return Counter(type(each) for each in gc.get_objects() if isinstance(each, kinds))


@pytest.mark.usefixtures("no_collector")
def test_waves_of_files_that_end_leave_no_reader(tmp_path: Path):
    streams = sorted(STREAMS.rglob("*.jsonl"))[:8]
    assert streams
    over: set[str] = set()
    root = tmp_path / "sessions"
    rig = Rig(root, paths=[root], ended=over.__contains__)
    before = alive()
    for wave in range(3):
        crowd.make(root, 20 * (wave + 1), 3)
        for number, stream in enumerate(streams):
            (root / f"{wave}-{number}.jsonl").write_bytes(stream.read_bytes())
        rig.rest()
        assert alive() > before
        over |= {str(path) for path in root.rglob("*.jsonl")}
        for path in over:
            rig.daemon.hint(path)
        rig.rest()
        assert alive() == before

"""Real pi and the example archive: what the notebooks compare themselves with is what pi says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pimetrics.sources.compressed import read_chunks
from tests.bench.sidebyside import ask_pi, write
from tests.example.archive import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.pi import Home


def test_pi_says_of_every_session_what_totals_json_says(home: Home, tmp_path: Path) -> None:
    """`get_session_stats` of each session is its own spend and what it copied when it was forked."""
    want = json.loads((FOLDER / "totals.json").read_text())["sessions"]
    paths, ids = [], []
    for path in sorted(FOLDER.glob("sessions/*/*.jsonl.gz")):
        first, *lines = b"".join(read_chunks(path, 1 << 20)).decode().split("\n")
        header = json.loads(first) | {"cwd": str(home.project)}  # pi opens no session whose folder is gone
        header.pop("parentSession", None)
        paths.append(write(tmp_path, header, lines[:-1]))
        ids.append(header["id"])
    assert sorted(ids) == sorted(want)
    for session, said in zip(ids, ask_pi(home, paths), strict=True):
        parts = [want[session][part] for part in ("own", "copied") if part in want[session]]
        for name in ("input", "output", "cache_read", "cache_write"):
            assert getattr(said, name) == sum(part["tokens"][name] for part in parts), (session, name)
        assert said.cost_usd == pytest.approx(sum(part["cost_nano_usd"] for part in parts) / 1e9, rel=0, abs=1e-9)

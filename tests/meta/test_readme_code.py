"""The README's Python is code that runs, and its YAML says where `serve` listens."""

from __future__ import annotations

import re

import polars as pl
import pytest

from tests.golden.recordings import STREAMS
from tests.meta.readme_tables import README

TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def test_the_python_blocks_run_as_they_stand(tmp_path, monkeypatch):
    """All blocks in a row, on a session folder of the reader's own."""
    sessions = tmp_path / ".pi" / "agent" / "sessions"
    sessions.mkdir(parents=True)
    for path in (STREAMS / "1.6.0").glob("two_prompts.session*.jsonl"):
        (sessions / path.name).write_bytes(path.read_bytes())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    assert len(BLOCKS) == 3
    assert (tmp_path / "tools.png").stat().st_size > 10_000
    assert isinstance(names["t"].usage, pl.DataFrame)
    assert names["t"].usage.height == 4


@pytest.mark.parametrize("word", ["127.0.0.1:9746", "job_name: pimetrics"])
def test_the_scrape_configuration_is_there(word):
    """A reader can paste it."""
    assert word in "".join(re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))

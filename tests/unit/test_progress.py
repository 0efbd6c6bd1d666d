"""The progress bar: on a terminal only, and what it watches passes unchanged."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from pimetrics import progress


class Terminal(StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("error", [StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_sources_pass_unchanged(tmp_path, monkeypatch, error):
    """Names and bytes are the same with and without a bar; a pipe sees nothing of it."""
    monkeypatch.setattr(progress, "_WORTH_BYTES", 0)
    monkeypatch.setattr(sys, "stderr", error)
    files = [tmp_path / "a", tmp_path / "b", tmp_path / "gone"]
    for file in files[:2]:
        file.write_bytes(b"x" * 10)
    sources = [(str(file), [b"x" * 4, b"y" * 20]) for file in files]
    seen = [(name, list(chunks)) for name, chunks in progress.watched(files, iter(sources))]
    assert seen == sources
    assert bool(error.getvalue()) == error.isatty()


def test_short_reads_have_no_bar(tmp_path, monkeypatch):
    """A bar that is gone before it is seen only flickers."""
    error = Terminal()
    monkeypatch.setattr(sys, "stderr", error)
    file = tmp_path / "a"
    file.write_bytes(b"x")
    assert [name for name, _ in progress.watched([file], iter([(str(file), [b"x"])]))] == [str(file)]
    assert error.getvalue() == ""

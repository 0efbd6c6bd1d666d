"""The Python interface: whatever is read, the tables have the same form."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

import pimetrics as pm
from pimetrics.rows import COLUMNS, TABLES
from pimetrics.sinks.frames import schema
from tests.support import recordings

ONE = recordings(r"1\.6\.0/tools_parallel")[0]


def test_schemas_do_not_depend_on_the_input(tmp_path: Path) -> None:
    """An empty file and a recording give the same columns and types, in the order of COLUMNS."""
    (tmp_path / "empty.jsonl").touch()
    for path in (tmp_path / "empty.jsonl", ONE.stream_path):
        tables = dict(pm.read(path, events=True).items())
        assert list(tables) == [*TABLES, "events"]
        for name, frame in tables.items():
            assert frame.schema == schema(name)
            assert frame.columns == list(COLUMNS[name])
            assert frame["row_id"].is_unique().all()


def test_file_objects_and_paths_are_the_same() -> None:
    """A path and an open file give the same rows but for the name of the source."""
    path, file = pm.read(ONE.stream_path), pm.read(io.BytesIO(ONE.stream()))
    for (name, a), (_, b) in zip(path.items(), file.items(), strict=True):
        assert a.drop("source").equals(b.drop("source")), name


def test_no_text_of_a_message_is_kept() -> None:
    """No cell of any table holds what a user, a model or a tool wrote."""
    for name, frame in pm.read(ONE.stream_path).items():
        for text in frame.select(pl.col(pl.String)).iter_columns():
            assert not text.str.contains("slow done|Order tea").any(), name


def test_a_missing_path_is_a_source_error() -> None:
    """The error can be caught by its public name."""
    with pytest.raises(pm.SourceError, match="does not exist"):
        pm.read("/nowhere/at/all.jsonl")

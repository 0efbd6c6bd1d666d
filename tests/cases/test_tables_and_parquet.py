"""Cases from public reports about tables on disk: late fields, stable schemas, a full disk."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import pimetrics as pm
from pimetrics.exporting import export as to_parquet
from pimetrics.scanning import Scan

CASES = Path(__file__).parents[1] / "fixtures/cases"
PIMETRICS = (sys.executable, "-m", "pimetrics")


def case(number: int) -> tuple[dict, list[Path]]:
    (path,) = CASES.glob(f"{number:02d}-*.json")
    told = json.loads(path.read_text())
    return told["right"], [CASES / name for name in told["files"]] if "files" in told else []


def export(folder: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PIMETRICS, "export", *paths, "--to", folder], capture_output=True, text=True, check=False)


def test_82_a_field_first_seen_late_keeps_its_column(tmp_path: Path) -> None:
    """A field that appears in row 121 is in the table and in Parquet, null before."""
    right, files = case(82)
    done = export(tmp_path / "out", *files)
    assert done.returncode == right["exit_status"], done.stderr
    for usage in (pm.read(*files).usage, pm.scan(*files).usage.collect(), pl.read_parquet(tmp_path / "out/usage")):
        assert usage.height == right["usage_rows"]
        sums = {name: usage[f"{name}_tokens"].sum() for name in ("input", "output", "cache_read", "cache_write")}
        assert sums | {"total": sum(sums.values())} == right["tokens"]
        assert usage["reasoning_tokens"].sum() == right["reasoning_tokens"]
        assert usage["reasoning_tokens"].null_count() == right["reasoning_null_rows"]
        assert (usage["thinking_level"] == "high").sum() == right["thinking_level_high_rows"]
        assert usage["cost_usd"].sum() == pytest.approx(right["cost_usd"], abs=1e-12)


def test_83_exports_read_together_in_any_order(tmp_path: Path) -> None:
    """Two exports of different content and an empty one: one glob, any order, one schema."""
    right, _ = case(83)
    (tmp_path / "nothing").mkdir()
    inputs = {"a": case(9)[1], "b": case(14)[1], "c": [tmp_path / "nothing"]}
    for name, paths in inputs.items():
        assert export(tmp_path / name, *paths).returncode == right["exit_status"]
    schemas = set()
    for order in itertools.permutations(inputs):
        usage = pl.scan_parquet(
            [tmp_path / name / "usage/**/*.parquet" for name in order], hive_partitioning=True
        ).collect()
        assert usage.height == right["usage_rows"]
        schemas.add(tuple(usage.schema.items()))
    schemas |= {tuple(pl.read_parquet(tmp_path / name / "usage").schema.items()) for name in inputs}
    assert len(schemas) == 1
    ((*columns,),) = schemas
    assert pl.Null not in dict(columns).values()
    assert str(dict(columns)["time"]) == "Datetime(time_unit='ms', time_zone='UTC')"
    for path in tmp_path.rglob("*.parquet"):
        assert ("pimetrics.schema_version" in pl.read_parquet_metadata(path)) == right["schema_version_in_metadata"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                if file.write(b"x" * size) < size:
                    size //= 2
            except OSError:
                size //= 2
    return filler


def test_68_a_full_disk_leaves_no_part_of_an_export(disk: Path, tmp_path: Path) -> None:
    """The message names the folder and the reason; what was exported before stays whole; with room it goes on."""
    _, files = case(68)
    source = tmp_path / "s.jsonl"
    lines = files[0].read_bytes().splitlines(keepends=True)
    source.write_bytes(b"".join(lines[:4]))
    out = disk / "out"

    filler = fill(disk)
    done = export(out, source)
    assert done.returncode == 2
    assert str(out) in done.stderr
    assert "No space" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(disk.rglob("*.parquet")) == []

    filler.unlink()
    assert export(out, source).returncode == 0
    assert pl.read_parquet(out / "usage").height == 3
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    shutil.copy(files[0], source)
    fill(disk)
    done = export(out, source)
    assert done.returncode == 2
    assert "No space" in done.stderr
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_68_a_full_temporary_folder_is_named(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded tables have no room: the message names that folder and the way out, and nothing is exported."""
    fill(disk)
    monkeypatch.setattr("tempfile.tempdir", str(disk))
    with pytest.raises(pm.PimetricsError, match=rf"{disk}.*No space.*TMPDIR"):
        to_parquet(Scan(case(68)[1]), tmp_path / "out")
    assert not (tmp_path / "out").exists()

"""`export`: Parquet of an archive, whole, the same every time, and only as much work as there is news."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import pimetrics as pm
from pimetrics import exporting
from pimetrics.cli import cli
from pimetrics.errors import StateError
from pimetrics.exporting import export
from pimetrics.rows import TABLES
from pimetrics.scanning import Scan
from pimetrics.sinks import folder as export_folder
from pimetrics.sinks import parquet
from pimetrics.sinks.frames import schema

DAY_MS = 86_400_000
START_MS = round(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)


def session(number: int, day: int, answers: int = 3, parent: str | None = None) -> bytes:
    at = START_MS + day * DAY_MS + 3_600_000
    head = {"type": "session", "version": 3, "id": f"s-{number}", "timestamp": iso(at), "cwd": "/srv"}
    records = [head | ({} if parent is None else {"parentSession": parent})]
    for n in range(answers):
        usage = {"input": 1 + number, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}}
        body = {
            "role": "assistant",
            "content": [],
            "provider": "p",
            "model": "m",
            "usage": usage,
            "stopReason": "stop",
            "timestamp": at + n,
        }
        records.append(
            {
                "type": "message",
                "id": f"{n:08x}",
                "parentId": f"{n - 1:08x}" if n else None,
                "timestamp": iso(at + n),
                "message": body,
            }
        )
    return b"".join(json.dumps(each).encode() + b"\n" for each in records) + (b"noise\n" if number == 0 else b"")


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jsonl").write_bytes(session(number, day=number))
    return folder


def table(folder: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(folder / name).drop("date").sort("row_id")


def assert_exported(folder: Path, archive: Path) -> None:
    for name, want in pm.read(archive).items():
        assert_frame_equal(table(folder, name), want.sort("row_id"))


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p.relative_to(folder)): (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.rglob("*.parquet")}


def test_the_export_is_what_read_gives(archive: Path, tmp_path: Path) -> None:
    """Every table, every row and column, in partitions by the day (UTC) of `time`, or unknown."""
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)
    usage = pl.read_parquet(tmp_path / "out/usage")
    assert usage["date"].to_list() == usage["time"].dt.strftime("%Y-%m-%d").to_list()
    assert sorted(p.name for p in (tmp_path / "out/usage").iterdir()) == [
        "date=2026-11-01", "date=2026-11-02", "date=2026-11-03", "date=2026-11-04", "date=unknown",
    ]  # fmt: skip
    assert pl.read_parquet(tmp_path / "out/rejects/date=unknown").height == 1


def test_nothing_new_writes_and_decodes_nothing(archive: Path, tmp_path: Path) -> None:
    """A second export leaves every file alone, though their times of modification have changed."""
    export(Scan([archive]), tmp_path / "out")
    before = files(tmp_path / "out")
    for path in archive.iterdir():
        os.utime(path, (0, 0))
    scan = Scan([archive])
    outcome = export(scan, tmp_path / "out")
    assert files(tmp_path / "out") == before
    assert (outcome.written, scan.decoded) == (0, [])


def test_only_what_changed_is_written(archive: Path, tmp_path: Path) -> None:
    """A session that grew rewrites its own day; one that is new adds its day; the others are not even decoded."""
    export(Scan([archive]), tmp_path / "out")
    before = files(tmp_path / "out")
    (archive / "1.jsonl").write_bytes(session(1, day=1, answers=7))
    (archive / "9.jsonl").write_bytes(session(9, day=9))
    scan = Scan([archive])
    export(scan, tmp_path / "out")
    assert_exported(tmp_path / "out", archive)
    after = files(tmp_path / "out")
    changed = {name.split("/")[1] for name in after if before.get(name) != after[name]}
    assert changed == {"date=2026-11-02", "date=2026-11-10"}
    assert {path.name for family in scan.decoded for path in family.files} == {"1.jsonl", "9.jsonl"}


def test_sessions_of_the_same_day_are_written_together(archive: Path, tmp_path: Path) -> None:
    """A day's file holds all that belongs to it, also what has not changed."""
    (archive / "5.jsonl").write_bytes(session(5, day=1))
    export(Scan([archive]), tmp_path / "out")
    (archive / "1.jsonl").write_bytes(session(1, day=1, answers=7))
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)


def test_what_is_gone_from_the_archive_goes_from_the_export(archive: Path, tmp_path: Path) -> None:
    """The export mirrors its sources; days without rows vanish, and foreign files stay."""
    export(Scan([archive]), tmp_path / "out")
    (tmp_path / "out/notes.txt").write_text("mine")
    (archive / "2.jsonl").unlink()
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)
    assert not (tmp_path / "out/usage/date=2026-11-03").exists()
    assert (tmp_path / "out/notes.txt").read_text() == "mine"


def test_a_fork_that_joins_a_family_rewrites_it(archive: Path, tmp_path: Path) -> None:
    """What two files share is one row, also when the second comes between two exports."""
    export(Scan([archive]), tmp_path / "out")
    (archive / "f.jsonl").write_bytes(session(1, day=1, answers=2, parent="1.jsonl").replace(b'"s-1"', b'"s-f"'))
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)


def test_a_file_that_was_damaged_is_written_again(archive: Path, tmp_path: Path) -> None:
    """Deleted or cut partitions come back."""
    export(Scan([archive]), tmp_path / "out")
    (tmp_path / "out/usage/date=2026-11-02/data.parquet").unlink()
    (tmp_path / "out/turns/date=2026-11-03/data.parquet").write_bytes(b"PAR1")
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)


@pytest.mark.parametrize("manifest", ["", "[]", '{"schema_version": 99}'])
def test_an_export_of_another_kind_is_replaced(archive: Path, tmp_path: Path, manifest: str) -> None:
    """A manifest that cannot be used means that all is written anew, and old days do not stay behind."""
    export(Scan([archive]), tmp_path / "out")
    (tmp_path / "out/_manifest.json").write_text(manifest)
    (archive / "2.jsonl").unlink()
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)


def test_another_version_reads_everything_again(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may see more in the same files; partitions that come out the same stay."""
    export(Scan([archive]), tmp_path / "out")
    before = files(tmp_path / "out")
    monkeypatch.setattr(exporting, "__version__", "99")
    scan = Scan([archive])
    export(scan, tmp_path / "out")
    assert len(scan.decoded) == 4
    assert files(tmp_path / "out") == before


def test_the_manifest_tells_sources_and_rows(archive: Path, tmp_path: Path) -> None:
    """Schema version, size and content of every source, rows of every table."""
    export(Scan([archive]), tmp_path / "out")
    manifest = json.loads((tmp_path / "out/_manifest.json").read_text())
    assert manifest["schema_version"] == parquet.SCHEMA_VERSION
    assert manifest["rows"] == {name: frame.height for name, frame in pm.read(archive).items()}
    sources = {path: mark for group in manifest["groups"].values() for path, mark in group["sources"].items()}
    assert {path: size for path, (size, _digest) in sources.items()} == {
        str(p): p.stat().st_size for p in archive.iterdir()
    }


def test_two_exports_of_the_same_are_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    """Nothing of the moment gets into the files."""
    export(Scan([archive], processes=1), tmp_path / "a")
    export(Scan([archive]), tmp_path / "b")
    one, two = (
        {p.relative_to(d): p.read_bytes() for p in d.rglob("*") if p.is_file()}
        for d in (tmp_path / "a", tmp_path / "b")
    )
    assert one == two


def test_schemas_never_depend_on_the_input(tmp_path: Path) -> None:
    """An export of nothing has every dataset, with the columns and types of the tables and the version in its metadata."""
    (tmp_path / "none").mkdir()
    export(Scan([tmp_path / "none"]), tmp_path / "out")
    for name in TABLES:
        assert pl.scan_parquet(tmp_path / "out" / name).collect_schema() == pl.Schema(
            {**schema(name), "date": pl.String()}
        )
        (path,) = (tmp_path / "out" / name).rglob("*.parquet")
        assert pl.read_parquet_metadata(path)["pimetrics.schema_version"] == str(parquet.SCHEMA_VERSION)


def test_a_failure_leaves_the_old_export_whole(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks before the swap: the files that were there are there, and nothing beside them."""
    export(Scan([archive]), tmp_path / "out")
    before = files(tmp_path / "out")
    (archive / "1.jsonl").write_bytes(session(1, day=1, answers=7))
    monkeypatch.setattr(export_folder.Folder, "commit", lambda *_: (_ for _ in ()).throw(RuntimeError("broken")))
    with pytest.raises(RuntimeError):
        export(Scan([archive]), tmp_path / "out")
    assert files(tmp_path / "out") == before
    assert not list((tmp_path / "out").glob(".export-*"))


def test_a_crash_amid_the_swap_is_put_right(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some files new, the manifest old: the next export ends with what it should be."""
    export(Scan([archive]), tmp_path / "out")
    for number in range(4):
        (archive / f"{number}.jsonl").write_bytes(session(number, day=number, answers=7))
    swap, done = export_folder._swap, []

    def crash(*args: Path) -> None:
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(swap(*args))

    monkeypatch.setattr(export_folder, "_swap", crash)
    with pytest.raises(KeyboardInterrupt):
        export(Scan([archive]), tmp_path / "out")
    monkeypatch.undo()
    for number in (0, 1):
        (archive / f"{number}.jsonl").write_bytes(session(number, day=number))  # back to what the manifest knows
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)


def test_leftovers_of_a_killed_export_are_cleared(archive: Path, tmp_path: Path) -> None:
    """What `kill -9` left aside takes no room for long."""
    (tmp_path / "out/.export-old/usage").mkdir(parents=True)
    export(Scan([archive]), tmp_path / "out")
    assert not list((tmp_path / "out").glob(".export-*"))


def test_two_exports_at_once_are_refused(archive: Path, tmp_path: Path) -> None:
    """The second says so instead of mixing its files with the first one's."""
    with export_folder.exporting(tmp_path / "out"), pytest.raises(StateError, match="another export"):
        export(Scan([archive]), tmp_path / "out")


def test_rows_from_before_their_family_began_reach_their_day(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day that was already written takes more rows."""
    monkeypatch.setattr(parquet, "_day_before", lambda _first: "9999-99-99")
    (archive / "5.jsonl").write_bytes(session(5, day=1))
    export(Scan([archive]), tmp_path / "out")
    assert_exported(tmp_path / "out", archive)


def test_the_command_says_what_it_did(archive: Path, tmp_path: Path) -> None:
    """On standard error; standard output stays empty. Standard input is refused in one sentence."""
    done = CliRunner().invoke(cli, ["export", str(archive), "--to", str(tmp_path / "out")])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "4 of 4 groups of sources read" in done.stderr
    done = CliRunner().invoke(cli, ["export", "-", "--to", str(tmp_path / "out")])
    assert "only once" in str(done.exception)

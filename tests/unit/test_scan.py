"""LazyFrames over an archive: what polars asks for, what is decoded, and how often."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pimetrics as pm
from pimetrics import scanning, workers
from pimetrics.scanning import Scan
from pimetrics.sinks.frames import schema
from pimetrics.sinks.lazy import Piece, lazy_tables, once

START = datetime(2026, 11, 1, tzinfo=UTC)
FAMILIES = 6


def session(number: int, answers: int = 4) -> bytes:
    at = START + timedelta(days=3 * number)
    records = [{"type": "session", "version": 3, "id": f"s-{number}", "timestamp": iso(at), "cwd": "/srv"}]
    for n in range(answers):
        ms = round((at + timedelta(minutes=n)).timestamp() * 1000)
        usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}}
        body = {
            "role": "assistant",
            "content": [],
            "provider": "p",
            "model": "m",
            "usage": usage,
            "stopReason": "stop",
            "timestamp": ms,
        }
        records.append(
            {
                "type": "message",
                "id": f"{n:08x}",
                "parentId": f"{n - 1:08x}" if n else None,
                "timestamp": iso(at),
                "message": body,
            }
        )
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)


def iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number in range(FAMILIES):
        (folder / f"{number}.jsonl").write_bytes(session(number))
    return folder


def test_schemas_are_those_of_read_before_anything_is_read(tmp_path: Path) -> None:
    """An empty folder gives every table with its columns, and no rows."""
    eager, lazy = pm.read(tmp_path), pm.scan(tmp_path)
    for table, frame in eager.items():
        assert getattr(lazy, table).collect_schema() == frame.schema == schema(table)
        assert_frame_equal(getattr(lazy, table).collect(), frame)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_what_polars_pushes_down_changes_no_row(archive: Path, engine: str) -> None:
    """Columns, rows, filters and their mixtures give what they give on the eager table."""
    eager, lazy = pm.read(archive).usage, pm.scan(archive).usage
    cases = [
        lambda f: f.select("cost_usd", "time"),
        lambda f: f.filter(pl.col("cost_usd") > 0).select("row_id"),
        lambda f: f.head(5),
        lambda f: f.filter(pl.col("time") > START + timedelta(days=4)).head(5).select("session_id"),
        lambda f: f.slice(3, 7),
        lambda f: f.select(pl.len()),
        lambda f: f.group_by("session_id").agg(pl.sum("cost_usd")).sort("session_id"),
    ]
    for ask in cases:
        assert_frame_equal(ask(lazy).collect(engine=engine), ask(eager.lazy()).collect())


def test_rows_come_in_the_same_order_every_time(archive: Path) -> None:
    """Families in order of time, whatever was decoded before and by how many."""
    want = pm.scan(archive, processes=1).usage.collect()
    lazy = pm.scan(archive)
    lazy.usage.filter(pl.col("time") > START + timedelta(days=10)).collect()
    assert_frame_equal(lazy.usage.collect(), want)


def test_the_source_is_pure(archive: Path) -> None:
    """The same table twice in one query is the same rows twice."""
    usage = pm.scan(archive).usage
    joined = usage.join(usage, on="row_id").collect()
    assert joined.height == FAMILIES * 4
    assert pl.concat([usage, usage]).collect().height == 2 * FAMILIES * 4


def test_a_batch_that_breaks_the_schema_is_refused() -> None:
    """polars checks what it is given: a wrong type is an error, not a wrong table."""
    broken = pl.DataFrame({name: ["x"] for name in schema("usage")})
    with pytest.raises(pl.exceptions.PolarsError):
        lazy_tables(lambda _table, _span, columns: [Piece(broken.select(columns), None)]).usage.collect()


def test_batches_are_no_larger_than_asked_for(archive: Path) -> None:
    """`collect_batches` gets what it asked for, and all of it."""
    batches = list(pm.scan(archive).usage.collect_batches(chunk_size=5, maintain_order=True))
    assert sum(map(len, batches)) == FAMILIES * 4
    assert max(map(len, batches)) <= 5


def test_all_tables_decode_once(archive: Path) -> None:
    """What one table's query has decoded, the next table's finds."""
    scan = Scan([archive])
    lazy = lazy_tables(scan.read)
    frames = dict(lazy.items())
    for frame in frames.values():
        frame.collect()
    pl.collect_all(list(frames.values()))
    assert len(scan.decoded) == FAMILIES


def test_tables_collected_at_once_decode_once(archive: Path) -> None:
    """Queries that run at the same time share the work."""
    scan = Scan([archive])
    frames = pl.collect_all([frame for _, frame in lazy_tables(scan.read).items()], engine="streaming")
    assert sum(map(len, frames)) > 0
    assert len(scan.decoded) == FAMILIES


def test_a_filter_on_time_decodes_only_what_it_touches(archive: Path) -> None:
    """Families outside are not read, whatever the times of their files say."""
    for path in archive.iterdir():
        os.utime(path, (0, 0))
    scan = Scan([archive])
    day = START + timedelta(days=9)
    found = lazy_tables(scan.read).usage.filter(pl.col("time").is_between(day, day + timedelta(hours=1))).collect()
    assert found["session_id"].unique().to_list() == ["s-3"]
    assert [path.name for family in scan.decoded for path in family.files] == ["3.jsonl"]


def test_a_limit_stops_reading(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`head` does not decode the whole archive."""
    monkeypatch.setattr(scanning, "BATCH_BYTES", 1)
    scan = Scan([archive], processes=1)
    assert lazy_tables(scan.read).usage.head(2).collect().height == 2
    assert len(scan.decoded) < FAMILIES


def test_a_file_that_grows_is_read_again(archive: Path) -> None:
    """A later query sees what the files hold then, new ones too, and decodes only those."""
    scan = Scan([archive])
    usage = lazy_tables(scan.read).usage
    assert usage.collect().height == FAMILIES * 4
    (archive / "0.jsonl").write_bytes(session(0, answers=9))
    (archive / "new.jsonl").write_bytes(session(FAMILIES))
    assert usage.collect().height == (FAMILIES - 1) * 4 + 9 + 4
    assert len(scan.decoded) == FAMILIES + 2


def test_the_cache_has_a_bound(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it the oldest tables leave the disk and are decoded again: the same rows."""
    monkeypatch.setattr(scanning, "BATCH_BYTES", 1)
    monkeypatch.setattr(scanning, "CACHE_BYTES", 1)
    scan = Scan([archive], processes=1)
    lazy = lazy_tables(scan.read)
    assert_frame_equal(lazy.usage.collect(), pm.read(archive).usage)
    assert_frame_equal(lazy.turns.collect(), pm.read(archive).turns)
    assert len(scan.decoded) > FAMILIES


def test_the_temporary_folder_goes_with_the_tables(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stays behind, and meanwhile nobody else may look into it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lazy = pm.scan(archive)
    lazy.usage.collect()
    (folder,) = tmp_path.glob("pimetrics-scan-*")
    assert folder.stat().st_mode & 0o077 == 0
    del lazy
    gc.collect()
    assert not list(tmp_path.glob("pimetrics-scan-*"))


def test_other_processes_give_the_same_tables(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it pays families are decoded elsewhere; the rows and their order do not tell."""
    monkeypatch.setattr(workers, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(scanning, "BATCH_BYTES", 1)
    started: list[int] = []
    popen = subprocess.Popen

    def noted(*args, **kwargs):
        process = popen(*args, **kwargs)
        started.append(process.pid)
        return process

    monkeypatch.setattr(workers.subprocess, "Popen", noted)
    lazy = pm.scan(archive, processes=2)
    for table, frame in pm.read(archive).items():
        assert_frame_equal(getattr(lazy, table).collect().sort("row_id"), frame.sort("row_id"))
    assert 1 <= len(started) <= 2
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_script_without_a_guard_may_scan_in_parallel(archive: Path, tmp_path: Path) -> None:
    """Workers never run the caller's program again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, pimetrics as pm\nfrom pimetrics import scanning\nscanning.PARALLEL_BYTES = 0\n"
        "print('once')\nprint(pm.scan(sys.argv[1], processes=2).usage.collect().height)\n"
    )
    done = subprocess.run([sys.executable, script, archive], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["once", str(FAMILIES * 4)]
    assert done.stderr == ""  # and no progress bar: it is no terminal


def test_a_worker_that_dies_is_an_error_that_says_so(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed for want of memory, say: the query fails in words, and the next one starts anew."""
    monkeypatch.setattr(workers, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "_CODE", "import os; os._exit(9)  # {path}")
    usage = pm.scan(archive, processes=2).usage
    with pytest.raises(Exception, match="decoding process ended early"):
        usage.collect()
    monkeypatch.undo()
    assert usage.collect().height == FAMILIES * 4


def test_a_full_disk_is_told_in_words(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary folder to be had: the message names it and what to do."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(Exception, match=r"gone cannot be written .* TMPDIR"):
        pm.scan(archive).usage.collect()


def test_wrong_input_is_told_at_once(tmp_path: Path) -> None:
    """Missing paths and what can be read only once are refused when the scan is made, not when it is collected."""
    with pytest.raises(pm.SourceError, match="does not exist"):
        pm.scan(tmp_path / "gone")
    with pytest.raises(pm.PimetricsError, match="only once"):
        pm.scan("-")
    with pytest.raises(pm.PimetricsError, match="more than once"):
        pm.scan(open(os.devnull, "rb").close() or sys.stdin.buffer)


def test_a_ledger_is_refused(tmp_path: Path) -> None:
    """The state of `serve` is for `read`; scanning it line by line would give nothing but rejects."""
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(pm.PimetricsError, match="is a ledger"):
        pm.scan(tmp_path / "state.db")


def test_the_recordings(fixtures: Path) -> None:
    """Every recording of pi with its session files: the rows of `read`, table by table."""
    lazy = pm.scan(fixtures / "streams")
    for table, want in pm.read(fixtures / "streams").items():
        assert_frame_equal(getattr(lazy, table).collect(engine="streaming").sort("row_id"), want.sort("row_id"))


def test_what_no_mark_foretells_still_counts_once(tmp_path: Path) -> None:
    """Two long files that share messages in the middle only are two families, and yet no row stands twice."""
    a, b = session(0, answers=40).splitlines(keepends=True), session(1, answers=40).splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_bytes(b"".join(a))
    (tmp_path / "b.jsonl").write_bytes(b"".join([*b[:15], *a[15:25], *b[25:]]))
    scan = Scan([tmp_path])
    assert len(scan.families()) == 2
    usage, want = lazy_tables(scan.read).usage.collect(), pm.read(tmp_path).usage
    assert sorted(usage["row_id"]) == sorted(want["row_id"])
    assert usage["cost_usd"].sum() == want["cost_usd"].sum() == 35.0


def test_events_on_request(archive: Path) -> None:
    """A row a record, as `read` gives them."""
    found = pm.scan(archive, events=True).events
    want = pm.read(archive, events=True).events
    assert found is not None
    assert want is not None
    assert_frame_equal(found.collect().sort("row_id"), want.sort("row_id"))
    assert pm.scan(archive).events is None


def frame(*rows: tuple[str, int | None]) -> pl.DataFrame:
    return pl.DataFrame(
        {"row_id": [r for r, _ in rows], "time": [t for _, t in rows]}, schema={"row_id": pl.String, "time": pl.Int64}
    ).cast({"time": pl.Datetime("ms", "UTC")})


def test_a_fact_of_two_families_counts_once() -> None:
    """Where grouping could not foresee it, the row of the first family stands, with a time or without."""
    hour = 3_600_000
    pieces = [
        Piece(frame(("a", 10 * hour), ("b", 20 * hour), ("n", None)), float(9 * hour)),
        Piece(frame(("a", 10 * hour), ("c", 21 * hour)), float(20 * hour)),
        Piece(frame(("b", 20 * hour), ("c", 21 * hour), ("n", None), ("d", 22 * hour)), None),
    ]
    assert [each["row_id"].to_list() for each in once(pieces)] == [["a", "b", "n"], ["c"], ["d"]]
    together = [Piece(pl.concat([each.frame for each in pieces]), None, [3, 2, 4])]
    assert [each["row_id"].to_list() for each in once(together)] == [["a", "b", "n", "c", "d"]]


def test_families_that_were_decoded_together_come_in_one_piece(archive: Path) -> None:
    """A frame costs as much as some hundred rows, so small families do not get one each; some of them come alone."""
    scan = Scan([archive])
    families = scan.families()
    (piece,) = scan.pieces("usage", families, ["row_id"])
    assert (list(piece.counts), piece.frame.height) == ([4] * FAMILIES, 4 * FAMILIES)
    chosen = [families[n] for n in (1, 2, 5)]
    first, second = scan.pieces("usage", chosen, ["row_id"])
    assert [list(each.counts) for each in (first, second)] == [[4, 4], [4]]
    rows = piece.frame["row_id"].to_list()
    assert [*first.frame["row_id"], *second.frame["row_id"]] == [*rows[4:12], *rows[20:24]]
    assert len(scan.decoded) == FAMILIES

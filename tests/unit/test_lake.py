"""A lake: many hosts export into one store, anyone merges, anyone reads, at any time, and each fact stands once."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pimetrics as pm
from pimetrics import exporting
from pimetrics.errors import StateError, WrongUseError
from pimetrics.exporting import compact_lake, export
from pimetrics.rows import TABLES
from pimetrics.scanning import Scan
from pimetrics.sinks.frames import schema
from pimetrics.sinks.lake import writing
from pimetrics.sinks.lake.store import Store
from tests.reporting import run
from tests.unit.test_export import session

pytestmark = pytest.mark.usefixtures("own_state")


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This host's name is that of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jsonl").write_bytes(session(number, day=number))
    return folder


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/lake"


def paths(url: str) -> list[str]:
    return [each.path for each in Store(url).list()]


def assert_lake(url: str, *sources: Path) -> None:
    """Every row and column is what `read` says of the sources, but for the source that it names."""
    for (_, got), (_, want) in zip(pm.read(url).items(), pm.read(*sources).items(), strict=True):
        assert_frame_equal(got, want)


def test_a_lake_is_what_read_gives(archive: Path, url: str) -> None:
    """Every table, also the empty ones, by `read` and by `scan`."""
    export(Scan([archive]), url)
    assert_lake(url, archive)
    for (_, lazy), (_, want) in zip(pm.scan(url).items(), pm.read(archive).items(), strict=True):
        assert lazy.collect_schema() == want.schema
        assert_frame_equal(lazy.collect(engine="streaming").sort("time", "row_id", nulls_last=True), want)


def test_hosts_do_not_touch_each_other(archive: Path, url: str, tmp_path: Path) -> None:
    """Two archives of one host and a third of another: the lake is their union, whoever exports again."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "7.jsonl").write_bytes(session(7, day=1))
    export(Scan([archive]), url)
    export(Scan([other]), url)
    export(Scan([other]), url, host="build/7")
    assert_lake(url, archive, other)
    (other / "7.jsonl").write_bytes(session(7, day=2, answers=5))
    export(Scan([other]), url)
    export(Scan([other]), url, host="build/7")
    assert_lake(url, archive, other)
    assert {path.split("/")[1].rpartition("-")[0] for path in paths(url) if path.startswith("_writers/build-7")} == {
        "build-7"
    }


def test_what_two_hosts_share_is_one_row(archive: Path, url: str, tmp_path: Path) -> None:
    """A copy on another host adds nothing; in DuckDB, which reads files, the row stands twice until it is grouped."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "1.jsonl").write_bytes((archive / "1.jsonl").read_bytes())
    export(Scan([archive]), url, host="a")
    export(Scan([copy]), url, host="b")
    want = pm.read(archive).usage
    assert_frame_equal(pm.read(url).usage.drop("source"), want.drop("source"))
    files = f"{tmp_path}/lake/usage/*/*.parquet"
    assert duckdb.sql(f"SELECT count(*), count(DISTINCT row_id) FROM '{files}'").fetchall() == [
        (want.height + 3, want.height)
    ]


def test_only_what_changed_is_sent(archive: Path, url: str) -> None:
    """Nothing new sends nothing; a session that grew sends its day, and the file that it replaces goes."""
    export(Scan([archive]), url)
    before = paths(url)
    scan = Scan([archive])
    assert export(scan, url).written == 0
    assert (paths(url), scan.decoded) == (before, [])
    (archive / "1.jsonl").write_bytes(session(1, day=1, answers=7))
    export(Scan([archive]), url)
    assert {path.split("/")[1] for path in set(paths(url)) - set(before)} == {"date=2026-11-02"}
    assert len(paths(url)) == len(before)
    assert_lake(url, archive)


def test_a_merge_leaves_one_file_a_day(archive: Path, url: str, tmp_path: Path) -> None:
    """The rows stay, with their writers; the next exports send only what is new, and their rows supersede merged ones."""
    other = tmp_path / "other"
    other.mkdir()
    for number in (6, 7):
        (other / f"{number}.jsonl").write_bytes(session(number, day=number - 5))
    export(Scan([archive]), url, host="a")
    export(Scan([other]), url, host="b")
    rows = {table: pl.read_parquet(f"{tmp_path}/lake/{table}/*/*.parquet").height for table in TABLES}
    done = compact_lake(url)
    assert done.before > done.after
    days = [path.rpartition("/")[0] for path in paths(url) if not path.startswith("_writers")]
    assert len(days) == len(set(days)) == done.after
    assert rows == {table: pl.read_parquet(f"{tmp_path}/lake/{table}/*/*.parquet").height for table in TABLES}
    assert_lake(url, archive, other)
    assert compact_lake(url) == (done.after, done.after)
    assert export(Scan([archive]), url, host="a").written == 0
    (archive / "2.jsonl").write_bytes(session(2, day=2, answers=1))
    (other / "6.jsonl").unlink()
    export(Scan([archive]), url, host="a")
    export(Scan([other]), url, host="b")
    assert_lake(url, archive, other)
    compact_lake(url)
    assert_lake(url, archive, other)


@pytest.mark.parametrize("at", range(8))
def test_killed_anywhere_a_lake_shows_each_row_once(
    archive: Path,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    """Exports and merges that end between any two requests leave old rows or new ones, and the next ones put it right."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "7.jsonl").write_bytes(session(7, day=1))
    export(Scan([archive]), url, host="a")
    export(Scan([other]), url, host="b")
    old = pm.read(archive, other).usage
    (archive / "1.jsonl").write_bytes(session(1, day=1, answers=7))
    new = pm.read(archive, other).usage
    for act in (lambda: export(Scan([archive]), url, host="a"), lambda: compact_lake(url)):
        with monkeypatch.context() as patch:
            die_after(patch, at)
            try:
                act()
            except KeyboardInterrupt:
                shown = pm.read(url).usage
                assert shown["row_id"].is_unique().all()
                assert set(old["row_id"]) <= set(shown["row_id"]) <= set(new["row_id"])
        act()
        assert_lake(url, archive, other)


def die_after(patch: pytest.MonkeyPatch, requests: int) -> None:
    """Let some changes of the store through, one object each, and die at the next."""
    left = requests

    def counted(do):
        def change(*args):
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return do(*args)

        return change

    put, delete = Store.put, Store.delete
    one_by_one = counted(lambda store, path: delete(store, [path]))
    patch.setattr(Store, "put", counted(put))
    patch.setattr(Store, "delete", lambda store, gone: [one_by_one(store, path) for path in gone])
    patch.setattr(writing, "at_once", lambda do, items: [do(each) for each in items])


def test_a_file_that_goes_while_it_is_merged_or_read_is_looked_for_again(
    archive: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between a listing and a read another writer may replace a file."""
    export(Scan([archive]), url, host="a")
    export(Scan([archive]), url, host="b")
    stale = Store.list
    merged = False

    def once(store: Store, prefix: str = "") -> list:
        nonlocal merged
        found = stale(store, prefix)
        if not merged and prefix.startswith("usage/date"):
            merged = True
            with monkeypatch.context() as patch:
                patch.setattr(Store, "list", stale)
                compact_lake(url)
        return found

    monkeypatch.setattr(Store, "list", once)
    assert pm.scan(url).usage.collect().height == pm.read(archive).usage.height
    assert merged


def test_a_filter_on_time_reads_only_its_days(archive: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days outside of the filter are not asked for, nor are columns that nobody wants."""
    export(Scan([archive]), url)
    asked: list[str] = []
    address = Store.address
    monkeypatch.setattr(Store, "address", lambda store, path: asked.append(path) or address(store, path))
    day = datetime(2026, 11, 3, tzinfo=UTC)
    found = pm.scan(url).usage.filter(pl.col("time") >= day).select("cost_usd").collect()
    assert_frame_equal(found, pm.read(archive).usage.filter(pl.col("time") >= day).select("cost_usd"))
    assert {path.split("/")[1] for path in asked} == {"date=2026-11-03", "date=2026-11-04"}


def test_files_of_other_versions_are_read(archive: Path, url: str, tmp_path: Path) -> None:
    """A column that an older version did not write is null, one of a newer version is left out."""
    export(Scan([archive]), url)
    (path,) = (tmp_path / "lake/usage/date=2026-11-02").iterdir()
    pl.read_parquet(path).drop("api").with_columns(pl.lit(1).alias("later")).write_parquet(path)
    usage = pm.read(url).usage
    assert usage.schema == schema("usage")
    assert usage.height == pm.read(archive).usage.height


def test_foreign_objects_stay(archive: Path, url: str, tmp_path: Path) -> None:
    """What is not named as in a lake is somebody else's: not read, not deleted."""
    export(Scan([archive]), url)
    (tmp_path / "lake/usage/notes.txt").write_text("mine")
    (tmp_path / "lake/usage/date=2026-11-02/data.parquet").write_bytes(b"mine")
    export(Scan([archive]), url, host="b")
    compact_lake(url)
    assert_lake(url, archive)
    assert (tmp_path / "lake/usage/date=2026-11-02/data.parquet").read_bytes() == b"mine"


def test_a_host_has_a_name_of_its_own(archive: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers with one host name and one path are two writers; the same one stays the same."""
    monkeypatch.setattr(exporting.socket, "gethostname", lambda: "runner")
    for _ in range(2):
        export(Scan([archive]), url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    export(Scan([archive]), url)
    writers = [path for path in paths(url) if path.startswith("_writers/")]
    assert len(writers) == 2
    assert all(path.startswith("_writers/runner-") for path in writers)
    assert (tmp_path / "state/pimetrics/host").stat().st_mode & 0o777 == 0o600
    assert_lake(url, archive)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compact"], "missing option '--to'"),
        (["--compact", "--to", "out"], "give it alone, with --to s3://"),
        (["--compact", "--to", "file:///lake", "sessions"], "give it alone"),
        (["--host", "a", "--to", "out"], "a folder has one writer"),
        (["--to", "nonsense://lake"], "nonsense://lake is no address of a store"),
    ],
)
def test_wrong_use_is_one_sentence(arguments: list[str], said: str) -> None:
    """And exit status 2."""
    ran = run("export", *arguments)
    assert ran.status == 2
    assert said in " ".join(ran.err.split())


def test_the_command_exports_and_merges(archive: Path, url: str) -> None:
    """From the command line, with what was done on stderr."""
    for host in ("a", "b"):
        assert run("export", archive, "--to", url, "--host", host).status == 0
    ran = run("export", "--compact", "--to", url)
    assert (ran.status, ran.out) == (0, "")
    assert "files became" in ran.err
    assert_lake(url, archive)


def test_no_lake_is_told(url: str, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty place, a lake among files, a missing extra, a store that fails: what to do is said."""
    with pytest.raises(StateError, match="holds no export; write one with pimetrics export"):
        pm.read(url)
    with pytest.raises(WrongUseError, match="read it alone"):
        pm.scan(url, archive)
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith(("obstore", "pimetrics.sinks.lake."))]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "obstore", None)
        for act in (compact_lake, pm.read, lambda url: export(Scan([archive]), url)):
            with pytest.raises(WrongUseError, match=r"pip install 'pimetrics\[lake\]'"):
                act(url)
    export(Scan([archive]), url)
    path = next(Path(url.removeprefix("file://"), "usage/date=2026-11-02").iterdir())
    path.write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(StateError, match="check the network and that its files are whole"):
        pm.read(url)

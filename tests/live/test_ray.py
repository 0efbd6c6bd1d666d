"""`export --engine ray` on a cluster of this machine: what one process reads, row for row, whoever is lost on the way."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import ray
from polars.testing import assert_frame_equal

import pimetrics as pm
from pimetrics import scanning
from pimetrics.cluster import Cluster
from pimetrics.errors import SourceError, StateError
from pimetrics.exporting import export
from pimetrics.scanning import Scan
from pimetrics.workers import Job
from tests.bench.generate import write_files
from tests.live.ray_cluster import Nodes, Watched, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture(scope="module")
def two() -> Iterator[Nodes]:
    """Two nodes of one CPU each, and a head that only steers."""
    with nodes(2) as running:
        yield running


@pytest.fixture(autouse=True)
def one_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that this host has in a lake is kept with the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task a family."""
    monkeypatch.setattr(scanning, "BATCH_FAMILIES", 1)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """Generated sessions, and recordings with the session files that share their facts."""
    folder = tmp_path_factory.mktemp("archive")
    write_files(folder, "session", 40, seed=9)
    for path in (fixtures / "streams" / "1.6.0").glob("*.jsonl"):
        (folder / path.name).symlink_to(path)
    return folder


def assert_same(lake: str, sources: Sequence[Path] | Path) -> None:
    """Every table is what `read` says, to the last column."""
    for (_, got), (_, want) in zip(pm.read(lake).items(), pm.read(sources).items(), strict=True):
        assert_frame_equal(got, want)


def test_a_cluster_writes_what_one_process_reads(two: Nodes, archive: Path, tmp_path: Path, small_jobs: None) -> None:
    """A worker is killed and a node is taken away on the way, and it is the same."""
    killed: list[int] = []
    over = threading.Event()

    def kill_a_worker() -> None:
        """Beside the export, since tasks are short: whoever made it wait would look at idle workers."""
        while not killed and not over.is_set():
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if not killed and process.name().startswith("ray::_do"):
                        process.kill()
                        killed.append(process.pid)

    lake = f"file://{tmp_path}/lake"
    cluster = Watched({6: two.take_away})
    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    try:
        outcome = export(Scan([archive], engine=cluster), lake)
    finally:
        over.set()
        killer.join()
    assert cluster.done == outcome.decoded == outcome.families
    two.add()
    assert killed
    assert_same(lake, archive)


def test_the_bundled_example(two: Nodes, tmp_path: Path) -> None:
    """Seven weeks of recordings, session files and forks, compressed as they are: the rows of `read`."""
    example = Path(__file__).parents[2] / "notebooks" / "example"
    lake = f"file://{tmp_path}/lake"
    outcome = export(Scan([example], engine=Cluster()), lake)
    assert outcome.decoded == outcome.families
    assert_same(lake, example)


def test_the_same_folder_export(two: Nodes, archive: Path, tmp_path: Path, small_jobs: None) -> None:
    """Byte for byte the files of an export by one process."""
    export(Scan([archive], engine=Cluster()), tmp_path / "ray")
    export(Scan([archive]), tmp_path / "one")
    names = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.parquet"))
    assert names == sorted(path.relative_to(tmp_path / "ray") for path in (tmp_path / "ray").rglob("*.parquet"))
    for name in names:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "one" / name).read_bytes(), name


def test_an_error_of_a_task_is_told_as_here(two: Nodes, tmp_path: Path) -> None:
    """A file that is gone when its task comes to it: the error of one process, and nothing else is lost."""
    pool = Cluster().pool(0)
    gone = pool.submit(Job([[tmp_path / "gone.jsonl"]], tmp_path / "1", events=False, forgive=False))
    empty = pool.submit(Job([[]], tmp_path / "2", events=False, forgive=False))
    with pytest.raises(SourceError, match=r"gone\.jsonl"):
        gone.result()
    assert not any(sum(rows) for rows in empty.result().rows.values())


def test_a_cluster_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray says in many ways that it cannot be had, some of them no kind of error in particular; ours is one."""

    def busy(**_options: object) -> None:
        raise Exception("The current node timed out during startup.")  # noqa: TRY002  word for word Ray's

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", busy)
    with pytest.raises(StateError, match=r"timed out during startup.*ray start"):
        Cluster()

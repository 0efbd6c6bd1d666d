"""Sources: which files a path means, and their bytes."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
import zstandard

from pimetrics.errors import SourceError
from pimetrics.sources.compressed import read_chunks
from pimetrics.sources.paths import default_paths, find_files, recordings_dir, sessions_dir

TEXT = b'{"type":"agent_start"}\n' * 3000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.jsonl", "deep/b.jsonl.gz", "deep/c.jsonl.zst", "deep/notes.txt", "d.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_a_folder_is_its_recordings_and_sessions(folder: Path) -> None:
    """All `*.jsonl[.gz|.zst]` below it, sorted, and nothing else."""
    assert names(find_files([folder])) == ["a.jsonl", "b.jsonl.gz", "c.jsonl.zst"]


def test_a_file_and_a_pattern_are_taken_as_named(folder: Path) -> None:
    """A file counts whatever its name; ** goes into folders."""
    assert names(find_files([folder / "d.json"])) == ["d.json"]
    assert names(find_files([f"{folder}/**/*.gz"])) == ["b.jsonl.gz"]


def test_a_file_with_several_names_is_read_once(folder: Path) -> None:
    """Symlinks and hard links are the same file; a linked folder inside a folder is not followed."""
    (folder / "link.jsonl").symlink_to(folder / "a.jsonl")
    (folder / "hard.jsonl").hardlink_to(folder / "a.jsonl")
    (folder / "deep" / "loop").symlink_to(folder)
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    assert names(find_files([folder, folder])) == ["a.jsonl", "b.jsonl.gz", "c.jsonl.zst"]


@pytest.mark.parametrize("path", ["missing.jsonl", "none-*.jsonl"])
def test_a_path_that_means_nothing_is_an_error_in_one_sentence(folder: Path, path: str) -> None:
    """It says what happened, where, and what to do."""
    with pytest.raises(SourceError, match=f"{path.replace('*', '.')}; |does not exist; "):
        find_files([folder / path])


@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_compressed_files_give_their_bytes(tmp_path: Path, size: int) -> None:
    """gzip, zstd and plain files give the same bytes, in pieces of any size."""
    packed = {"a.jsonl": TEXT, "a.jsonl.gz": gzip.compress(TEXT), "a.jsonl.zst": zstandard.compress(TEXT)}
    for name, data in packed.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert b"".join(read_chunks(path, size)) == TEXT


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_a_damaged_archive_gives_what_can_be_read(tmp_path: Path, name: str) -> None:
    """A file that is cut is no error: what is readable is given. A plain file with the wrong name is read as it is."""
    whole = gzip.compress(TEXT) if name.endswith("gz") else zstandard.compress(TEXT)
    path = tmp_path / name
    for data in (whole[:-4], whole[: len(whole) // 2], b""):
        path.write_bytes(data)
        assert TEXT.startswith(b"".join(read_chunks(path, 1000)))
    path.write_bytes(TEXT)
    assert b"".join(read_chunks(path, 1000)) == TEXT


def test_a_cut_gzip_loses_only_its_end(tmp_path: Path) -> None:
    """Nearly all of what stands before the cut is given."""
    noise = random.Random(1).randbytes(1 << 20)
    path = tmp_path / "a.jsonl.gz"
    whole = gzip.compress(noise)
    path.write_bytes(whole[: len(whole) * 9 // 10])
    found = b"".join(read_chunks(path, 1 << 20))
    assert noise.startswith(found)
    assert len(found) > len(noise) * 85 // 100


def test_default_folders(no_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings pi's own folder; the variable wins over the setting; only folders that exist are taken."""
    agent = no_home / ".pi" / "agent"
    assert default_paths() == []
    assert sessions_dir() == agent / "sessions"
    assert recordings_dir() == no_home / ".local/share/pimetrics/recordings"
    agent.mkdir(parents=True)
    (agent / "settings.json").write_text('{"sessionDir": "~/elsewhere"}')
    (no_home / "elsewhere").mkdir()
    assert default_paths() == [no_home / "elsewhere"]
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", "/given")
    assert sessions_dir() == Path("/given")

"""Which files are read together, and what is looked at to tell."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from pimetrics.sources import families
from pimetrics.sources.families import BLOCK_BYTES, Marks, group, look

MS = 1_796_065_800_000


def header(session_id: str, at: str = "2026-11-30T19:10:00.000Z", **more: str) -> bytes:
    return (
        json.dumps({"type": "session", "version": 3, "id": session_id, "timestamp": at, "cwd": "/srv", **more}).encode()
        + b"\n"
    )


def message(at: int, text: str = "go") -> bytes:
    body = {"role": "user", "content": text, "timestamp": at}
    return json.dumps({"type": "message_end", "message": body}).encode() + b"\n"


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def kin(*paths: Path) -> list[list[str]]:
    return sorted(sorted(path.name for path in family.files) for family in group(map(look, paths)))


def test_one_session_id_is_one_family(tmp_path: Path) -> None:
    """A stream and a session file that name the same session belong together; another session does not."""
    a = write(tmp_path / "a.jsonl", header("s-1"), message(MS))
    b = write(tmp_path / "b.jsonl", header("s-1"), message(MS + 999))
    c = write(tmp_path / "c.jsonl", header("s-2"), message(MS + 500))
    assert kin(a, b, c) == [["a.jsonl", "b.jsonl"], ["c.jsonl"]]


@pytest.mark.parametrize(
    "parent",
    [
        "/gone/2026-11-30T19-10-00-000Z_s-1.jsonl",
        "C:\\gone\\2026-11-30T19-10-00-000Z_s-1.jsonl",
        "s-1",
        "/elsewhere/a.jsonl",
    ],
)
def test_a_fork_belongs_to_its_parent(tmp_path: Path, parent: str) -> None:
    """The parent may be named by pi's file name (on any system), by id, or by the name of its file."""
    a = write(tmp_path / "a.jsonl", header("s-1"), message(MS))
    b = write(tmp_path / "b.jsonl", header("s-2", parentSession=parent), message(MS + 7))
    assert kin(a, b) == [["a.jsonl", "b.jsonl"]]


def test_two_forks_of_a_parent_that_is_gone_belong_together(tmp_path: Path) -> None:
    """They share what the parent held, though no file of it is left."""
    named = {"parentSession": "/gone/parent.jsonl"}
    a = write(tmp_path / "a.jsonl", header("s-2", **named), message(MS + 1))
    b = write(tmp_path / "b.jsonl", header("s-3", **named), message(MS + 2))
    assert kin(a, b) == [["a.jsonl", "b.jsonl"]]


def test_files_that_begin_with_the_same_message_belong_together(tmp_path: Path) -> None:
    """A copy of a history names no parent when pi imported it, or when a link of the chain is gone."""
    a = write(tmp_path / "a.jsonl", header("s-1"), message(MS), message(MS + 5))
    b = write(tmp_path / "b.jsonl", header("s-2"), message(MS), message(MS + 9))
    assert kin(a, b) == [["a.jsonl", "b.jsonl"]]


def test_output_without_header_joins_what_it_overlaps_in_time(tmp_path: Path) -> None:
    """RPC output may hold the middle of any session that ran then, and of none that did not."""
    rpc = write(tmp_path / "rpc.jsonl", *(message(MS + 1000 * n) for n in range(100, 200)))
    during = write(tmp_path / "during.jsonl", header("s-1"), message(MS + 1), message(MS + 150_001))
    after = write(tmp_path / "after.jsonl", header("s-2", "2026-12-01T19:10:00.000Z"), message(MS + 86_400_001))
    assert kin(rpc, during, after) == [["after.jsonl"], ["during.jsonl", "rpc.jsonl"]]


def test_output_without_header_belongs_to_the_session_it_answers(tmp_path: Path) -> None:
    """The id in a response counts wherever it stands and whatever the times are."""
    answer = b'{"type":"response","command":"get_state","success":true,"data":{"sessionId":"s-1"}}\n'
    rpc = write(tmp_path / "rpc.jsonl", message(MS), b" " * 2_000_000 + b"\n", answer)
    file = write(tmp_path / "s.jsonl", header("s-1", "2026-12-24T00:00:00.000Z"))
    assert kin(rpc, file) == [["rpc.jsonl", "s.jsonl"]]


def test_files_without_header_and_times_are_one_family(tmp_path: Path) -> None:
    """Nothing tells what they share, so they are read together."""
    a = write(tmp_path / "a.jsonl", b'{"type":"agent_start"}\n')
    b = write(tmp_path / "b.jsonl", b"")
    c = write(tmp_path / "c.jsonl", header("s-1"))
    assert kin(a, b, c) == [["a.jsonl", "b.jsonl"], ["c.jsonl"]]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_joined_files_show_every_header(tmp_path: Path, ending: str) -> None:
    """`pi >> all.jsonl` puts many sessions into one file: it is kin to each of them, and spans all their times."""
    runs = [
        header("s-0", "2026-11-30T10:00:00.000Z"),
        b"x" * 3_000_000 + b"\n",
        header("s-1", "2026-11-01T10:00:00.000Z"),
    ]
    joined = tmp_path / f"all.jsonl{ending}"
    data = b"".join(runs) + b"y" * 3_000_000
    joined.write_bytes(gzip.compress(data) if ending else data)
    file = write(tmp_path / "s.jsonl", header("s-1", "2026-11-01T10:00:00.000Z"))
    assert kin(joined, file) == [sorted([joined.name, "s.jsonl"])]
    marks = look(joined)
    assert (marks.first, marks.last) == (1_793_527_200_000, 1_796_032_800_000)


def test_a_file_under_pis_name_is_read_at_its_ends_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its header and first times come from the head, its last ones from the tail, however long it is."""
    monkeypatch.setattr(families, "_look_through", lambda _marks: pytest.fail("read in full"))
    filler = b'{"type":"custom","data":"' + b"x" * 4 * BLOCK_BYTES + b'"}\n'
    name = "2026-11-30T19-10-00-000Z_s-1.jsonl"
    path = write(tmp_path / name, header("s-1"), message(MS + 5), filler, message(MS + 77_000), filler)
    marks = look(path)
    assert marks.headed
    assert (marks.first, marks.last) == (MS, MS + 77_000)


def test_a_file_that_belies_its_name_is_read_in_full(tmp_path: Path) -> None:
    """Another id in the header than in the name: somebody else wrote it, and it may hold more than one session."""
    filler = b'{"type":"custom","data":"' + b"x" * 4 * BLOCK_BYTES + b'"}\n'
    path = write(tmp_path / "2026-11-30T19-10-00-000Z_s-1.jsonl", header("s-2"), filler, header("s-3"), filler)
    assert {"session s-2", "session s-3"} <= look(path).names


def test_times_of_modification_play_no_part(tmp_path: Path) -> None:
    """A restored backup is as old as what is in it."""
    import os

    path = write(tmp_path / "a.jsonl", header("s-1"), message(MS + 5))
    before = look(path)
    os.utime(path, (0, 0))
    assert look(path) == before


def test_a_file_that_cannot_be_read_has_no_marks(tmp_path: Path) -> None:
    """Whoever decodes it says so; grouping goes on."""
    assert look(tmp_path / "gone.jsonl") == Marks(tmp_path / "gone.jsonl")


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    """Families and their order depend on what the files hold alone."""
    paths = [write(tmp_path / f"{n}.jsonl", header(f"s-{n % 7}"), message(MS + n % 5)) for n in range(20)]
    marks = [look(path) for path in paths]
    want = group(marks)
    for seed in range(5):
        random.Random(seed).shuffle(marks)
        assert group(marks) == want


@pytest.mark.parametrize(
    "line",
    [b'{"type":"session"', b"[" * 100_000 + b'"session"', b'"session"', b'{"type":"session","timestamp":"never"}'],
)
def test_odd_lines_are_no_headers_and_no_errors(tmp_path: Path, line: bytes) -> None:
    """Torn, deeply nested and nonsensical lines tell nothing."""
    marks = look(write(tmp_path / "a.jsonl", line + b"\n"))
    assert (marks.first, marks.last) == (None, None)
    assert not any(name.startswith("session") for name in marks.names)

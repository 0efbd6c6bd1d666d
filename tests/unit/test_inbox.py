"""The inbox of a receiver: streams that only grow, however deliveries come."""

from __future__ import annotations

import errno
import io
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimetrics.delivery import GapError, InboxFullError, OtherContentError, edges, fingerprint
from pimetrics.errors import WrongUseError
from pimetrics.names import LABEL_CAP
from pimetrics.sinks.clearing import clear
from pimetrics.sinks.inbox import Inbox, is_complete
from pimetrics.sinks.retention import Limits

STREAM = "0123456789abcdef"
LINES = b"".join(b'{"%03x"}\n' % n for n in range(2000))  # 8 bytes each


@pytest.fixture
def inbox(tmp_path: Path) -> Any:
    made = Inbox(tmp_path / "inbox", keep_free=0)
    yield made
    made.close()


def before(content: bytes, offset: int) -> str:
    return fingerprint(*(content[at : at + length] for at, length in edges(offset)))


def deliver(inbox: Inbox, start: int, end: int, content: bytes = LINES, **options: Any) -> int:
    body = io.BytesIO(content[start:end])
    return inbox.append(STREAM, options.pop("labels", {}), start, before(content, start), body, **options)


def file_of(inbox: Inbox) -> Path:
    (found,) = inbox.folder.rglob("*.jsonl")
    return found


def test_deliveries_become_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    """What comes in order is appended; files are 0600, folders 0700, the name is known after a restart."""
    inbox = Inbox(tmp_path / "inbox", keep_free=0)
    assert inbox.offset(STREAM, {}) == 0
    assert deliver(inbox, 0, 80) == 80
    assert deliver(inbox, 80, len(LINES)) == len(LINES) == inbox.offset(STREAM, {})
    path = file_of(inbox)
    assert path.read_bytes() == LINES
    for each in (path, inbox.folder / ".receiver"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    for folder in (path.parent, inbox.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    name = inbox.receiver
    inbox.close()
    again = Inbox(inbox.folder)
    assert again.receiver == name
    again.close()


def test_a_delivery_told_again_writes_nothing(inbox: Inbox) -> None:
    """The same and one that reaches back are answered with what is there, and only what is new is kept."""
    deliver(inbox, 0, 80)
    assert deliver(inbox, 0, 80) == 80
    assert deliver(inbox, 8, 160) == 160
    assert deliver(inbox, 0, 40) == 160
    assert file_of(inbox).read_bytes() == LINES[:160]


def test_a_gap_is_refused_with_what_is_there(inbox: Inbox) -> None:
    """A delivery from beyond the end writes nothing."""
    deliver(inbox, 0, 80)
    with pytest.raises(GapError) as caught:
        deliver(inbox, 160, 240)
    assert caught.value.offset == 80
    assert file_of(inbox).read_bytes() == LINES[:80]


@pytest.mark.parametrize("where", [0, 40, 79, 5000])
def test_other_bytes_under_the_same_name_are_refused(inbox: Inbox, where: int) -> None:
    """Whether the difference is in what came before or in the delivery itself, nothing is written."""
    deliver(inbox, 0, 8000)
    other = LINES[:where] + b"!" + LINES[where + 1 :]
    with pytest.raises(OtherContentError):
        deliver(inbox, where // 8 * 8, 16000, other)
    if where < 4096:
        with pytest.raises(OtherContentError):
            deliver(inbox, 8000, 16000, other)
    assert file_of(inbox).read_bytes() == LINES[:8000]


def test_a_torn_write_is_not_acknowledged_and_healed_by_the_next_delivery(inbox: Inbox) -> None:
    """After a kill in the middle of a write, only whole lines count as there; the rest comes again and fits."""
    deliver(inbox, 0, 80)
    with file_of(inbox).open("ab") as out:
        out.write(LINES[80:99])
    assert inbox.offset(STREAM, {}) == LINES.rfind(b"\n", 0, 99) + 1
    assert deliver(inbox, 80, 800) == 800
    assert file_of(inbox).read_bytes() == LINES[:800]


def test_the_last_delivery_may_end_in_the_middle_of_a_line(inbox: Inbox) -> None:
    """A recording whose writer was killed is complete with its torn last line."""
    assert deliver(inbox, 0, 83, complete=True) == 83
    assert inbox.offset(STREAM, {}) == 83
    assert is_complete(str(file_of(inbox)))
    assert not is_complete(str(file_of(inbox).with_name("other.jsonl")))


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 30)), max_size=30),
)
def test_any_order_of_deliveries_and_kills_gives_a_beginning_of_the_content(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    """Whatever is delivered again, from wherever, with kills in between: what is there is what was sent, once."""
    inbox = Inbox(tmp_path_factory.mktemp("inbox"), keep_free=0)
    content = LINES[: 60 * 8]
    reached = 0
    for start, length, torn in steps:
        first, last = start * 8, min(len(content), (start + length) * 8)
        if first > reached:
            with pytest.raises(GapError):
                deliver(inbox, first, max(first, last), content)
        elif last >= first:
            reached = max(reached, deliver(inbox, first, last, content))
        there = inbox.offset(STREAM, {})
        assert there == reached
        if torn and reached:
            with file_of(inbox).open("r+b") as out:  # a later write was cut off by a kill
                out.seek(0, os.SEEK_END)
                out.write(content[out.tell() : out.tell() + torn])
            reached = inbox.offset(STREAM, {})
        found = b"".join(path.read_bytes() for path in inbox.folder.rglob("*.jsonl"))
        assert found == content[: len(found)]
    inbox.close()


def test_a_disk_that_fills_keeps_nothing_of_the_delivery(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC in the middle of a write: the file is as before, and the shipper is told to come again."""
    deliver(inbox, 0, 80)
    write = os.write
    left = [40]

    def nearly_full(fd: int, data: Any) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = bytes(data)[: left[0]]
        left[0] -= len(part)
        return write(fd, part)

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(InboxFullError):
        deliver(inbox, 80, 800)
    monkeypatch.undo()
    assert file_of(inbox).read_bytes() == LINES[:80]
    assert deliver(inbox, 80, 800) == 800


def test_room_for_the_ledger_stays(tmp_path: Path) -> None:
    """A delivery that would take the last of the disk is refused before a byte is written."""
    inbox = Inbox(tmp_path / "inbox", keep_free=1 << 60)
    with pytest.raises(InboxFullError):
        deliver(inbox, 0, 80)
    assert list(inbox.folder.rglob("*.jsonl")) == []
    inbox.close()


def test_one_receiver_a_folder(inbox: Inbox) -> None:
    """A second one is told so in one sentence."""
    with pytest.raises(WrongUseError, match=r"in use by another receiver; give each a folder of its own"):
        Inbox(inbox.folder)


def test_a_folder_that_cannot_be_made_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    """A file stands in the way."""
    (tmp_path / "file").touch()
    with pytest.raises(WrongUseError, match=r"cannot be used to receive \(Not a directory\); name one"):
        Inbox(tmp_path / "file" / "inbox")


def test_labels_are_folders_and_come_back_from_them(tmp_path: Path) -> None:
    """Allowed labels only, in a fixed order, encoded so that no value leaves its place."""
    inbox = Inbox(tmp_path / "inbox", ("team", "repo"), keep_free=0)
    deliver(inbox, 0, 80, labels={"team": "../../etc", "repo": "a/b=c", "host": "h"})
    path = file_of(inbox)
    assert path.relative_to(inbox.folder).as_posix() == f"team=..%2F..%2Fetc/repo=a%2Fb%3Dc/01/{STREAM}.jsonl"
    assert inbox.labels_of(str(path)) == ("../../etc", "a/b=c", "")
    assert inbox.labels_of("/elsewhere/team=x/y.jsonl") == ("unknown", "unknown", "")
    inbox.close()


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "\x00", "\ud800", "a" * 500, "\u202e", "-", "\u958b\u767a" * 32, "\U0001f34b" * 64, "%" * 500],
)
def test_no_value_of_a_label_is_a_path(tmp_path: Path, value: str) -> None:
    """Nothing is written outside, and the value that is read back is a fit label."""
    inbox = Inbox(tmp_path / "inbox", ("team",), keep_free=0)
    assert deliver(inbox, 0, 80, labels={"team": value}) == 80
    assert file_of(inbox).parent.parent.parent == inbox.folder
    (team, *_rest) = inbox.labels_of(str(file_of(inbox)))
    assert 0 < len(team) <= 64
    inbox.close()


def test_values_of_a_label_are_capped_for_good(tmp_path: Path) -> None:
    """First come, never revoked, also after a restart; the rest is other."""
    inbox = Inbox(tmp_path / "inbox", ("team",), keep_free=0)
    for n in range(LABEL_CAP + 5):
        inbox.append(STREAM, {"team": f"t{n}"}, 0, before(LINES, 0), io.BytesIO(LINES[:80]))
    inbox.close()
    again = Inbox(tmp_path / "inbox", ("team",), keep_free=0)
    again.append(STREAM, {"team": "late"}, 0, before(LINES, 0), io.BytesIO(LINES[:80]))
    again.append(STREAM, {"team": "t3"}, 0, before(LINES, 0), io.BytesIO(LINES[:80]))
    names = {path.name for path in again.folder.iterdir() if path.is_dir()}
    assert len(names) == LABEL_CAP + 1
    assert {"team=other", "team=t0", "team=t3"} <= names
    again.close()


def test_what_was_delivered_late_is_as_old_as_at_its_origin(inbox: Inbox) -> None:
    """A session of last week is no active session; an age that cannot be is as old as can be."""
    now = time.time()
    deliver(inbox, 0, 80, age_s=7 * 86_400)
    assert file_of(inbox).stat().st_mtime == pytest.approx(now - 7 * 86_400, abs=60)
    deliver(inbox, 80, 160)
    assert file_of(inbox).stat().st_mtime == pytest.approx(now, abs=60)
    deliver(inbox, 160, 240, age_s=10**15)
    assert file_of(inbox).stat().st_mtime == 0


def test_streams_are_cleared_oldest_first_and_never_young_ones(inbox: Inbox) -> None:
    """By age of the last delivery and by total size; a deleted one is taken anew from its start."""
    deliver(inbox, 0, 80, complete=True)
    path = file_of(inbox)
    delivered = path.stat().st_ctime
    assert clear(inbox, Limits(60, None), delivered + 61) == 0  # within the hour it may not have been read yet
    assert clear(inbox, Limits(None, 10), delivered + 61) == 0
    assert clear(inbox, Limits(10_000, None), delivered + 9_000) == 0
    assert clear(inbox, Limits(None, 10), delivered + 9_000) == 1
    assert [each.name for each in path.parent.iterdir()] == []
    assert inbox.offset(STREAM, {}) == 0
    assert deliver(inbox, 0, 80) == 80

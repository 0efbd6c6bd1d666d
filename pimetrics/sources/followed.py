"""A file that is followed: how far it was read, and what is known of it, whatever it is called.

Nothing here decides when to look or what to do next; that is the follower's.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from pimetrics.marks import Mark
from pimetrics.sources.fingerprint import NOTHING, Fingerprint

_COMPRESSED: Final = (".gz", ".zst")
_SESSION_ENTRY: Final = re.compile(
    rb'^\{"type":"(message|model_change|thinking_level_change|session_info|compaction|custom|custom_message)"',
    re.MULTILINE,
)


class Followed:
    """One file.

    Attributes:
        path: Where it is now.
        name: What it was called first; the name of its source.
        offset: Bytes handed on since its source was begun.
        known: Fingerprint of all bytes ever handed on.
        state: open, done, unreadable or ignored.
        written: When its content changed last, Unix seconds.
        errors: Extension errors counted in it.
    """

    __slots__ = (
        "changed", "compressed", "done", "due", "errors", "info", "known", "lost_at", "name", "offset", "path", "paths",
        "state", "steady_at", "stray", "tier", "warm", "written",
    )  # fmt: skip

    def __init__(self, path: str, info: os.stat_result) -> None:
        self.path = self.name = path
        self.paths = {path}
        self.compressed = path.endswith(_COMPRESSED)
        self.info = info
        self.offset = 0
        self.known = NOTHING
        self.state = "open"
        self.done = False
        self.written = info.st_mtime
        self.errors = 0
        self.lost_at: float | None = None
        self.steady_at = 0.0
        self.warm = False
        self.stray = False
        self.due = float("inf")
        self.changed = 0.0
        self.tier = -1

    def move(self, path: str) -> None:
        """The file is called otherwise now, or is another one, with an inode that was free again."""
        self.path, self.lost_at = path, None
        if self.compressed != path.endswith(_COMPRESSED):
            self.compressed = not self.compressed
            self.offset, self.known, self.errors, self.name = 0, NOTHING, 0, path

    def take_up(self, mark: Mark) -> bool:
        """Take over what is known of it from before; return whether it has not changed since."""
        info = self.info
        self.known = Fingerprint(mark.offset, mark.head, mark.tail)
        self.errors = mark.errors
        then = (mark.ino, mark.size, mark.mtime_ns, mark.ctime_ns)
        same = then == (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        self.done = bool(mark.done) and same
        if self.done:
            self.state = "done"
        return same

    @property
    def mark(self) -> Mark:
        """How far it was read."""
        i = self.info
        size = self.known.offset if not self.compressed and self.known.offset < i.st_size else i.st_size
        return Mark(
            self.path, i.st_dev, i.st_ino, size, i.st_mtime_ns, i.st_ctime_ns, self.known.offset, self.known.head,
            self.known.tail, int(self.done), self.errors,
        )  # fmt: skip

    @property
    def lag(self) -> int:
        """Bytes that are there and not yet read."""
        return max(0, self.info.st_size - self.known.offset)


class Piece(NamedTuple):
    """What has come of a file.

    Attributes:
        file: The file; after its last piece of a poll, its mark covers all bytes.
        chunk: Its next bytes; may be empty.
        restart: True when they are the first bytes of the file: what its source holds is void.
        end: True when nothing more will come.
        again: True when these bytes were handed on before, by this follower or by the one that left its marks: what
            they give is known, and only the state that they leave behind is wanted.
    """

    file: Followed
    chunk: bytes
    restart: bool = False
    end: bool = False
    again: bool = False


def stamp(info: os.stat_result) -> tuple[int, int, int]:
    """Return what moves when a file is written."""
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns


def find_beside(path: str, file: Followed) -> str | None:
    """Return the new name of a file that was renamed within its folder, whatever it is called now.

    It must begin with what was read of it: inodes are used again, and a folder may hold things that are not ours.
    """
    if not file.known.offset:
        return None
    try:
        with os.scandir(os.path.dirname(path) or ".") as entries:
            found = next((each for each in entries if each.inode() == file.info.st_ino and each.is_file()), None)
        if found is None or found.is_symlink():
            return None
        fd = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return found.path if file.known.fits(fd) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def reading_order(file: Followed) -> tuple[bool, str]:
    """Recordings before session files: a stream knows more of the same facts."""
    if file.compressed or file.offset:
        return False, file.path
    try:
        fd = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return True, file.path
    try:
        return _SESSION_ENTRY.search(os.pread(fd, 16384, 0)) is not None, file.path
    except OSError:
        return True, file.path
    finally:
        os.close(fd)

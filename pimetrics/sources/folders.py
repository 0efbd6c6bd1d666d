"""Which files are there: folders and patterns, looked through again when they change.

A folder is read again when its modification time moves, when a waker names it, and every minute anyway (network file
systems). Only names are compared; a file that is known is not touched.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from typing import Final

from pimetrics.sources.paths import is_session_name
from pimetrics.sources.schedule import Schedule

_ANYWAY_SECONDS: Final = 60.0
_PATTERN_SECONDS: Final = 2.0
_GRAIN_SECONDS: Final = 2.0


class Folder:
    """A folder that is watched, with the names that were in it."""

    __slots__ = ("changed", "due", "files", "mtime_ns", "path", "read_at", "tier")

    def __init__(self, path: str, now: float) -> None:
        self.path = path
        self.mtime_ns = -1
        self.read_at = float("-inf")
        self.files: dict[str, int] = {}  # path to inode
        self.due = float("inf")
        self.changed = now
        self.tier = -1


class Folders:
    """Finds files.

    Args:
        paths: Files, folders and patterns. What does not exist (yet) is looked for again and again.
    """

    def __init__(self, paths: list[str]) -> None:
        self._roots = paths
        self._folders: dict[str, Folder] = {}
        self._by_absolute: dict[str, Folder] = {}
        self._schedule: Schedule[Folder] = Schedule()
        self._next_roots = float("-inf")
        self._singles: dict[str, int] = {}
        self.unreadable: dict[str, str] = {}
        """Folders that cannot be read, and why."""
        self.troubles: list[tuple[str, str]] = []
        """The same, each once when it begins; to be taken and cleared."""

    def hint(self, path: str, now: float) -> None:
        """Something happened at a path: look through its folder now."""
        parent = os.path.dirname(path)
        while parent:
            for each in (path, parent):
                folder = self._by_absolute.get(each)
                if folder is not None:
                    folder.mtime_ns = -1
                    self._schedule.add(folder, now)
                    return
            path, parent = parent, os.path.dirname(parent)
            if path == parent:
                return

    def changes(self, now: float, wall: float) -> Iterator[tuple[str, bool]]:
        """Yield (path, True) of files that came or are another one now, (path, False) of those that went.

        Args:
            now: The clock that polls use, seconds.
            wall: Unix seconds.
        """
        if now >= self._next_roots:
            self._next_roots = now + _PATTERN_SECONDS
            yield from self._look_at_roots(now)
        while due := self._schedule.pop(now):
            for folder in due:
                yield from self._look(folder, now, wall)

    def _look_at_roots(self, now: float) -> Iterator[tuple[str, bool]]:
        found: dict[str, int] = {}
        for root in self._roots:
            try:
                info = os.stat(root)
            except OSError:
                if not glob.has_magic(root):
                    continue
                for each in glob.iglob(root, recursive=True):
                    inode = _inode_of_file(each)
                    if inode is not None:
                        found[each] = inode
                continue
            if stat.S_ISDIR(info.st_mode):
                if root not in self._folders:
                    self._add(root, now)
            else:
                found[root] = info.st_ino
        yield from _difference(self._singles, found)
        self._singles = found

    def _add(self, path: str, now: float) -> None:
        folder = self._folders[path] = self._by_absolute[os.path.abspath(path)] = Folder(path, now)
        self._schedule.add(folder, now)

    def _look(self, folder: Folder, now: float, wall: float) -> Iterator[tuple[str, bool]]:
        try:
            info = os.stat(folder.path)
            if info.st_mtime_ns != folder.mtime_ns or now - folder.read_at >= _ANYWAY_SECONDS:
                if info.st_mtime_ns != folder.mtime_ns:
                    folder.changed = now
                found, below = self._list(folder.path)
                # What comes within the grain of its time stamps would not show: a fresh stamp is not trusted.
                fresh = wall - info.st_mtime_ns / 1e9 < _GRAIN_SECONDS
                folder.mtime_ns, folder.read_at = -1 if fresh else info.st_mtime_ns, now
                yield from _difference(folder.files, found)
                folder.files = found
                for path in below:
                    if path not in self._folders:
                        self._add(path, now)
            self.unreadable.pop(folder.path, None)
        except (FileNotFoundError, NotADirectoryError):
            self._schedule.drop(folder)
            del self._folders[folder.path]
            self._by_absolute.pop(os.path.abspath(folder.path), None)
            self.unreadable.pop(folder.path, None)
            for path in folder.files:
                yield path, False
            return
        except OSError as error:
            reason = error.strerror or str(error)
            if self.unreadable.get(folder.path) != reason:
                self.unreadable[folder.path] = reason
                self.troubles.append((folder.path, reason))
        self._schedule.again(folder, now)

    @staticmethod
    def _list(path: str) -> tuple[dict[str, int], list[str]]:
        found: dict[str, int] = {}
        below: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
                elif is_session_name(entry.name):
                    if entry.is_file(follow_symlinks=False):
                        found[entry.path] = entry.inode()
                    elif entry.is_symlink():
                        inode = _inode_of_file(entry.path)
                        if inode is not None:
                            found[entry.path] = inode
        return found, below


def _difference(before: dict[str, int], now: dict[str, int]) -> Iterator[tuple[str, bool]]:
    for path, inode in now.items():
        if before.get(path) != inode:
            yield path, True
    for path in before.keys() - now.keys():
        yield path, False


def _inode_of_file(path: str) -> int | None:
    try:
        info = os.stat(path)
    except OSError:
        return None  # a dangling link or a loop of links
    return info.st_ino if stat.S_ISREG(info.st_mode) else None

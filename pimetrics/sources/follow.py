"""Files that grow, are rotated, cut, rewritten, lost and found: their new bytes, poll by poll.

A file is its inode, whatever it is called. Before new bytes are handed on, the bytes before them are checked by their
fingerprint, after the read, so that a file which is rewritten under our hands is never read from the middle. A file
whose beginning changed is read from its start again: rows have keys, so reading twice is harmless.

No file is held open between polls, nothing here sleeps or knows the time: clocks are passed in.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final

from pimetrics.marks import Mark
from pimetrics.sources.compressed import chunks_of
from pimetrics.sources.fingerprint import NOTHING, extend, take
from pimetrics.sources.folders import Folders
from pimetrics.sources.followed import Followed, Piece, find_beside, reading_order, stamp
from pimetrics.sources.schedule import Schedule

DAY_SECONDS: Final = 86_400.0
"""A file that nobody wrote for so long has ended, and what is open in it is unfinished."""

TURN_BYTES: Final = 8 << 20
"""Most bytes of one file in one poll, so that one large file does not hold up the others."""

_WARM_FILES: Final = 200
"""Most files that are read again after a restart only to know what goes on in them."""

_LOST_SECONDS: Final = 5.0
"""How long a file that is gone from its place is looked for elsewhere."""

_STEADY_SECONDS: Final = 1.0
"""How long a compressed file must rest before it is read: it is read whole each time."""

_RETRY_SECONDS: Final = 0.5
_RETRIES_PER_SECOND: Final = 200


class Follower:
    """Follows files and folders.

    Args:
        paths: Files, folders and patterns; what does not exist yet is waited for.
        known: How far files were read before.
        fresh: Files written within so many seconds are read anew, after all others, even when they were read before:
            what goes on in them is not in the ledger.
        ended: Tells whether a file surely has its last byte, for example since the recorder that wrote it is gone.
        block: Most bytes of one piece.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        known: Iterable[Mark] = (),
        fresh: float = 0.0,
        ended: Callable[[str], bool] = lambda _path: False,
        block: int = 1 << 20,
    ) -> None:
        self._folders = Folders([os.path.expanduser(os.fspath(path)) for path in paths])
        self._marks = {mark.path: mark for mark in known}
        self._marks_by_inode = {(mark.dev, mark.ino): mark for mark in self._marks.values()}
        self._fresh = fresh
        self._ended = ended
        self._block = block
        self._files: dict[tuple[int, int], Followed] = {}
        self._by_path: dict[str, Followed] = {}
        self._schedule: Schedule[Followed] = Schedule()
        self._hints: deque[str] = deque(maxlen=10_000)
        self._lagging: dict[int, Followed] = {}
        self._polled = False
        self._warm: list[Followed] = []
        self.resets: dict[str, int] = {}
        """Files that were read again from the start, by reason."""
        self.gone: list[str] = []
        """Paths that are no more; whoever keeps marks takes them from here and clears it."""
        self.forgotten: list[Followed] = []
        """Files that are no more; to be taken and cleared."""
        self.troubles: list[tuple[str, str]] = []
        """(path, reason) of what could not be read; to be taken and cleared."""

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def behind(self) -> bool:
        """Whether readable bytes wait that the last poll did not hand on."""
        return not self._polled or any(file.state != "unreadable" for file in self._lagging.values())

    @property
    def lag_bytes(self) -> int:
        """Bytes that are on disk and not yet read."""
        return sum(file.lag for file in self._lagging.values())

    @property
    def states(self) -> dict[str, int]:
        """Files by state."""
        counts: dict[str, int] = {}
        for file in self._files.values():
            counts[file.state] = counts.get(file.state, 0) + 1
        if self._folders.unreadable:
            counts["unreadable"] = counts.get("unreadable", 0) + len(self._folders.unreadable)
        return counts

    def hint(self, path: str) -> None:
        """Say that something happened at a path; from any thread."""
        self._hints.append(path)

    def rewind(self, file: Followed) -> None:
        """Say that the source of a file is no more: when it grows, it must be read from its start."""
        file.offset = 0

    # --- polls ------------------------------------------------------------------------------------------------------

    def poll(self, now: float, wall: float) -> Generator[Piece, None, None]:
        """Yield what has come since the last poll; recordings before session files.

        Args:
            now: A clock that never goes back, seconds.
            wall: Unix seconds.
        """
        while self._hints:
            path = self._hints.popleft()
            file = self._by_path.get(path)
            if file is not None:
                self._schedule.add(file, now)
            self._folders.hint(path, now)
        for path, came in self._folders.changes(now, wall):
            if came:
                self._came(path, now, wall)
            else:
                self._went(path, now)
        self.troubles += self._folders.troubles
        self._folders.troubles.clear()
        todo = [file for file in self._schedule.pop(now) if self._look(file, now, wall)]
        queue = deque(sorted(todo, key=reading_order) if len(todo) > 1 else todo)
        try:
            while queue:
                yield from self._read(queue[0], now, wall)
                queue.popleft()
        finally:  # whoever reads may stop at any piece; what is left comes with the next poll
            for file in queue:
                self._schedule.add(file, now)
        self._polled = True
        for file in sorted(self._warm, key=lambda each: -each.written)[:_WARM_FILES]:
            file.warm = True
            self._schedule.add(file, now)
        self._warm.clear()

    def _came(self, path: str, now: float, wall: float) -> None:
        try:
            info = os.stat(path)
        except OSError:
            return  # gone again; the next look at its folder says so
        if not stat.S_ISREG(info.st_mode):
            return
        before = self._by_path.get(path)
        file = self._files.get((info.st_dev, info.st_ino))
        if before is not None and before is not file:
            self._replaced(path, before, now)
        if file is None:
            file = self._files[info.st_dev, info.st_ino] = Followed(path, info)
            mark = self._marks.get(path) or self._marks_by_inode.get((info.st_dev, info.st_ino))
            unchanged = mark is not None and file.take_up(mark)
            age = wall - max(info.st_mtime, info.st_ctime)
            file.changed = now - (0.0 if self._polled else max(0.0, age))
            self._by_path[path] = file
            if unchanged:
                self._schedule.again(file, now)
                if wall - info.st_mtime < self._fresh:
                    self._warm.append(file)
            else:
                self._lagging[id(file)] = file
                self._schedule.add(file, now)
            return
        file.paths.add(path)
        file.stray = False
        self._by_path[path] = file
        if file.lost_at is not None or file.path not in file.paths:
            file.move(path)
        self._schedule.add(file, now)

    def _went(self, path: str, now: float) -> None:
        file = self._by_path.get(path)
        if file is not None:
            self._detach(path, file, now)

    def _detach(self, path: str, file: Followed, now: float) -> None:
        """A path does not lead to the file any more."""
        self._by_path.pop(path, None)
        file.paths.discard(path)
        self.gone.append(path)
        if file.path != path:
            return
        if file.paths:
            file.move(min(file.paths))
        else:
            beside = find_beside(path, file)
            if beside is not None:
                file.move(beside)
                file.stray = True
                file.paths.add(beside)
                self._by_path[beside] = file
            elif file.lost_at is None:
                file.lost_at = now
        self._schedule.add(file, now)

    def _replaced(self, path: str, file: Followed, now: float) -> None:
        """A path leads to another file now; the one before may have been renamed."""
        self._detach(path, file, now)
        if file.lost_at is not None:
            self.resets["replaced"] = self.resets.get("replaced", 0) + 1

    def _forget(self, file: Followed) -> None:
        file.state = "gone"
        self.forgotten.append(file)
        self._schedule.drop(file)
        self._files.pop((file.info.st_dev, file.info.st_ino), None)
        for path in file.paths:
            self._by_path.pop(path, None)
        self._lagging.pop(id(file), None)

    def _look(self, file: Followed, now: float, wall: float) -> bool:
        """Return whether a file has to be read."""
        if file.lost_at is not None:
            if now - file.lost_at >= _LOST_SECONDS:
                self._forget(file)
            else:
                self._schedule.add(file, now + 1.0)
            return False
        try:
            info = os.stat(file.path)
        except (FileNotFoundError, NotADirectoryError):
            self._detach(file.path, file, now)
            return False
        except OSError as error:
            self._trouble(file, error, now)
            return False
        if (info.st_dev, info.st_ino) != (file.info.st_dev, file.info.st_ino) or not stat.S_ISREG(info.st_mode):
            self._folders.hint(os.path.abspath(file.path), now)
            path = file.path
            if not stat.S_ISREG(info.st_mode):
                self._files.pop((info.st_dev, info.st_ino), None)
            self._replaced(path, file, now)
            self._came(path, now, wall)
            return False
        same = stamp(info) == stamp(file.info)
        if same and id(file) not in self._lagging and not file.warm:
            if file.done or not self._is_over(file, wall):
                self._schedule.again(file, now)
                return False
        elif not same:
            file.changed, file.done = now, False
            if file.compressed and file.known.offset:
                file.steady_at = now + _STEADY_SECONDS
        file.info, file.written, file.warm = info, info.st_mtime, False
        self._lagging[id(file)] = file
        if now < file.steady_at:
            self._schedule.add(file, file.steady_at)
            return False
        return True

    def _is_over(self, file: Followed, wall: float) -> bool:
        """Whether nothing more will come; to be asked before the last read, not after."""
        return wall - file.info.st_mtime >= DAY_SECONDS or self._ended(file.path)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _read(self, file: Followed, now: float, wall: float) -> Iterator[Piece]:
        over = self._is_over(file, wall)
        try:
            fd = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except FileNotFoundError:
            self._schedule.add(file, now)
            return
        except OSError as error:
            self._trouble(file, error, now)
            return
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or (info.st_dev, info.st_ino) != (file.info.st_dev, file.info.st_ino):
                self._schedule.add(file, now)
                return
            file.info = info
            yield from self._read_compressed(file, fd) if file.compressed else self._read_open(file, fd)
        except OSError as error:
            self._trouble(file, error, now)
            return
        finally:
            os.close(fd)
        if file.state == "gone":
            return
        if file.state in {"unreadable", "done"}:
            file.state = "open"
        if file.lag and not file.compressed:
            self._schedule.add(file, now)
            return
        self._lagging.pop(id(file), None)
        if over:
            file.done, file.state = True, "done"
            yield Piece(file, b"", end=True)
        self._schedule.again(file, now)

    def _read_open(self, file: Followed, fd: int) -> Iterator[Piece]:
        turn, end, size = 0, file.offset, file.info.st_size
        if file.stray and not file.known.fits(fd):
            self._forget(file)  # not the file that was followed, and not under a name that is
            return
        if size < file.known.offset:
            yield self._reset(file, "truncated")
            end = 0
        while turn < TURN_BYTES or not self._polled:
            before = file.known.offset - end
            chunk = os.pread(fd, min(self._block, before) if before > 0 else self._block, end)
            if file.known.offset and not file.known.fits(fd):
                yield self._reset(file, "rewritten")
                end = 0
                continue
            if not chunk:
                if not turn:  # it may have become older: a receiver writes, then says how old that is
                    yield Piece(file, b"")
                return
            restart = not end
            end += len(chunk)
            if end > file.known.offset:
                known = file.known
                file.known = extend(known, fd, chunk) if end - len(chunk) == known.offset else take(fd, end)
            file.offset = end
            turn += len(chunk)
            file.written = os.fstat(fd).st_mtime
            yield Piece(file, chunk, restart, again=before > 0)
            if end >= size:
                return

    def _read_compressed(self, file: Followed, fd: int) -> Iterator[Piece]:
        size = file.info.st_size
        if file.known.offset == size and file.offset and file.known.fits(fd):
            return
        if file.known.offset and not file.known.fits(fd):
            yield self._reset(file, "rewritten")
        restart = True
        # By its descriptor, never by its name: that may lead elsewhere by now, to a FIFO on which an open would wait.
        with open(fd, "rb", buffering=0, closefd=False) as opened:
            for chunk in chunks_of(opened, file.path, self._block):
                yield Piece(file, chunk, restart)
                restart = False
        file.offset, file.known = size, take(fd, size)

    def _reset(self, file: Followed, reason: str) -> Piece:
        self.resets[reason] = self.resets.get(reason, 0) + 1
        file.offset, file.known, file.errors, file.name = 0, NOTHING, 0, file.path
        return Piece(file, b"", restart=True)

    def _trouble(self, file: Followed, error: OSError, now: float) -> None:
        if file.state != "unreadable":
            file.state = "unreadable"
            self.troubles.append((file.path, error.strerror or str(error)))
        self._lagging[id(file)] = file
        self._schedule.add(file, now + max(_RETRY_SECONDS, len(self._lagging) / _RETRIES_PER_SECOND))

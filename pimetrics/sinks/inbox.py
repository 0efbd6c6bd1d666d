"""Streams that other machines deliver, as recordings on the disk of a receiver.

    FOLDER/team=core/repo=api/3f/3f2a...jsonl      one level a label that the operator allows, one to spread the files
    FOLDER/.../3f/3f2a...over                      its shipper has said that nothing will follow

A stream is a file that only grows, written by this process alone, so how much of it is here is asked of the file
itself: nothing else could say something different after a crash. What is torn (a write that a kill cut short) stays
torn until the delivery comes again: its bytes are compared with what is there, and only what is new is written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote, unquote

from pimetrics.delivery import (
    LABELS,
    MAX_LABEL_CHARS,
    GapError,
    InboxFullError,
    OtherContentError,
    edges,
    fingerprint,
)
from pimetrics.errors import WrongUseError
from pimetrics.names import LABEL_CAP, OTHER, UNKNOWN, label_value, printable

ENDING: Final = ".jsonl"
OVER: Final = ".over"
KEEP_FREE_BYTES: Final = 64 << 20
"""Room that deliveries leave on the disk: the ledger may be on it."""

_NAME: Final = ".receiver"
_FOLDER_CHARS: Final = 240
"""Longest value in the name of a folder; file systems take 255 bytes."""

_BLOCK: Final = 256 * 1024
_DIR_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class Inbox:
    """The folder of a receiver; one process at a time.

    Args:
        folder: Made when it is missing.
        labels: Labels that the operator allows, in the order of the folders.
        keep_free: Bytes of the disk that stay free.

    Attributes:
        receiver: Name of the receiver, kept in the folder.

    Raises:
        WrongUseError: The folder cannot be used.
    """

    def __init__(self, folder: Path, labels: Sequence[str] = (), *, keep_free: int = KEEP_FREE_BYTES) -> None:
        self.folder = folder
        self.labels = tuple(labels)
        self._keep_free = keep_free
        self._admitted: dict[str, set[str]] = {name: set() for name in self.labels}
        self._locks = [threading.Lock() for _ in range(256)]
        self._admitting = threading.Lock()
        try:
            folder.mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)
            self._lock = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            self.receiver = self._claim()
        except OSError as error:
            if error.errno == errno.EWOULDBLOCK:
                raise WrongUseError(
                    f"{printable(str(folder))} is in use by another receiver; give each a folder of its own"
                ) from None
            raise WrongUseError(
                f"{printable(str(folder))} cannot be used to receive ({error.strerror}); name one that may be written"
            ) from None
        for name, value in self._folders_of_labels():
            self._admitted[name].add(value)

    def close(self) -> None:
        """Give the folder free."""
        os.close(self._lock)

    def offset(self, stream: str, labels: Mapping[str, str]) -> int:
        """Return how many bytes of a stream are here: whole lines, or all once it is complete.

        Raises:
            OSError: The file cannot be read.
        """
        path = self._path(stream, labels)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return 0
        try:
            return self._acknowledged(path, fd)
        finally:
            os.close(fd)

    def append(
        self,
        stream: str,
        labels: Mapping[str, str],
        offset: int,
        before: str,
        body: BinaryIO,
        *,
        complete: bool = False,
        age_s: float = 0.0,
    ) -> int:
        """Keep what is new in a delivery; return how much of the stream is here then, on the disk.

        Args:
            stream: Its name, which was checked.
            labels: What its shipper says of it.
            offset: Where in the stream the delivery begins.
            before: Fingerprint of what stands before.
            body: Whole lines; in the last delivery of a stream the last one may be torn.
            complete: Nothing will follow.
            age_s: How long ago its file was last written, seconds: what is delivered late is as old here as there.

        Raises:
            GapError: The delivery begins beyond what is here.
            OtherContentError: What is here is not what the shipper has.
            InboxFullError: There is no room.
            OSError: Anything else that the disk says.
        """
        path = self._path(stream, labels)
        with self._lock_of(stream):
            try:
                fd = self._open(path, offset)
            except OSError as error:
                raise _as_full(error) from None
            try:
                size = os.fstat(fd).st_size
                if offset > self._acknowledged(path, fd):
                    raise GapError(self._acknowledged(path, fd))
                if fingerprint(*(os.pread(fd, length, at) for at, length in edges(offset))) != before:
                    raise OtherContentError
                _compare(fd, offset, size, body)
                self._write(fd, size, body, age_s)
                if complete:
                    self._mark(path)
                return self._acknowledged(path, fd)
            finally:
                os.close(fd)

    def check_room(self, wanted: int = 0) -> None:
        """Look whether the disk has so much to give.

        Raises:
            InboxFullError: It has not, or the ledger would be left without.
            OSError: It does not say.
        """
        there = os.statvfs(self.folder)
        if there.f_bavail * there.f_frsize < self._keep_free + wanted:
            raise InboxFullError

    def delete(self, path: Path, unchanged_since: float) -> bool:
        """Delete a stream unless it was changed after that time (Unix seconds); return whether it is gone."""
        with self._lock_of(path.stem), contextlib.suppress(FileNotFoundError):
            if path.stat().st_ctime > unchanged_since:
                return False
            path.unlink()
            path.with_suffix(OVER).unlink(missing_ok=True)
        return True

    def labels_of(self, source: str) -> tuple[str, ...]:
        """Return the values of LABELS for a source: empty for those not allowed, unknown for what was not delivered."""
        levels = source.removeprefix(f"{self.folder}/").split("/") if source.startswith(f"{self.folder}/") else []
        found = dict(each.split("=", 1) for each in levels[: len(self.labels)] if "=" in each)
        return tuple(unquote(found.get(name, UNKNOWN)) if name in self.labels else "" for name in LABELS)

    def _lock_of(self, stream: str) -> threading.Lock:
        return self._locks[hash(stream) % len(self._locks)]

    # --- the disk ---------------------------------------------------------------------------------------------------

    def _open(self, path: Path, offset: int) -> int:
        """Open the file of a stream; a new one is on the disk, name and all, before anything is said of it.

        Raises:
            GapError: There is none, and the delivery does not begin one.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        if offset:
            raise GapError(0)
        self.check_room()
        missing = [each for each in (path.parent, *path.parent.parents) if not each.exists()]
        path.parent.mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)
        fd = os.open(path, flags | os.O_CREAT, _FILE_MODE)
        for each in (path.parent, *(folder.parent for folder in missing)):
            _sync_folder(each)
        return fd

    def _write(self, fd: int, size: int, body: BinaryIO, age_s: float) -> None:
        """Append the rest of a body, or leave the file as it was; then set how old it is."""
        left = _left(body)
        if left:
            self.check_room(left)
        try:
            while block := body.read(_BLOCK):
                view = memoryview(block)
                while view:
                    view = view[os.write(fd, view) :]
            if age_s > 0:  # at once: a follower that is faster takes it for new
                changed_s = max(0.0, time.time() - age_s)
                os.utime(fd, (changed_s, changed_s))
            os.fsync(fd)  # also where nothing was new: whoever wrote it may have been killed before this
        except OSError as error:
            os.ftruncate(fd, size)
            raise _as_full(error) from None

    def _mark(self, path: Path) -> None:
        mark = path.with_suffix(OVER)
        if not mark.exists():
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
            _sync_folder(path.parent)

    @staticmethod
    def _acknowledged(path: Path, fd: int) -> int:
        size = os.fstat(fd).st_size
        return size if path.with_suffix(OVER).exists() else _end_of_lines(fd, size)

    def _claim(self) -> str:
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.pread(self._lock, 64, 0).decode("ascii", "replace").strip()
        if found:
            return found
        name = secrets.token_hex(8)
        os.pwrite(self._lock, name.encode() + b"\n", 0)
        os.fsync(self._lock)
        _sync_folder(self.folder)
        return name

    # --- labels -----------------------------------------------------------------------------------------------------

    def _path(self, stream: str, labels: Mapping[str, str]) -> Path:
        levels = [f"{name}={_folder_name(self._admit(name, labels.get(name)))}" for name in self.labels]
        return Path(self.folder, *levels, stream[:2], stream + ENDING)

    def _admit(self, name: str, value: str | None) -> str:
        value = label_value(value)[:MAX_LABEL_CHARS]
        while len(_folder_name(value)) > _FOLDER_CHARS:  # three for each byte of UTF-8: letters of Asia take nine
            value = value[:-1]
        with self._admitting:
            admitted = self._admitted[name]
            if value in admitted or value in (OTHER, UNKNOWN):
                return value
            if len(admitted) >= LABEL_CAP:
                return OTHER
            admitted.add(value)
            return value

    def _folders_of_labels(self) -> Iterator[tuple[str, str]]:
        """Yield the values that have become folders: first come, never revoked."""
        level = [self.folder]
        for name in self.labels:
            level = [
                Path(entry.path)
                for folder in level
                for entry in os.scandir(folder)
                if entry.name.startswith(f"{name}=") and entry.is_dir(follow_symlinks=False)
            ]
            for folder in level:
                value = unquote(folder.name.partition("=")[2])
                if value not in (OTHER, UNKNOWN):
                    yield name, value


def _folder_name(value: str) -> str:
    return quote(value, safe="")


def is_complete(path: str) -> bool:
    """Whether a file is a delivered stream whose shipper has said that nothing will follow."""
    return path.endswith(ENDING) and os.path.exists(path.removesuffix(ENDING) + OVER)


def _compare(fd: int, offset: int, size: int, body: BinaryIO) -> None:
    """Read the part of a body that is here already.

    Raises:
        OtherContentError: It differs.
    """
    while offset < size:
        block = body.read(min(_BLOCK, size - offset))
        if not block:
            return
        if os.pread(fd, len(block), offset) != block:
            raise OtherContentError
        offset += len(block)


def _end_of_lines(fd: int, size: int) -> int:
    """Return where the last whole line ends."""
    at = size
    while at > 0:
        start = max(0, at - 64 * 1024)
        found = os.pread(fd, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _left(body: BinaryIO) -> int:
    here = body.tell()
    end = body.seek(0, os.SEEK_END)
    body.seek(here)
    return end - here


def _as_full(error: OSError) -> Exception:
    return InboxFullError() if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else error


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

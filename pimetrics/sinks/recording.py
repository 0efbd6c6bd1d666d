"""A stamped copy of what a process prints, written beside it without ever being in its way.

A `Recording` takes chunks and hands them to a thread that opens the file, stamps and writes. A disk that is full,
slow or stuck (a network folder that hangs) holds up that thread only. What cannot be written within the buffer and
the patience below is left out, whole lines at a time where possible, and said once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pimetrics.stamping import Stamper

if TYPE_CHECKING:
    from collections.abc import Callable

BUFFER_BYTES: Final = 16 * 1024 * 1024
"""What waits for the disk, at most. Pi prints far less than this in the seconds that a busy disk takes."""

STUCK_S: Final = 1.0
"""A disk that takes no block for this long is stuck: no waiting for it until it has caught up."""

PATIENCE_S: Final = 10.0
"""How long, over the whole run, the recorded process may be held back by a disk that works but is slower than it;
2% of the run's time come on top."""

_PATIENCE_SHARE: Final = 0.02
_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z_[0-9a-f]{8}\.jsonl")
_RETRY_S: Final = 1.0
_BATCH_BYTES: Final = 256 * 1024


def new_name(now_s: float) -> str:
    """Make the name of a recording that starts now: UTC time, so that names sort, and a random part."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_s))
    return f"{stamp}.{int(now_s * 1000) % 1000:03d}Z_{secrets.token_hex(4)}.jsonl"


def create(path: Path) -> int:
    """Open a new recording for writing, readable by its owner only, and mark it as being written.

    The mark is an advisory lock, which ends with the process however that ends.

    Raises:
        OSError: The folder or the file cannot be made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # a filesystem without locks; age alone then tells a settled recording
        fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def being_written(path: Path) -> bool:
    """Whether the process that writes this recording is still there; false when the file cannot be opened."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def is_over(path: str) -> bool:
    """Whether a file is a recording, and whoever wrote it is surely gone; false where locks are not to be had."""
    if not _NAME.fullmatch(os.path.basename(path)):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.fstat(fd).st_size:
            return False  # made a moment ago, and not locked yet
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


class Recording:
    """One recording. `put` and `close` belong to one thread, the writing is done by another.

    Args:
        opened: Gives the file descriptor to write to; called in the writing thread, since this too can hang.
        warn: Called once, in a thread of its own, with the reason, when the recording can first not be written.
        max_bytes: Size at which the recording ends (None: no limit).
        buffer_bytes: What may wait for the disk.
        stuck_s: Seconds without progress after which the disk is not waited for.
        patience_s: Seconds that `put` may wait in all, for a disk that is only slow.
    """

    def __init__(
        self,
        opened: Callable[[], int],
        warn: Callable[[str], None],
        *,
        max_bytes: int | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        stuck_s: float = STUCK_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._opened = opened
        self._warn = warn
        self._room = max_bytes
        self._buffer_bytes = buffer_bytes
        self._stuck_s = stuck_s
        self._patience_s = patience_s
        self._started = time.monotonic()
        self._waited = 0.0
        self._stamper = Stamper()
        # Used by put only.
        self._skipping = False  # a gap cut a line: go on behind its LF
        self._gap = False  # what comes next does not follow what came before
        # Guarded by _changed.
        self._changed = threading.Condition()
        self._queue: deque[tuple[bytes, int, bool]] = deque()
        self._held = 0  # bytes in the queue and in the writer's hands
        self._steps = 0  # writes done
        self._failing = False  # the last write failed
        self._slow = False  # not waited for until it has caught up
        self._closing = False
        self._ended = False  # nothing more will be written
        self._lost = False
        self._warning: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether anything that was put is missing from the recording."""
        return self._lost

    def put(self, chunk: bytes, now_ms: int) -> None:
        """Hand over the next bytes; returns at once unless a working disk needs a moment (see `PATIENCE_S`).

        Args:
            chunk: What came, unstamped.
            now_ms: When it came, in epoch milliseconds.
        """
        if self._skipping:
            cut = chunk.find(b"\n") + 1
            if not cut:
                return
            chunk = chunk[cut:]
            self._skipping = False
        if not chunk:
            return
        with self._changed:
            if self._fits(len(chunk)):
                self._queue.append((chunk, now_ms, self._gap))
                self._held += len(chunk)
                self._gap = False
                self._changed.notify_all()
            else:
                self._lost = self._gap = True
                self._skipping = not chunk.endswith(b"\n")
                self._say("the disk is too slow")

    def close(self) -> None:
        """Write what is left, as long as the disk takes it, and end the recording."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            while not self._ended:
                if not self._progress(self._stuck_s):
                    self._end("the disk does not answer")
        for thread in (self._thread, self._warning):
            if thread is not None:
                thread.join(self._stuck_s)

    def _fits(self, size: int) -> bool:
        """Whether the buffer takes so many bytes more, now or after a bearable wait."""
        while not self._ended and self._held and self._held + size > self._buffer_bytes:
            before = time.monotonic()
            left = self._patience_s + (before - self._started) * _PATIENCE_SHARE - self._waited
            if self._failing or self._slow or left <= 0 or not self._progress(min(left, self._stuck_s)):
                self._slow = True
                return False
            self._waited += time.monotonic() - before
        return not self._ended

    def _progress(self, timeout_s: float) -> bool:
        """Wait for the writer; false when it did nothing in that time."""
        steps = self._steps
        return self._changed.wait_for(lambda: self._ended or self._steps != steps, timeout_s)

    def _say(self, reason: str) -> None:
        # In a thread of its own: standard error may be a pipe that nobody empties.
        if self._warning is None:
            self._warning = threading.Thread(target=self._warn, args=(reason,), name="warning", daemon=True)
            self._warning.start()

    def _end(self, reason: str = "") -> None:
        """Write nothing more; with a reason, what is still held is lost."""
        self._ended = True
        self._queue.clear()
        self._changed.notify_all()
        if reason:
            self._lost = True
            self._say(reason)

    def _run(self) -> None:
        try:
            fd = self._opened()
        except OSError as error:
            with self._changed:
                self._end(_reason(error))
            return
        try:
            while batch := self._next_batch():
                if not self._write(fd, self._stamped(batch), sum(len(chunk) for chunk, _, _ in batch)):
                    return
            if self._write(fd, self._stamper.finish(), 0):
                with self._changed:
                    self._end()
        finally:
            os.close(fd)

    def _next_batch(self) -> list[tuple[bytes, int, bool]]:
        batch = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            while self._queue and size < _BATCH_BYTES:
                batch.append(self._queue.popleft())
                size += len(batch[-1][0])
        return batch

    def _stamped(self, batch: list[tuple[bytes, int, bool]]) -> bytes:
        out = []
        for chunk, now_ms, gap in batch:
            if gap:
                # End a line that the gap cut off, so that the next record stands on its own.
                out.append(b"\n" if self._stamper.mid_line else b"")
                out.insert(-1, self._stamper.finish())
            out.append(self._stamper.feed(chunk, now_ms))
        return out[0] if len(out) == 1 else b"".join(out)

    def _write(self, fd: int, data: bytes, taken: int) -> bool:
        """Write all of `data`, which `taken` bytes of the buffer became; false when the recording has ended."""
        view = memoryview(data)
        if self._room is not None:
            self._room -= len(data)
            if self._room < 0:
                with self._changed:
                    self._end("it has reached the size that --max-bytes allows")
                return False
        while view:
            try:
                view = view[os.write(fd, view) :]
                failure = ""
            except OSError as error:
                failure = _reason(error)
            with self._changed:
                self._failing = bool(failure)
                if self._ended:
                    return False
                if failure and self._closing:
                    self._end(failure)
                    return False
                if failure:
                    self._say(failure)
                    self._changed.wait_for(lambda: self._closing, _RETRY_S)
                else:
                    self._steps += 1
                    self._changed.notify_all()
        with self._changed:
            self._held -= taken
            self._slow = self._slow and self._held > self._buffer_bytes // 2
            self._changed.notify_all()
        return True


def _reason(error: OSError) -> str:
    return error.strerror or str(error)

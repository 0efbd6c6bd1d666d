"""The reader of `serve`: files and standard input -> pipeline -> ledger, step by step, in one thread.

A step takes what has come, gives it to the ledger and commits, every 50 ms or 1,000 rows. Whether a step is due, the
caller knows; nothing here sleeps. While the ledger cannot be written no file is read (the files hold the data) and
standard input waits in a bounded buffer.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pimetrics.errors import StateFullError, StateLostError
from pimetrics.exporter import Exporter, LiveLedger
from pimetrics.marks import Mark
from pimetrics.names import printable
from pimetrics.notices import Notices
from pimetrics.pipeline import Source
from pimetrics.rows import Row
from pimetrics.sources.follow import DAY_SECONDS, Follower
from pimetrics.sources.followed import Followed, Piece
from pimetrics.sources.stdin import PipeBuffer
from pimetrics.sources.waker import Waker

COMMIT_ROWS: Final = 1000
COMMIT_SECONDS: Final = 0.05
SETTLE_SECONDS: Final = 2.0
"""How long a fact from a session file waits for its twin from a stream, which knows more."""

POLL_SECONDS: Final = 0.25
"""How often files are looked at: a record in a file is read within about this time."""

RETRY_SECONDS: Final = 1.0
EVICT_SECONDS: Final = 900.0
FORGET_ROWS: Final = 1000
_FORGET_SECONDS: Final = 3600.0
_SWEEP_SECONDS: Final = 30.0
_SHOW_SECONDS: Final = 0.2
_END_SECONDS: Final = 1.0
"""How long the end may take to commit what was read; what is left in files by then is there at the next start."""

_PIECE_BYTES: Final = 128 * 1024
"""How much of a file is taken at once: about 0.1 s of work on the smallest records, since the end waits for it."""

_SHOW_ANYWAY_SECONDS: Final = 5.0
_MOST_READING: Final = 2000


class _Held(NamedTuple):
    due: float
    rows: list[Row]
    file: Followed
    mark: Mark


class _Reading:
    """A file that is being read."""

    __slots__ = ("at", "source")

    def __init__(self, source: Source, at: float) -> None:
        self.source = source
        self.at = at


class Daemon:
    """Reads for an exporter.

    Args:
        exporter: What shows.
        open_ledger: Opens the ledger; called again when that fails for want of room, or when it turns out damaged.
        put_aside: Moves a damaged ledger away.
        paths: Files, folders and patterns to follow.
        pipe: Standard input.
        clock: Unix seconds.
        monotonic: A clock that never goes back, seconds.
        settle: See `SETTLE_SECONDS`.
        idle: Seconds of silence after which a source closes its gauges.
        ended: Tells whether a file surely has its last byte.
        keep_s: How long rows are kept, seconds; None keeps them for ever.
        notices: Where to say what is wrong.
        progress: Told (files read, bytes left) while catching up.
    """

    def __init__(
        self,
        exporter: Exporter,
        open_ledger: Callable[[], LiveLedger],
        *,
        paths: Sequence[str | Path] = (),
        pipe: PipeBuffer | None = None,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        put_aside: Callable[[], object] = lambda: None,
        settle: float = SETTLE_SECONDS,
        idle: float = EVICT_SECONDS,
        ended: Callable[[str], bool] = lambda _path: False,
        keep_s: float | None = None,
        notices: Notices | None = None,
        progress: Callable[[int, int], None] = lambda _files, _bytes: None,
    ) -> None:
        self._exporter = exporter
        self._open_ledger = open_ledger
        self._put_aside = put_aside
        self._paths = list(paths)
        self._pipe = pipe
        self._clock = clock
        self._now = monotonic
        self._settle = settle
        self._idle = idle
        self._ended = ended
        self._keep_s = keep_s
        self._forgot_at = float("-inf")
        self._evict = max(idle, EVICT_SECONDS)
        self._notices = notices or Notices()
        self._progress = progress
        self._ledger: LiveLedger | None = None
        self._follower: Follower | None = None
        self._reading: dict[Followed, _Reading] = {}
        self._held: deque[_Held] = deque()
        self._marks: dict[str, Mark] = {}
        self._gone: set[str] = set()
        self._piped: Source | None = None
        self._piped_errors = 0
        self._committed_at = float("-inf")
        self._retry_at: float | None = None
        self._swept_at = float("-inf")
        self._missed = False
        self._files_read = 0
        self._lost_told = 0
        self._stopping: Callable[[], bool] = lambda: False
        self._shown_at = float("-inf")

    def begin(self) -> None:
        """Open the ledger.

        Raises:
            StateError: It cannot be used. (A full disk is no error: it is tried again.)
        """
        with self._writing():
            self._open()

    def step(self) -> float:
        """Take what has come; return how long nothing has to be done, seconds."""
        now = self._now()
        if self._retry_at is not None:
            if now < self._retry_at:
                return self._retry_at - now
            with self._writing():
                if self._ledger is None:
                    self._open()
                else:
                    self._commit()
            if self._retry_at is not None:
                return RETRY_SECONDS
        if self._ledger is None:
            return RETRY_SECONDS
        more = False
        with self._writing():
            more = self._take_pipe()
            self._take_files(now)
            self._release(now)
            self._commit_if_due(always=True)
            self._exporter.publish_if_read()
            self._see_ready()
            if now - self._swept_at >= _SWEEP_SECONDS:
                self._swept_at = now
                self._sweep(now)
            self._forget_rows(now)
        if self._retry_at is not None:
            return RETRY_SECONDS
        if more or (self._follower is not None and self._follower.behind and not self._exporter.ready):
            return 0.0
        return min(POLL_SECONDS, max(0.0, self._held[0].due - now) if self._held else POLL_SECONDS)

    def run(self, waker: Waker, stop: threading.Event) -> None:
        """Step until told to stop, then commit all that was read."""
        self._stopping = stop.is_set
        try:
            while not stop.is_set():
                pause = self.step()
                if pause > 0:
                    waker.wait(pause)
        finally:
            self.close()

    def close(self) -> None:
        """Commit what waits, also for a twin, and give the ledger free."""
        if self._ledger is None:
            return
        until = self._now() + _END_SECONDS
        with self._writing():
            while self._take_pipe() and self._now() < until:  # first: nobody can read a pipe again
                self._commit_if_due()
            self._release(float("inf"), until)
            self._commit_if_due(always=True)
        self._ledger.close()
        self._ledger = None

    def hint(self, path: str) -> None:
        """Say that something happened at a path; from any thread."""
        follower = self._follower
        if follower is not None:
            follower.hint(path)

    # --- the ledger -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        ledger = self._ledger = self._open_ledger()
        self._missed = False
        if ledger.silent:
            self._notices.say(
                "state_unreadable",
                "the ledger was damaged and has been put aside; counters start at 0, and what is found now is known "
                "but not counted",
            )
        self._exporter.attach(ledger)
        self._exporter.ready = False
        self._reading.clear()
        self._held.clear()
        self._marks.clear()
        self._gone.clear()
        self._files_read = 0
        if self._paths:
            self._follower = Follower(
                self._paths, known=ledger.files(), fresh=self._idle, ended=self._ended, block=_PIECE_BYTES
            )
        self._exporter.publish()

    def _commit_if_due(self, *, always: bool = False) -> None:
        ledger = self._ledger
        births = self._exporter.unsaved_births
        if ledger is None or not (ledger.pending or self._marks or self._gone or ledger.totals.moved or births):
            return
        late = self._now() - self._committed_at >= COMMIT_SECONDS
        if always or ledger.pending >= COMMIT_ROWS or (late and ledger.pending):
            self._commit()

    def _commit(self) -> None:
        self._exporter.commit(self._marks.values(), self._gone)
        self._marks.clear()
        self._gone.clear()
        self._committed_at = self._now()

    def _forget_rows(self, now: float) -> None:
        """Delete old rows, a few at a time, so that nothing waits for it."""
        if self._keep_s is None or self._ledger is None or now - self._forgot_at < _FORGET_SECONDS:
            return
        if self._ledger.forget_rows(round((self._clock() - self._keep_s) * 1000)) < FORGET_ROWS:
            self._forgot_at = now

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Do something that may need the ledger; what goes wrong with it is dealt with here."""
        try:
            yield
        except StateFullError as error:
            if self._retry_at is None:
                self._notices.say("state_full", f"{error}; nothing is lost, trying again")
            self._exporter.commit_failures += 1
            self._exporter.publish()
            if self._ledger is not None and self._ledger.broken:
                self._ledger.close()  # what it holds in memory may be half a change: begin again from what it wrote
                self._ledger = None
            self._retry_at = self._now() + RETRY_SECONDS
            if self._pipe is not None:
                self._pipe.taking(on=False)
            return
        except StateLostError as error:
            self._notices.say("state_unreadable", str(error))
            if self._ledger is not None:
                self._ledger.close()
                self._ledger = None
            self._put_aside()
            with self._writing():
                self._open()
            return
        if self._retry_at is not None and self._ledger is not None:
            self._retry_at = None
            self._notices.say("state_writable", "the ledger can be written again")
            if self._pipe is not None:
                self._pipe.taking(on=True)

    # --- standard input ---------------------------------------------------------------------------------------------

    def _take_pipe(self) -> bool:
        """Take what came through the pipe, at most for one commit's time; return whether more waits."""
        pipe, ledger = self._pipe, self._ledger
        if pipe is None or ledger is None:
            return False
        if pipe.lost_bytes > self._lost_told:
            self._notices.say("stdin_lost", f"{pipe.lost_bytes} bytes of standard input were lost: the buffer is full")
            self._lost_told = pipe.lost_bytes
        until = self._now() + COMMIT_SECONDS
        while (chunk := pipe.take()) is not None:
            if self._piped is None:
                self._piped, self._piped_errors = self._exporter.open("-"), 0
            ledger.add(self._exporter.read(self._piped, chunk))
            self._piped_errors = self._exporter.count_errors(self._piped, self._piped_errors)
            self._exporter.note("-", self._piped, self._clock())
            if ledger.pending >= COMMIT_ROWS or self._now() >= until:
                return True
        if self._piped is not None and pipe.finished:
            ledger.add(self._exporter.end(self._piped))
            self._exporter.forget("-")
            self._piped = None
        return False

    # --- files ------------------------------------------------------------------------------------------------------

    def _take_files(self, now: float) -> None:
        follower = self._follower
        if follower is None:
            return
        news = False
        with contextlib.closing(follower.poll(now, self._clock())) as pieces:
            for piece in pieces:
                news = True
                self._take_piece(piece)
                self._commit_if_due()
                if self._stopping():
                    break  # what was read is committed, the rest is there at the next start
                if not self._exporter.ready and self._now() - self._shown_at >= _SHOW_SECONDS:
                    self._shown_at = self._now()
                    self._show(follower)
                    self._progress(self._files_read, follower.lag_bytes)
        news = news or bool(follower.gone or follower.forgotten or follower.troubles)
        self._gone.update(follower.gone)
        follower.gone.clear()
        for file in follower.forgotten:
            self._drop(file)
        follower.forgotten.clear()
        for path, reason in follower.troubles:
            self._notices.say("unreadable", f"{printable(path)} cannot be read ({reason}); check its permissions", path)
        follower.troubles.clear()
        if news or now - self._shown_at >= _SHOW_ANYWAY_SECONDS:
            self._shown_at = now
            self._show(follower)

    def _take_piece(self, piece: Piece) -> None:
        file, exporter, ledger = piece.file, self._exporter, self._ledger
        assert ledger is not None
        if piece.restart:
            self._reading.pop(file, None)
        reading = self._reading.pop(file, None)
        rows: list[Row] = []
        if piece.chunk:
            if reading is None:
                self._files_read += 1
                reading = _Reading(exporter.open(file.name), 0.0)
            reading.at = self._now()
            rejected = exporter.rejected
            rows = exporter.read(reading.source, piece.chunk)
            if not piece.again and exporter.rejected > rejected:
                self._notices.say(
                    "rejected",
                    f"{printable(file.path)} holds lines that are no records; see pimetrics doctor",
                    file.path,
                )
        if reading is not None:
            exporter.note(_name(file), reading.source, file.written)
            self._reading[file] = reading  # at the end: the one that rests longest stands first
            if len(self._reading) > _MOST_READING:
                self._drop(next(iter(self._reading)))
        if piece.end and reading is not None:
            rows = [*rows, *exporter.end(reading.source)]
            self._drop(file)
        if piece.again:
            return  # the ledger has these rows, or they wait to be given to it
        if reading is not None:
            file.errors = exporter.count_errors(reading.source, file.errors)
            if reading.source.records and not reading.source.known_records:
                file.state = "ignored"
            if exporter.ready and reading.source.is_session_file and self._settle > 0:
                self._held.append(_Held(self._now() + self._settle, rows, file, file.mark))
                return
            silence = self._clock() - file.written
            if not exporter.ready and self._evict < silence < DAY_SECONDS and not file.lag:
                self._drop(file)  # catching up: its rows are made, and it will hardly go on
        ledger.add(rows)
        self._marks[file.path] = file.mark

    def _release(self, now: float, until: float = float("inf")) -> None:
        """Give the ledger what has waited long enough for a twin by `now`; stop at `until`."""
        assert self._ledger is not None
        while self._held and self._held[0].due <= now and self._now() <= until:
            held = self._held[0]
            self._ledger.add(held.rows)
            self._marks[held.mark.path] = held.mark
            self._held.popleft()
            self._commit_if_due()

    def _drop(self, file: Followed) -> None:
        """Keep nothing of a file in memory; when it grows it is read from its start."""
        self._reading.pop(file, None)
        self._exporter.forget(_name(file))
        if self._follower is not None:
            self._follower.rewind(file)

    def _sweep(self, now: float) -> None:
        if self._ledger is not None and not self._ledger.is_there and not self._missed:
            self._missed = True
            self._notices.say(
                "state_gone",
                "the ledger has been deleted or replaced while it was in use; counters go on, but what they hold ends "
                "with this process: restart it to begin a new ledger from the files that are there",
            )
        for file in [file for file, reading in self._reading.items() if now - reading.at > self._evict]:
            self._drop(file)

    def _show(self, follower: Follower) -> None:
        self._exporter.states = follower.states
        self._exporter.lag_bytes = follower.lag_bytes
        self._exporter.resets = follower.resets

    def _see_ready(self) -> None:
        """The first catch-up is done when nothing readable waits and all of it is committed."""
        exporter, ledger = self._exporter, self._ledger
        if exporter.ready or ledger is None or (self._follower is not None and self._follower.behind):
            return
        if ledger.silent:
            ledger.caught_up()
            self._commit()
        exporter.publish()
        exporter.ready = True
        self._progress(self._files_read, 0)


def _name(file: Followed) -> str:
    """Name a file for the gauges: two files may have had the same path, one after the other."""
    return f"{file.info.st_dev}:{file.info.st_ino}"

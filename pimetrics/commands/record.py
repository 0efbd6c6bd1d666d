"""`pimetrics record`: run pi, or stand behind it in a pipe, and keep what it prints with arrival times.

Pi must run as if nobody recorded it. So its output goes on before anything else is done with it; a consumer that is
slow holds pi back, and one that goes away closes pi's pipe, both exactly as without us; and the recording, whose disk
may be full or slow, is written by another thread that this one hardly ever waits for.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pimetrics.commands import delivering
from pimetrics.commands.lengths import Seconds
from pimetrics.errors import WrongUseError
from pimetrics.names import printable
from pimetrics.places import recordings_dir
from pimetrics.stamping import Stamper

if TYPE_CHECKING:
    from collections.abc import Callable

    from pimetrics.shipping.beside import Beside
    from pimetrics.shipping.client import Target
    from pimetrics.shipping.shipper import Shipper
    from pimetrics.sinks.recording import Recording
    from pimetrics.sinks.retention import Limits
    from pimetrics.sources.process import Child

_BLOCK = 64 * 1024
_STDIN = 0
_STDOUT = 1


@click.command(
    "record",
    context_settings={"allow_interspersed_args": False},
    short_help="Keep a stamped copy of what pi prints.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the recording [default with a command: the recordings folder].",
)
@click.option(
    "--keep",
    default="30d",
    show_default=True,
    metavar="TIME",
    help="Delete recordings in that folder that are older (30d, 12h, 2w, off).",
)
@click.option(
    "--max-bytes",
    default="5GB",
    show_default=True,
    metavar="SIZE",
    help="Delete its oldest recordings above this size (5GB, 500MiB, off).",
)
@delivering.options(required=False)
@click.option(
    "--to-wait",
    "wait_s",
    type=Seconds(),
    default="10s",
    show_default=True,
    help="How long to go on delivering after the end; what is left then stays for the next time.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
def command(
    *,
    folder: Path | None,
    keep: str,
    max_bytes: str,
    to: str | None,
    token_file: Path | None,
    login_file: Path | None,
    ca_file: Path | None,
    labels: tuple[str, ...],
    wait_s: float,
    command: tuple[str, ...],
) -> None:
    """Keep a copy of what pi prints, each record stamped with the time of its arrival.

    \b
    pimetrics record -- pi --mode json "..."              run pi, its output untouched; the copy goes
                                                          into the recordings folder, where serve looks
    pi --mode json "..." | pimetrics record > run.jsonl   in a pipe: stamped to standard output
    pi --mode json "..." | pimetrics record -o DIR | jq   in a pipe: output untouched, the copy in DIR
    pimetrics record --to URL -- pi --mode json "..."     deliver it too, to pimetrics serve --receive

    Recordings hold everything that pi printed. Only their owner can read them, and they are compressed when settled
    and deleted by --keep and --max-bytes. Pi's exit status is passed on (128+n when signal n ended it).
    """  # noqa: D301  \b is click's
    if os.name != "posix":
        raise click.UsageError("record needs Linux or macOS; on Windows pimetrics reads and reports.")
    if not command and os.isatty(_STDIN):
        raise click.UsageError(
            "there is nothing to record: name a command (pimetrics record -- pi --mode json ...) or pipe into it."
        )
    if command and command[0].startswith("-"):  # unknown options are left for the command, where they follow it
        raise click.NoSuchOption(command[0])
    from pimetrics.sinks.retention import Limits, parse_keep, parse_max_bytes  # noqa: PLC0415  not on Windows

    try:
        limits = Limits(parse_keep(keep), parse_max_bytes(max_bytes))
    except WrongUseError as error:
        raise click.UsageError(str(error)) from None
    deliver = None
    if to is not None:
        there = delivering.target(to, token_file, login_file, ca_file)
        deliver = _Delivery(there, delivering.read_labels(labels), wait_s)
    if folder is None and (command or deliver):
        folder = recordings_dir()
    sys.exit(_run(command, folder, limits, deliver) if command and folder else _pipe(folder, limits, deliver))


class _Delivery:
    """Delivers a recording while it is made, if there is somewhere to deliver it to.

    Args:
        there: Where to.
        labels: What to say of it.
        wait_s: How long its end may take.
    """

    def __init__(self, there: Target, labels: dict[str, str], wait_s: float) -> None:
        self._there = there
        self._labels = labels
        self._wait_s = wait_s
        self._beside: Beside | None = None

    def begin(self, recording: Path) -> None:
        """Deliver what is written to a recording from now on."""
        from pimetrics.shipping.beside import Beside  # noqa: PLC0415

        self._beside = Beside(self._make, recording)

    def end(self) -> None:
        """Everything is written: deliver the rest, within bounds; readers of our output need not wait for that."""
        if self._beside is None or self._wait_s <= 0:
            return
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STDOUT)
            os.close(nowhere)
        if not self._beside.finish(self._wait_s):
            why = self._beside.trouble or "it takes long"
            _say(f"not all of the recording was delivered ({why}); the next record --to, or ship, goes on with it.")

    def _make(self) -> Shipper:
        from pimetrics.shipping.client import Client  # noqa: PLC0415
        from pimetrics.shipping.memory import Memory  # noqa: PLC0415
        from pimetrics.shipping.shipper import Shipper  # noqa: PLC0415
        from pimetrics.sinks.recording import is_over  # noqa: PLC0415

        return Shipper(Client(self._there), Memory(self._there.url), labels=self._labels, is_over=is_over)


def _run(command: tuple[str, ...], folder: Path, limits: Limits, deliver: _Delivery | None) -> int:
    from pimetrics.sources.process import Child, widen  # noqa: PLC0415

    widen(_STDOUT)
    try:
        child = Child(command)
    except OSError as error:
        name = printable(command[0]) or repr(command[0])
        _say(f"{name} cannot be started ({error.strerror}); give the command after --.")
        return 127 if isinstance(error, FileNotFoundError) else 126
    recording = _record_into(folder, limits, deliver)
    stop = _keep_house(folder, limits)
    relay = _Relay(child.output, _STDOUT, recording.put, child)
    relay.run()
    status = child.wait()
    stop.set()
    recording.close()
    if deliver is not None:
        deliver.end()
    return status


def _pipe(folder: Path | None, limits: Limits, deliver: _Delivery | None) -> int:
    from pimetrics.sinks.recording import Recording  # noqa: PLC0415
    from pimetrics.sources.process import die_of, widen  # noqa: PLC0415

    # The terminal's Ctrl-C and hang-up are for pi; what it prints then is recorded too, and its end is ours.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    widen(_STDIN)
    widen(_STDOUT)
    recording: Recording | None = None
    stop = threading.Event()
    if folder is not None:
        recording = _record_into(folder, limits, deliver)
        stop = _keep_house(folder, limits)
    elif not _has_reader(_STDOUT):
        recording = Recording(lambda: os.dup(_STDOUT), _warner("standard output"))
    if recording is None:
        relay: _Relay = _StampingRelay(_STDIN, _STDOUT)
    else:
        relay = _Relay(_STDIN, None if folder is None else _STDOUT, recording.put)
    signal.signal(signal.SIGTERM, relay.interrupt)
    fatal = 0
    try:
        relay.run()
        if relay.closed_by_consumer:
            fatal = signal.SIGPIPE
    except _TerminatedError:
        fatal = signal.SIGTERM
    except OSError as error:
        raise click.UsageError(f"standard input cannot be read ({error.strerror}); pipe pi's output into it.") from None
    stop.set()
    if recording is not None:
        recording.close()
    if deliver is not None:
        deliver.end()
    if fatal:
        die_of(fatal)
    # Into a file of the user's the lines are all there was to do; a recording beside the stream changes no status.
    return 1 if recording is not None and recording.lost and folder is None else 0


class _TerminatedError(Exception):
    """SIGTERM came: keep what is there, then end."""


class _Relay:
    """Moves bytes from a pipe to a consumer, and gives a copy of them away.

    Args:
        source: Descriptor to read until its end; closed when the consumer is gone.
        consumer: Descriptor to write to, or None.
        copy: Called with each chunk and the time of its arrival (epoch ms), after it was passed on.
        child: The process that writes into the source, if it is ours.
    """

    def __init__(
        self, source: int, consumer: int | None, copy: Callable[[bytes, int], None], child: Child | None = None
    ) -> None:
        self._source = source
        self._consumer = consumer
        self._copy = copy
        self._child = child
        self.closed_by_consumer = False
        self._blocked = False  # in a system call that may take long
        self._interrupted = False

    def interrupt(self, number: int, _frame: object) -> None:
        """Handle a signal that ends us: leave where nothing that was read is lost."""
        signal.signal(number, signal.SIG_IGN)
        self._interrupted = True
        if self._blocked:
            raise _TerminatedError

    def _block(self) -> None:
        self._blocked = True
        if self._interrupted:
            raise _TerminatedError

    def run(self) -> None:
        """Run until the source ends, the child has ended and all it wrote has been read, or the consumer is gone."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        if self._consumer is not None:
            poll.register(self._consumer, 0)  # an error alone: the consumer has closed its end
        if self._child is not None:
            poll.register(self._child.exited, select.POLLIN)
        while True:
            self._block()
            ready = dict(poll.poll())
            self._blocked = False
            if self._consumer in ready:
                self._close()
                return
            if self._child is not None and self._child.exited in ready:
                self._finish(self._child)
                return
            if not self._move(_BLOCK):
                return

    def _move(self, most: int) -> int:
        """Pass one chunk on; return its size, 0 at the end of the source or of the consumer."""
        try:
            chunk = os.read(self._source, most)
        except BlockingIOError:  # another process set our common descriptor to non-blocking, and was faster
            return 1
        now_ms = time.time_ns() // 1_000_000
        if not chunk:
            self._last(now_ms)
            return 0
        try:
            alive = self._pass_on(chunk, now_ms)
        finally:
            self._copy(chunk, now_ms)
        if not alive:
            self._close()
        return len(chunk) if alive else 0

    def _finish(self, child: Child) -> None:
        """The child has ended: pass on what it had written, and no more if something it left behind prints on."""
        left = _waiting(self._source)
        while left > 0:
            moved = self._move(min(left, _BLOCK))
            if not moved:
                return
            left -= moved
        poll = select.poll()
        poll.register(self._source, 0)
        if not poll.poll(0):  # no hang-up: the pipe is still open somewhere
            child.leave_output()
        else:
            self._last(time.time_ns() // 1_000_000)

    def _pass_on(self, chunk: bytes, now_ms: int) -> bool:  # noqa: ARG002  a stamping relay needs the time
        return self._consumer is None or self._write(self._consumer, chunk)

    def _last(self, now_ms: int) -> None:
        """The source has ended."""

    def _write(self, fd: int, data: bytes) -> bool:
        view = memoryview(data)
        while view:
            try:
                self._block()
                view = view[os.write(fd, view) :]
                self._blocked = False
            except BlockingIOError:  # another process set our common descriptor to non-blocking
                select.select([], [fd], [])
            except BrokenPipeError:
                return False
            except OSError as error:
                _say(
                    f"standard output cannot be written ({error.strerror}), so its writer is cut off as without record."
                )
                return False
        return True

    def _close(self) -> None:
        """The consumer is gone: pi's next write must fail as it would without us. What it wrote before is recorded."""
        self.closed_by_consumer = True
        with contextlib.suppress(OSError):
            left = _waiting(self._source)
            while left > 0 and (chunk := os.read(self._source, min(left, _BLOCK))):
                self._copy(chunk, time.time_ns() // 1_000_000)
                left -= len(chunk)
        os.close(self._source)


class _StampingRelay(_Relay):
    """Moves bytes to the consumer, stamped."""

    def __init__(self, source: int, consumer: int) -> None:
        super().__init__(source, consumer, lambda _chunk, _now_ms: None)
        self._out = consumer
        self._stamper = Stamper()

    def _pass_on(self, chunk: bytes, now_ms: int) -> bool:
        return self._write(self._out, self._stamper.feed(chunk, now_ms))

    def _last(self, now_ms: int) -> None:
        del now_ms
        if not self._write(self._out, self._stamper.finish()):
            self.closed_by_consumer = True


def _record_into(folder: Path, limits: Limits, deliver: _Delivery | None) -> Recording:
    from pimetrics.sinks.recording import Recording, create, new_name  # noqa: PLC0415

    path = folder / new_name(time.time())
    recording = Recording(lambda: create(path), _warner(f"the recording {path}"), max_bytes=limits.max_bytes)
    if deliver is not None:
        deliver.begin(path)
    return recording


def _keep_house(folder: Path, limits: Limits) -> threading.Event:
    """Tidy the folder beside the run until the event is set."""
    from pimetrics.sinks.retention import tidy  # noqa: PLC0415

    stop = threading.Event()

    threading.Thread(
        target=tidy, args=(folder, limits), kwargs={"stop": stop.is_set}, name="housekeeping", daemon=True
    ).start()
    return stop


def _waiting(fd: int) -> int:
    """How many bytes a pipe holds now (0 for what is no pipe)."""
    import fcntl  # noqa: PLC0415  not on Windows
    import termios  # noqa: PLC0415

    buffer = bytearray(4)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.FIONREAD, buffer)
    return int.from_bytes(buffer, sys.byteorder)


def _has_reader(fd: int) -> bool:
    """Whether somebody reads what is written there, and so holds the writer back: a pipe, a socket, a terminal."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _warner(what: str) -> Callable[[str], None]:
    def warn(reason: str) -> None:
        _say(f"{printable(what)} cannot be written ({reason}); pi runs on, but lines will be missing there.")

    return warn


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"pimetrics record: {text}\n".encode("utf-8", "replace"))

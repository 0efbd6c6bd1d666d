"""A child process whose standard output comes to us through a pipe, and that otherwise cannot tell that we are there.

It keeps our standard input and error, environment, working folder, descriptors, process group and terminal. Signals:
what the terminal sends goes to the whole process group, so the child has it already, and we only must not die of it;
what was sent to us alone is passed on. Who sent a signal is known where `sigwaitinfo` exists (Linux).
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCONT)
_FATAL: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_TERMINAL_STOPS: Final = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_SI_KERNEL: Final = 0x80  # Linux: the terminal, not a process, sent it

GRACE_S: Final = 2.0
"""After a signal that was to end the child has ended it: how long what it had printed may still be passed on. Alone,
the child would have died with that output still in its hands."""

_PIPE_BYTES: Final = 1024 * 1024


def widen(fd: int) -> None:
    """Give a pipe a large buffer where the system can, so that fewer and larger reads do; else leave it."""
    import fcntl  # noqa: PLC0415  not on Windows

    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < _PIPE_BYTES:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class Child:
    """A running command.

    Attributes:
        output: Descriptor of the reading end of its standard output.
        exited: Descriptor that becomes readable when the child has ended.

    Args:
        command: Program (looked up in PATH) and arguments.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        if not command[0]:  # which posix_spawn would refuse in Python's way
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit status with it
        watched = {signal.SIGINT, signal.SIGCHLD, *FORWARDED}
        # A signal that our parent had us ignore (nohup, a shell's background job) stays ignored, by the child too.
        self._watched = {number for number in watched if signal.getsignal(number) is not signal.SIG_IGN}
        # Blocked first, so that none is lost or kills us before the child can get it.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        self._lock = threading.Lock()
        self._status: int | None = None
        self._told_to_end = False
        self.output, theirs = os.pipe()
        self.exited, self._wake = os.pipe()
        widen(self.output)
        try:
            self._pid = os.posix_spawnp(
                command[0],
                list(command),
                _environment(),
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)],
                setsigmask=self._mask,
                # Python ignores these for itself.
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError:
            for fd in (self.output, self.exited, self._wake):
                os.close(fd)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise
        finally:
            os.close(theirs)
        threading.Thread(target=self._watch, name="signals", daemon=True).start()

    def ended(self) -> bool:
        """Whether the child has ended."""
        return self._status is not None

    def wait(self) -> int:
        """Wait for the end; return the exit status as a shell gives it (128+n for death by signal n)."""
        os.read(self.exited, 1)
        code = os.waitstatus_to_exitcode(self._status or 0)
        return 128 - code if code < 0 else code

    def leave_output(self) -> None:
        """Hand the pipe to a process that stays, since what the child left running still prints into it.

        The recorded process has ended and so do we; without us, its background processes would print on as well.
        """
        with contextlib.suppress(OSError):
            os.posix_spawnp(
                "cat",
                ["cat"],
                os.environb,
                file_actions=[(os.POSIX_SPAWN_DUP2, self.output, 0)],
                setsigmask=self._mask,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        os.close(self.output)

    def _watch(self) -> None:
        while True:
            number, sent_by_kernel = _next_signal(self._watched)
            if number == signal.SIGCHLD:
                # A child that was stopped and continued together with us: continue first, or we would stop again.
                if signal.SIGCONT in signal.sigpending():
                    continue
                self._look()
            elif self.ended():
                _die_of(number)
            elif number in FORWARDED and not (sent_by_kernel and self._reached_the_child(number)):
                self._send(number)

    @staticmethod
    def _reached_the_child(number: int) -> bool:
        # A hang-up goes to the session leader alone; its process group gets it when that leader ends.
        leader = number == signal.SIGHUP and os.getsid(0) == os.getpid()
        return number != signal.SIGCONT and not leader

    def _send(self, number: int) -> None:
        with self._lock:
            if self._status is None:
                self._told_to_end = self._told_to_end or number in _FATAL
                os.kill(self._pid, number)
        if number == signal.SIGCONT:
            self._look()

    def _look(self) -> None:
        """Take note of what became of the child."""
        with self._lock:
            if self._status is not None:
                return
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._status = status
        if self._status is None:
            self._stop_too()
            return
        os.write(self._wake, b"x")
        if self._told_to_end:
            threading.Thread(target=self._end_soon, name="grace", daemon=True).start()

    def _stop_too(self) -> None:
        """Stop as the child did for job control: without us the shell would see that and take the terminal back.

        The shell may continue both of us at any moment, and a stop that comes after that would leave us stopped for
        nothing. So the signal is first made to wait, where a SIGCONT takes it away, and let through only if the child
        is stopped still. SIGTSTP does nothing where no shell could continue us.
        """
        if not self._stopped(os.WNOWAIT):
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        if not self._stopped() and signal.SIGTSTP in signal.sigpending():
            signal.sigwait({signal.SIGTSTP})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})

    def _stopped(self, flags: int = 0) -> bool:
        """Whether the child is stopped for job control now, and nobody has asked before (without WNOWAIT)."""
        try:
            state = os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG | flags)
        except ChildProcessError:  # it has ended since we looked: for this question it is no child any more
            return False
        return state is not None and state.si_status in _TERMINAL_STOPS

    def _end_soon(self) -> None:
        threading.Event().wait(GRACE_S)
        code = os.waitstatus_to_exitcode(self._status or 0)
        os._exit(128 - code if code < 0 else code)


def die_of(number: int) -> None:
    """End this process as the signal would have ended it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def _die_of(number: int) -> None:
    # The handler cannot be set from this thread; the disposition of all but SIGINT is the default one anyway.
    if number != signal.SIGCONT:
        os._exit(128 + number)


def _next_signal(watched: set[signal.Signals]) -> tuple[int, bool]:
    if sys.platform == "linux":
        info = signal.sigwaitinfo(watched)
        return info.si_signo, info.si_code == _SI_KERNEL
    return signal.sigwait(watched), False


def _environment() -> dict[bytes, bytes]:
    """Our own environment, without what Python added to it (PEP 538 sets LC_CTYPE in the C locale)."""
    environment = dict(os.environb)
    with contextlib.suppress(OSError):
        given = Path("/proc/self/environ").read_bytes()
        if b"LC_CTYPE" in environment and b"LC_CTYPE=" not in {item[:9] for item in given.split(b"\0")}:
            del environment[b"LC_CTYPE"]
    return environment

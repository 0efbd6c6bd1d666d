"""Signals: the terminal's reach the command once, those sent to `record` alone are passed on, jobs can be stopped."""

import contextlib
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from record_helpers import PATIENCE_S, RECORD, agent, read_until, recording, start, unstamped, until

COUNTING = """
seen = []
def note(number, _frame):
    seen.append(number)
    out(b'{"signal":%d,"times":%d}\\n' % (number, seen.count(number)))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCONT):
    signal.signal(number, note)
out(b'{"ready":1}\\n')
while not seen: signal.sigtimedwait([], 0.05)
"""
# Ends only when told, so that a second delivery would show.
PATIENT = COUNTING + "sys.stdin.readline(); out(b'{\"total\":%d}\\n' % len(seen)); sys.exit(9)\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT", "SIGCONT"])
def test_signals_sent_to_record_are_passed_on(tmp_path, name):
    """A supervisor that signals record signals the command, which decides what to do; its status comes back."""
    number = getattr(signal, name)
    argv = ["-o", str(tmp_path), "--", *agent(COUNTING + "sys.exit(6)")]
    with start(*argv, stdout=subprocess.PIPE) as process:
        seen = process.stdout.readline()
        process.send_signal(number)
        seen += process.stdout.read()
        assert process.wait(PATIENCE_S) == 6
    assert seen == b'{"ready":1}\n{"signal":%d,"times":1}\n' % number
    assert unstamped(recording(tmp_path)) == seen


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGQUIT", 131)])
def test_a_signal_that_ends_the_command_ends_record(tmp_path, name, status):
    """Death by a forwarded signal is 128+n, and what was printed before is kept."""
    alive = agent("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); out(b'{}\\n'); signal.pause()")
    with start("-o", str(tmp_path), "--", *alive, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"{}\n"
        process.send_signal(getattr(signal, name))
        assert process.wait(PATIENCE_S) == status
    assert unstamped(recording(tmp_path)) == b"{}\n"


def test_an_interrupt_for_record_alone_is_not_its_end(tmp_path):
    """SIGINT is the terminal's to send, to all: record never dies of it before the command does."""
    argv = ["-o", str(tmp_path), "--", *agent("out(b'{}\\n'); sys.stdin.readline(); out(b'{\"b\":1}\\n')")]
    with start(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"{}\n"
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert process.stdout.read() == b'{"b":1}\n'
        assert process.wait(PATIENCE_S) == 0


STOPPED = rb"(?s)Stopped.*\n\$ "  # and the shell has its prompt out


class Terminal:
    """A terminal with a command as its session leader."""

    def __init__(self, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = "$ "
            os.environ["TERM"] = "dumb"
            os.execvp(argv[0], argv)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def until(self, pattern: bytes) -> bytes:
        return read_until(self.fd, pattern)

    def status(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_the_terminals_keys_reach_the_command_once(tmp_path, key, number):
    """Ctrl-C and Ctrl-\\ go to the process group, so the command has them already: once, and record lives on."""
    with Terminal([*RECORD, "-o", str(tmp_path), "--", *agent(PATIENT)]) as terminal:
        terminal.until(rb'"ready"')
        terminal.type(key)
        terminal.until(rb'"signal":%d,"times":1' % number)
        terminal.type(b"\n")
        terminal.until(rb'"total":1')
        assert terminal.status() == 9
    assert b'"times":2' not in recording(tmp_path)


def test_ctrl_c_in_a_pipe_leaves_the_last_records(tmp_path):
    """In `pi | record`, what pi still says after Ctrl-C is recorded; record ends with pi."""
    out = tmp_path / "run.jsonl"
    late = "signal.signal(signal.SIGINT, lambda *_: (out(b'{\"last\":1}\\n'), os._exit(0)))\n"
    late += "out(b'{\"first\":1}\\n')\nwhile True: signal.sigtimedwait([], 0.05)"
    line = f"{shlex.join(agent(late))} | {shlex.join(RECORD)} > {shlex.quote(str(out))}; echo status=$?"
    # The shell survives the Ctrl-C to report; the pipe's members get the default disposition back from it.
    with Terminal(["sh", "-c", f"trap : INT; {line}"]) as terminal:
        until(lambda: out.exists() and b"first" in out.read_bytes(), "the first record in the file")
        terminal.type(b"\x03")
        terminal.until(rb"status=0")
        terminal.status()
    assert unstamped(out.read_bytes()) == b'{"first":1}\n{"last":1}\n'


def states(group: int) -> list[str]:
    """The states of a process group's members, as ps shows them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of_group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(of_group) == group:
                found.append(state)
    return found


def foreground_runs(shell: Terminal) -> bool:
    """Whether a job has the shell's terminal, and both record and its command run."""
    group = os.tcgetpgrp(shell.fd)
    return group != shell.pid and len(found := states(group)) == 2 and "T" not in found


def suspend(shell: Terminal) -> None:
    """Type Ctrl-Z to a job that runs, and wait until all of it has stopped.

    The shell has its prompt out when record has stopped; a command that was not yet given the processor since then
    would still take what is typed next.
    """
    until(lambda: foreground_runs(shell), "the job running in the foreground")
    group = os.tcgetpgrp(shell.fd)
    shell.type(b"\x1a")
    shell.until(STOPPED)
    until(lambda: states(group) == ["T", "T"], "all of the job stopped")


@pytest.mark.skipif(shutil.which("bash") is None or sys.platform != "linux", reason="needs bash and /proc")
@pytest.mark.parametrize("who", ["terminal", "command"])
def test_a_job_can_be_stopped_and_continued(tmp_path, who):
    """Ctrl-Z, or a command that suspends itself, gives the shell its terminal back; fg goes on, nothing is lost."""
    source = "out(b'{\"ready\":1}\\n')\n"
    source += "os.kill(os.getpid(), signal.SIGTSTP)\n" if who == "command" else ""
    source += "sys.stdin.readline()\nout(b'{\"on\":1}\\n')\nsys.exit(4)\n"
    command = shlex.join([*RECORD, "-o", str(tmp_path), "--", *agent(source)])
    script = tmp_path / "job.sh"
    script.write_text(command + "\n")
    with Terminal(["bash", "--norc", "--noprofile", "-i"]) as shell:
        shell.until(rb"\$ ")
        shell.type(f". {shlex.quote(str(script))}\n".encode())
        if who == "command":
            shell.until(STOPPED)  # what it printed as it suspended itself may come after that
        else:
            shell.until(rb'"ready"')
            suspend(shell)
            for _ in range(2):  # stopped again at once, it goes on again
                shell.type(b"fg >/dev/null\n")
                suspend(shell)
        shell.type(b"fg >/dev/null\n")
        until(lambda: foreground_runs(shell), "the job running in the foreground")
        shell.type(b"\n")
        shell.until(rb'"on"')
        shell.type(b"echo status=$?\n")
        shell.until(rb"status=4")
        shell.type(b"exit\n")
        shell.status()
    assert unstamped(recording(tmp_path)) == b'{"ready":1}\n{"on":1}\n'


@pytest.mark.skipif(sys.platform != "linux", reason="who sent a signal is known on Linux")
def test_a_lost_terminal_reaches_the_command(tmp_path):
    """When the terminal goes away and record is its session leader, the command still gets its SIGHUP."""
    marker = tmp_path / "hup"
    note = f"signal.signal(signal.SIGHUP, lambda *_: (open({str(marker)!r}, 'x').close(), os._exit(0)))\n"
    terminal = Terminal(
        [*RECORD, "-o", str(tmp_path), "--", *agent(note + "out(b'{}\\n')\nwhile True: signal.sigtimedwait([], 0.05)")]
    )
    terminal.until(rb"\{\}")
    os.close(terminal.fd)
    assert terminal.status() == 0
    assert marker.exists()


ENDS_AS_WE_LOOK = """
import os, pathlib, signal, time
from pimetrics.sources import process

waitpid = os.waitpid
stdin, awaited = os.pipe()
os.dup2(stdin, 0)

def late(pid, flags):
    os.waitpid = waitpid
    os.write(awaited, b"\\n")
    while pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    return 0, 0

os.waitpid = late
child = process.Child(["sh", "-c", "read line; exit 3"])
os.kill(os.getpid(), signal.SIGCONT)
print(child.wait())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_command_that_ends_as_record_looks_for_a_stop_is_noticed():
    """Between the question whether it has ended and the one whether it has stopped, the command ends."""
    done = subprocess.run([sys.executable, "-c", ENDS_AS_WE_LOOK], capture_output=True, timeout=PATIENCE_S, check=True)
    assert (done.stdout, done.stderr) == (b"3\n", b"")

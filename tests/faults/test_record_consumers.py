"""Consumers: a slow one holds the command back, one that goes away cuts it off, both as in a plain pipe."""

import contextlib
import os
import signal
import subprocess
import threading

import pytest
from record_helpers import PATIENCE_S, RECORD, agent, read_until, recording, start, unstamped, until

LINE = b'{"type":"message_update","x":"' + b"y" * 200 + b'"}\n'
# Says on standard error how much it got rid of; node's and Python's writes fail with EPIPE, since they ignore SIGPIPE.
FLOOD = f"""
line, sent = {LINE!r}, 0
try:
    for _ in range(int(sys.argv[1])):
        out(line * 64)
        sent += 64
        os.write(2, b"%d\\n" % sent)
except BrokenPipeError:
    os.write(2, b"EPIPE\\n")
    sys.exit(32)
"""
FORMS = ["command", "pipe", "pipe-o"]


def flood(form, folder, blocks, stdout, stderr):
    """The flood behind record in one of its forms: (processes that end, the last of them record)."""
    if form == "command":
        return [start("-o", str(folder), "--", *agent(FLOOD), str(blocks), stdout=stdout, stderr=stderr)]
    source = subprocess.Popen([*agent(FLOOD), str(blocks)], stdout=subprocess.PIPE, stderr=stderr)
    options = ["-o", str(folder)] if form == "pipe-o" else []
    recorder = start(*options, stdin=source.stdout, stdout=stdout)
    source.stdout.close()
    return [source, recorder]


@pytest.mark.parametrize("form", FORMS)
def test_a_consumer_that_goes_away_cuts_the_command_off(tmp_path, form):
    """The command's next write fails with EPIPE, and the statuses are those of a plain pipe."""
    errors, err = os.pipe()
    processes = flood(form, tmp_path, 10**6, subprocess.PIPE, err)
    os.close(err)
    assert processes[-1].stdout.read(100)
    processes[-1].stdout.close()
    read_until(errors, rb"EPIPE\n\Z")
    os.close(errors)
    assert [p.wait(PATIENCE_S) for p in processes] == ([32] if form == "command" else [32, -signal.SIGPIPE])
    if form != "pipe":
        kept = recording(tmp_path)
        assert unstamped(kept[: kept.rfind(b"\n") + 1]).replace(LINE, b"") == b""


def test_a_consumer_that_is_gone_is_noticed_before_the_next_write(tmp_path):
    """As in a plain pipe the first write after the consumer closed fails, not a later one."""
    waits = "out(b'{}\\n')\nsys.stdin.readline()\ntry: out(b'{\"late\":1}\\n')\nexcept BrokenPipeError: sys.exit(32)"
    argv = ["-o", str(tmp_path), "--", *agent(waits)]
    with start(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"{}\n"
        process.stdout.close()
        reader = f"/proc/{process.pid}/fd"
        until(lambda: not pipe_readers(reader), "record closing its end of the command's pipe")
        process.stdin.write(b"\n")
        assert process.wait(PATIENCE_S) == 32
    assert unstamped(recording(tmp_path)) == b"{}\n"


def pipe_readers(folder: str) -> list[str]:
    """Pipes that a process can read from, standard input and its wake-up pipe apart."""
    found = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError), open(f"{folder}info/{name}") as info:  # it may be closed meanwhile
            flags = int(info.read().split("flags:")[1].split()[0], 8)
            if int(name) > 2 and flags & 3 == os.O_RDONLY and os.readlink(f"{folder}/{name}").startswith("pipe:"):
                found.append(name)
    return found[1:]


@pytest.mark.parametrize("form", FORMS)
def test_a_slow_consumer_holds_the_command_back_and_loses_nothing(tmp_path, form):
    """While nobody reads, the command blocks after a bounded amount; read on, every byte comes."""
    errors, err = os.pipe()
    blocks = 1000  # 15 MB
    processes = flood(form, tmp_path, blocks, subprocess.PIPE, err)
    os.close(err)
    told = [b"0"]
    quiet = [0]

    def listen():
        while piece := os.read(errors, 1 << 16):
            told[0] = piece.split()[-1]
            quiet[0] = 0

    def blocked():
        quiet[0] += 1
        return quiet[0] > 60 and told[0] != b"0"

    listener = threading.Thread(target=listen)
    listener.start()
    until(blocked, "the command blocking")
    assert int(told[0]) * len(LINE) < 4 << 20
    data = processes[-1].stdout.read()
    while piece := processes[-1].stdout.read():
        data += piece
    listener.join(PATIENCE_S)
    processes[-1].stdout.close()
    os.close(errors)
    assert [p.wait(PATIENCE_S) for p in processes] == [0] * len(processes)
    whole = LINE * 64 * blocks
    assert (unstamped(data) if form == "pipe" else data) == whole
    if form != "pipe":
        assert unstamped(recording(tmp_path)) == whole


def test_the_command_ends_although_its_consumer_is_stuck(tmp_path):
    """A TERM while nobody reads ends the command and record, as it would end the command alone."""
    errors, err = os.pipe()
    (process,) = flood("command", tmp_path, 10**6, subprocess.PIPE, err)
    os.close(err)
    read_until(errors, rb"\n(.*\n){60}")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143
    process.stdout.close()
    os.close(errors)


@pytest.mark.parametrize("form", FORMS)
def test_a_killed_recorder_leaves_a_plain_broken_pipe(tmp_path, form):
    """kill -9 of record: the command gets EPIPE, nothing hangs, the recording is whole lines up to then."""
    errors, err = os.pipe()
    processes = flood(form, tmp_path, 10**6, subprocess.PIPE, err)
    os.close(err)
    for _ in range(50):
        assert processes[-1].stdout.read(len(LINE) * 64)
    processes[-1].kill()
    read_until(errors, rb"EPIPE\n\Z")
    os.close(errors)
    assert processes[-1].wait(PATIENCE_S) == -signal.SIGKILL
    processes[-1].stdout.close()
    assert processes[0].wait(PATIENCE_S) == (-signal.SIGKILL if form == "command" else 32)
    if form != "pipe":
        kept = recording(tmp_path)
        whole = kept[: kept.rfind(b"\n") + 1]
        assert unstamped(whole).replace(LINE, b"") == b""


def test_a_terminated_recorder_keeps_what_it_read(tmp_path):
    """TERM to the recorder in a pipe: what it has read is in the recording, and it ends by that signal."""
    with start("-o", str(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(LINE)
        assert process.stdout.readline() == LINE
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    assert unstamped(recording(tmp_path)) == LINE


def test_standard_input_that_cannot_be_read_is_wrong_use():
    """A descriptor that is not open for reading is one sentence and exit status 2."""
    with open(os.devnull, "wb") as closed:
        done = subprocess.run(RECORD, stdin=closed, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert b"cannot be read" in done.stderr

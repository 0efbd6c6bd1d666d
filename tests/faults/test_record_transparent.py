"""Under `record` a command runs as it runs alone."""

import json
import os
import re
import signal
import stat
import subprocess
import sys

import pytest
from record_helpers import PATIENCE_S, RECORD, agent, recording, run, start, unstamped

RECORDS = b'{"type":"session"}\n{}\nstray text\n{"a":1}\r\n\xff\xfe\x00\n{"b":{"c":1}}\n{"torn":{}'


def test_output_passes_and_the_copy_is_stamped(tmp_path):
    """Standard output is untouched to the byte; the recording is the same bytes plus stamps."""
    done = run("-o", str(tmp_path), "--", *agent(f"out({RECORDS!r})"))
    assert (done.returncode, done.stdout, done.stderr) == (0, RECORDS, b"")
    kept = recording(tmp_path)
    assert unstamped(kept) == RECORDS
    assert kept.count(b"receivedAt") == 4


def test_a_pipe_is_stamped_to_standard_output(tmp_path):
    """Without -o the pipe form stamps what it passes on, to a reader and into a file alike."""
    done = run(input=RECORDS)
    assert (done.returncode, done.stderr) == (0, b"")
    assert unstamped(done.stdout) == RECORDS
    path = tmp_path / "run.jsonl"
    with path.open("wb") as out:
        assert subprocess.run(RECORD, input=RECORDS, stdout=out, timeout=PATIENCE_S, check=False).returncode == 0
    assert unstamped(path.read_bytes()) == RECORDS


def test_a_pipe_with_a_folder_passes_untouched(tmp_path):
    """With -o the pipe form leaves the stream alone and stamps the copy."""
    done = run("-o", str(tmp_path), input=RECORDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, RECORDS, b"")
    assert unstamped(recording(tmp_path)) == RECORDS


def test_recordings_are_private_and_named_by_time(tmp_path):
    """The folder is made with 0700, the file with 0600, whatever the umask; names sort by time."""
    folder = tmp_path / "a" / "recordings"
    env = os.environ | {"PIMETRICS_RECORDINGS": str(folder)}
    assert run("--", *agent("out(b'{}\\n')"), env=env, umask=0).returncode == 0
    (path,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.fullmatch(r"\d{8}T\d{6}\.\d{3}Z_[0-9a-f]{8}\.jsonl", path.name)


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("os._exit(255)", 255),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143),
        ("os.close(1); sys.exit(3)", 3),
    ],
)
def test_the_exit_status_is_that_of_the_command(tmp_path, ending, status):
    """Any exit status is passed on; death by signal n is 128+n."""
    done = run("-o", str(tmp_path), "--", *agent(f"out(b'{{}}\\n')\n{ending}"))
    assert (done.returncode, done.stdout) == (status, b"{}\n")


def test_a_command_that_cannot_start_says_so(tmp_path):
    """127 for a program that is not there, 126 for one that cannot be run, as shells do; one sentence."""
    missing = run("-o", str(tmp_path), "--", "no-such-program-\x1b[31m")
    assert missing.returncode == 127
    assert missing.stderr.count(b"\n") == 1
    assert b"\x1b" not in missing.stderr
    assert run("-o", str(tmp_path), "--", str(tmp_path)).returncode == 126
    nameless = run("-o", str(tmp_path), "--", "")
    assert (nameless.returncode, nameless.stderr.count(b"\n")) == (127, 1)
    assert not list(tmp_path.iterdir())


def test_a_closed_standard_output_is_not_the_recording(tmp_path):
    """The first file opened would get its number, and with it, beside the stamped lines, all that pi printed."""
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "pimetrics", "record"]

    def behind(*args):
        return subprocess.run(
            [*closed, *args], input=b'{"a":1}\n', capture_output=True, timeout=PATIENCE_S, check=False
        )

    behind("-o", str(tmp_path / "pipe"))
    assert unstamped(recording(tmp_path / "pipe")) == b'{"a":1}\n'
    ran = behind("-o", str(tmp_path / "command"), "--", *agent("out(b'{}\\n')\nsys.exit(3)"))
    assert (ran.returncode, unstamped(recording(tmp_path / "command"))) == (3, b"{}\n")
    alone = behind()
    assert (alone.returncode, alone.stderr.count(b"\n")) == (1, 1)


@pytest.mark.parametrize("args", [["--keep", "soon"], ["--max-bytes", "-5"], ["--max-bytes", "5XB"], ["--keep", "0d"]])
def test_wrong_use_is_exit_2_before_anything_runs(tmp_path, args):
    """A wrong option starts nothing."""
    done = run(*args, "--", "touch", str(tmp_path / "started"))
    assert done.returncode == 2
    assert args[0].encode() in done.stderr
    assert not list(tmp_path.iterdir())


LOOK = """
import json
status = {k: v.split() for k, v in (line.split(":", 1) for line in open("/proc/self/status"))}
out(json.dumps({
    "argv": sys.argv[1:], "cwd": os.getcwd(), "env": sorted(map(repr, os.environb.items())),
    "group_is_parents": os.getpgrp() == os.getpgid(os.getppid()), "nice": os.nice(0),
    "umask": status["Umask"], "blocked": status["SigBlk"], "ignored": status["SigIgn"],
    "fds": sorted(map(int, os.listdir("/proc/self/fd"))), "stdin": os.readlink("/proc/self/fd/0"),
    "stderr": os.readlink("/proc/self/fd/2"),
}).encode() + b"\\n")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("ignored", [[], [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]])
def test_the_command_inherits_what_it_would_alone(tmp_path, ignored):
    """Arguments, folder, environment, descriptors, signal dispositions and mask, standard input and error."""
    command = [*agent(LOOK), "--", "-x", "", "--help", "\udcff"]
    env = {b"PATH": os.environb[b"PATH"], b"ODD": b"\xff\n"}
    extra = os.open(os.devnull, os.O_RDONLY)

    def look(argv):
        # The launcher stands for the shell: it sets the dispositions that a job of it inherits.
        launcher = (
            "import os,signal,sys\n"
            f"for n in {[int(n) for n in ignored]}: signal.signal(n, signal.SIG_IGN)\n"
            "signal.signal(signal.SIGPIPE, signal.SIG_DFL); signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
            "os.execvp(sys.argv[1], sys.argv[1:])"
        )
        done = subprocess.run(
            [sys.executable, "-c", launcher, *argv],
            env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=[extra],
            timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    try:
        alone, recorded = look(command), look([*RECORD, "-o", str(tmp_path / "r"), "--", *command])
    finally:
        os.close(extra)
    for seen in (alone, recorded):
        seen["stderr"] = seen["stderr"].split(":")[0]
        # 32 and 33 belong to the C library, whose posix_spawn sets them; its threads set them again as they need.
        seen["ignored"] = int(seen["ignored"][0], 16) & ~(3 << 31)
    assert recorded == alone


def test_standard_input_belongs_to_the_command(tmp_path):
    """What is piped in reaches the command, to the end, while it runs."""
    echo = agent("for line in sys.stdin.buffer: out(line)")
    with start("-o", str(tmp_path), "--", *echo, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for n in range(3):
            process.stdin.write(b'{"n":%d}\n' % n)
            assert process.stdout.readline() == b'{"n":%d}\n' % n
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_what_the_command_leaves_running_holds_nobody_up(tmp_path):
    """Record ends with the command; a background process of it prints on to the same place, unrecorded."""
    release, theirs = os.pipe()
    left = """
out(b'{"a":1}\\n')
if os.fork() == 0:
    os.read(int(sys.argv[1]), 1)
    out(b"late\\n")
    os._exit(0)
sys.exit(5)
"""
    with start(
        "-o", str(tmp_path), "--", *agent(left), str(release), stdout=subprocess.PIPE, pass_fds=[release]
    ) as process:
        os.close(release)
        assert process.wait(PATIENCE_S) == 5
        os.write(theirs, b"x")
        os.close(theirs)
        assert process.stdout.read() == b'{"a":1}\nlate\n'
    assert unstamped(recording(tmp_path)) == b'{"a":1}\n'


def test_record_starts_without_the_heavy_parts():
    """Importing the command and what it needs at run time pulls in no table, parser or web library."""
    code = (
        "import sys, pimetrics.commands.record, pimetrics.sinks.recording, pimetrics.sinks.retention\n"
        "import pimetrics.sources.process\n"
        "print([m for m in ('polars','ijson','starlette','uvicorn','prometheus_client','rich','zstandard','asyncio')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.strip() == "[]"

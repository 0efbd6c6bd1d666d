"""Starting `record` as a user's shell would, with made-up agents behind it."""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

RECORD = [sys.executable, "-c", "from pimetrics.commands.record import command; command(prog_name='record')"]
PATIENCE_S = 30

UNSTAMP = re.compile(rb',?"receivedAt":\d+\}(\r?\n)')


def unstamped(data: bytes) -> bytes:
    """The bytes before stamping, for lines that had no stamp of their own."""
    return UNSTAMP.sub(rb"}\1", data)


def agent(source: str) -> list[str]:
    """A command that runs Python source with what most of them need imported."""
    head = "import os,sys,signal,time\ndef out(b):\n while b: b=b[os.write(1,b):]\n"
    return [sys.executable, "-c", head + source]


def run(*args: str, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run([*RECORD, *args], capture_output=True, timeout=PATIENCE_S, check=False, **kwargs)


def start(*args: str, **kwargs) -> subprocess.Popen:
    return subprocess.Popen([*RECORD, *args], stdin=kwargs.pop("stdin", subprocess.DEVNULL), bufsize=0, **kwargs)


def recording(folder: Path) -> bytes:
    (path,) = folder.glob("*.jsonl")
    return path.read_bytes()


def until(condition, what: str) -> None:
    """Poll for an event of another process that offers nothing to wait on."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never came: {what}"
        select.select([], [], [], 0.005)


def read_until(fd: int, pattern: bytes) -> bytes:
    """Read a descriptor until the pattern (a regular expression) has come; give back all that was read."""
    seen = b""
    end = time.monotonic() + PATIENCE_S
    while not re.search(pattern, seen):
        assert select.select([fd], [], [], max(0, end - time.monotonic()))[0], f"no {pattern!r} in {seen!r}"
        piece = os.read(fd, 65536)
        assert piece, f"end before {pattern!r} in {seen!r}"
        seen += piece
    return seen

"""One measurement, in a process of its own: seconds, CPU seconds, peak memory, and what was added up.

    python -m tests.bench.measure PEER FILE WARM     # the child of a library peer: JSON on stdout

A library peer reads WARM (a small file) first, so its imports and first-use costs stay outside the clock. Programs are
measured from start to exit. Peak memory is the kernel's figure for the child (`ru_maxrss`); because a child starts as a
copy of this process, it is never below this process's own size, which is why this module imports nothing large.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.peers import IN_PROCESS, JQ, PRINTED, Sums

LIMIT_S: Final = 900
"""After this a measurement is ended and shown as failed."""

_KIB: Final = 1024


class Input(NamedTuple):
    """A file to read, and what must be found in it.

    Attributes:
        name: As in the tables.
        path: The file; it stands alone in its folder, since ccusage takes folders.
        warm: A small file of the same kind.
        bytes: Size.
        records: Lines.
        sums: The exact totals.
    """

    name: str
    path: Path
    warm: Path
    bytes: int
    records: int
    sums: Sums


class Measurement(NamedTuple):
    """What one run of one peer took; `error` is empty when it ran and added up right."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    error: str
    sums: Sums | None


def generate(path: Path, dialect: str, *options: str) -> Input:
    """Write an input with the generator; in a process of its own, so that this one stays small."""
    argv = [sys.executable, "-m", "tests.bench.generate", "--dialect", dialect, "--output", str(path), *options]
    totals = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)
    usage = totals["usage"]
    sums = Sums(usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"], usage["cost_nano"] / 10**9)
    return Input(dialect, path, path, totals["bytes"], totals["records"], sums)


def command(peer: str, source: Input, programs: dict[str, str]) -> list[str]:
    """The command line of a peer; `programs` holds the paths of those that are installed."""
    if peer in IN_PROCESS:
        return [sys.executable, "-m", "tests.bench.measure", peer, str(source.path), str(source.warm)]
    if peer == "pimetrics report":
        return [sys.executable, "-m", "pimetrics", "report", "--json", str(source.path)]
    if peer == "jq":
        return [programs["jq"], "-nc", JQ, str(source.path)]
    folder = str(source.path.parent.parent)
    return [programs["ccusage"], "pi", "daily", "--json", "--offline", "--pi-path", folder]


def find_programs(ccusage: str | None) -> dict[str, str]:
    """The programs among the peers that this machine has."""
    found = {"jq": shutil.which("jq"), "ccusage": ccusage or shutil.which("ccusage")}
    return {name: path for name, path in found.items() if path}


def measure(peer: str, source: Input, programs: dict[str, str], *, one_core: bool = False) -> Measurement:
    """Run one peer once."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if one_core and before:
        os.sched_setaffinity(0, {min(before)})  # children inherit it
    try:
        return _measure(peer, source, command(peer, source, programs))
    finally:
        if one_core and before:
            os.sched_setaffinity(0, before)


def _measure(peer: str, source: Input, argv: list[str]) -> Measurement:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        timer = threading.Timer(LIMIT_S, child.kill)
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        printed = out.read().decode()
        complaint = err.read().decode(errors="replace").strip()
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else _KIB)
    cpu = used.ru_utime + used.ru_stime
    if child.returncode:
        last = complaint.splitlines()[-1] if complaint else ""
        return Measurement(seconds, cpu, peak, f"failed ({child.returncode}): {last[:160]}", None)
    if peer in IN_PROCESS:
        answer: dict[str, Any] = json.loads(printed)
        seconds, cpu, sums = answer["seconds"], answer["cpu_seconds"], Sums(*answer["sums"])
    else:
        sums = PRINTED[peer](printed)
    return Measurement(seconds, cpu, peak, difference(sums, source.sums), sums)


def difference(found: Sums, expected: Sums) -> str:
    """What is wrong with the sums, else nothing. Tokens must agree exactly, costs to the noise of adding doubles."""
    wrong = [
        f"{name} {have:,} instead of {want:,}"
        for name, have, want in zip(Sums._fields[:4], found[:4], expected[:4], strict=True)
        if have != want
    ]
    if abs(found.cost - expected.cost) > 1e-9 * expected.cost:
        wrong.append(f"cost {found.cost:.6f} instead of {expected.cost:.6f}")
    return "wrong: " + ", ".join(wrong) if wrong else ""


def _child(peer: str, path: Path, warm: Path) -> None:
    read = IN_PROCESS[peer]
    read(warm)
    started, cpu = time.perf_counter(), time.process_time()
    sums = read(path)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    json.dump({"seconds": seconds, "cpu_seconds": cpu, "sums": sums}, sys.stdout)


if __name__ == "__main__":
    _child(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))

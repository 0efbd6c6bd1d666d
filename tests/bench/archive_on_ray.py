"""An archive exported by one process, then on Ray: python -m tests.bench.archive_on_ray 5GB [FOLDER].

Five exports of the same files: one process; a cluster of one node, of two, and of two of which one is taken away
half-way and stays away; last, what is there is exported once more. Every folder must be the first one, byte for byte,
and hold what was generated, to the last token. Prints wall and processor time of each; exits 1 when something differs.

The archive is generated into FOLDER (by default a temporary one) and deleted at the end. A node is a raylet with one
CPU on this machine, so two of them need two cores; the process that asks has them beside its own work: hashing the
files, and writing what comes back.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from filecmp import cmp
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
import psutil

from pimetrics.exporting import export
from pimetrics.scanning import BATCH_BYTES, Scan
from tests.bench.archive import Archive, write_archive
from tests.bench.generate import parse_size

if TYPE_CHECKING:
    from pimetrics.workers import Engine

RUNS: Final = ("one process", "one node", "two nodes", "a node taken away", "again")


class Took(NamedTuple):
    """What an export cost, seconds, over all its processes."""

    wall_s: float
    cpu_s: float


def run(kind: str, archive: Path, to: Path, size: int) -> Took:
    """Export in one of the ways of RUNS; a cluster is started before the clock."""
    with ExitStack() as stack:
        engine: Engine | None = None
        if kind not in {"one process", "again"}:
            from tests.live.ray_cluster import Watched, nodes  # Ray costs seconds to import, and the others need none

            running = stack.enter_context(nodes(1 if kind == "one node" else 2))
            half = max(1, size // BATCH_BYTES // 2)
            engine = Watched({half: running.take_away} if kind == "a node taken away" else {})
        before, started = _cpu_s(), time.perf_counter()
        export(Scan([archive], engine=engine, processes=1), to)
        return Took(time.perf_counter() - started, _cpu_s() - before)


def _cpu_s() -> float:
    """Processor time of this process and of all below it, those that have ended included."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def differences(one: Path, other: Path) -> list[str]:
    """Files of two exports that are not the same, byte for byte."""
    ours, theirs = ({path.relative_to(each) for path in each.rglob("*.parquet")} for each in (one, other))
    return sorted(str(name) for name in ours ^ theirs) + sorted(
        str(name) for name in ours & theirs if not cmp(one / name, other / name, shallow=False)
    )


def wrong(exported: Path, made: Archive) -> list[str]:
    """What an export holds other than was generated."""
    usage = pl.scan_parquet(exported / "usage" / "**/*.parquet")
    tokens = [f"{kind}_tokens" for kind in ("input", "output", "cache_read", "cache_write", "reasoning")]
    sums = usage.select(pl.col(tokens).sum(), (pl.col("cost_usd") * 1e9).round().cast(pl.Int64).sum()).collect()
    want, found = made.totals.usage, sums.row(0)
    expected = {
        **dict(zip(tokens, (want["input"], want["output"], want["cacheRead"], want["cacheWrite"], want["reasoning"]), strict=True)),
        "cost_nano": want["cost_nano"],
        "sessions": made.totals.sessions,
        "requests": made.totals.requests,
        "tool_calls": sum(counts["calls"] for counts in made.totals.tools.values()),
    }  # fmt: skip
    messages = pl.scan_parquet(exported / "messages" / "**/*.parquet")
    counted = {
        **dict(zip([*tokens, "cost_nano"], found, strict=True)),
        "sessions": _rows(pl.scan_parquet(exported / "sessions" / "**/*.parquet")),
        "requests": _rows(messages.filter(pl.col("role") == "assistant")),
        "tool_calls": _rows(pl.scan_parquet(exported / "tool_calls" / "**/*.parquet")),
    }
    return [f"{name}: {counted[name]} instead of {value}" for name, value in expected.items() if counted[name] != value]


def _rows(table: pl.LazyFrame) -> int:
    count: int = table.select(pl.len()).collect().item()
    return count


def _child(kind: str, archive: Path, to: Path, size: int) -> Took:
    """Run in a process of its own: none has the caches of another, or its threads."""
    argv = [sys.executable, "-m", __spec__.name, "--run", kind, str(archive), str(to), str(size)]
    told = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    wall_s, cpu_s = told.splitlines()[-1].split()
    return Took(float(wall_s), float(cpu_s))


def main() -> None:
    """Generate, export, compare, print."""
    if sys.argv[1] == "--run":
        took = run(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
        print(took.wall_s, took.cpu_s)
        return
    faults: list[str] = []
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        archive, first = Path(name, "archive"), Path(name, RUNS[0])
        made = write_archive(archive, parse_size(sys.argv[1]))
        print(
            f"{made.bytes:,} bytes, {made.files:,} session files, {made.forks:,} forks; {os.cpu_count()} cores",
            flush=True,
        )
        for kind in RUNS:
            to = first if kind == "again" else Path(name, kind)
            took = _child(kind, archive, to, made.bytes)
            found = differences(first, to) + wrong(to, made)
            rate = made.bytes / 1e6 / took.wall_s
            print(
                f"{kind}: {took.wall_s:.1f} s, {rate:.0f} MB/s, {took.cpu_s:.1f} s of processor time, "
                f"{'equal' if not found else 'DIFFERS: ' + ', '.join(found[:5])}",
                flush=True,
            )
            faults += found
        rows = _rows(pl.scan_parquet(first / "usage" / "**/*.parquet"))
        size = sum(path.stat().st_size for path in first.rglob("*.parquet"))
        print(f"the export: {size:,} bytes in all tables, {rows:,} rows of usage")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

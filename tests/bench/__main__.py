"""The benchmark: pimetrics against its peers, on the same files, in turn.

    python -m tests.bench                     # 100 MB of each kind, 5 rounds
    python -m tests.bench --quick             # 10 MB, 2 rounds
    python -m tests.bench --growth            # 10 MB to 2 GB, 10 to 10,000 files, with plots

Writes `table.md` and `results.json` (growth: `growth.json` and PNG plots) into --output. In a round each peer runs once,
in a process of its own; rounds follow each other, so a slow minute of the machine meets all peers.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.bench import growth
from tests.bench.generate import parse_size
from tests.bench.measure import Input, Measurement, find_programs, generate, measure
from tests.bench.peers import IN_PROCESS
from tests.bench.table import REPORT, Row, as_text, ratios, summary

INPUTS: Final = ("delta", "cumulative", "session", "session-long", "delta-long", "cumulative-long")
_WARM_BYTES: Final = 20_000


def main() -> None:
    """Measure, print the tables, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="pimetrics against its peers")
    parser.add_argument("--quick", action="store_true", help="10 MB and 2 rounds (growth: the small sizes)")
    parser.add_argument("--growth", action="store_true", help="how time and memory grow, instead of the peers")
    parser.add_argument(
        "--size", type=parse_size, help="of each input, 100MB unless told; of the largest with --growth"
    )
    parser.add_argument("--rounds", type=int, help="runs of each peer, 5 unless told")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--peers", nargs="+", help="only these, named as in the table")
    parser.add_argument("--halves", action="store_true", help="with half emojis, which most peers refuse")
    parser.add_argument("--ccusage", help="the native binary of ccusage (npm package @ccusage/ccusage-<system>)")
    parser.add_argument("--output", type=Path, default=Path("bench-results"))
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    if asked.growth:
        largest = asked.size or (100_000_000 if asked.quick else max(growth.SIZES))
        most_files = 100 if asked.quick else max(growth.FILES)
        growth.run(asked.output, machine(), seed=asked.seed, largest=largest, most_files=most_files)
        return
    size = asked.size or (10_000_000 if asked.quick else 100_000_000)
    rounds = asked.rounds or (2 if asked.quick else 5)
    programs = find_programs(asked.ccusage)
    with tempfile.TemporaryDirectory(prefix="pimetrics-bench-") as folder:
        sources = [
            make_input(Path(folder), name, size, seed=asked.seed, clean=not asked.halves) for name in asked.inputs
        ]
        runs = measure_all(sources, programs, rounds, asked.peers)
    rows, compared = summary(sources, runs), ratios(sources, runs)
    told = {
        "machine": machine(),
        "size": size,
        "seed": asked.seed,
        "rounds": rounds,
        "halves": asked.halves,
        "rows": rows,
        "ratios": compared,
    }
    (asked.output / "results.json").write_text(json.dumps(told, indent=1) + "\n")
    about = (
        f"{size / 1e6:g} MB an input, seed {asked.seed}, {rounds} rounds, {told['machine']['date']}, "
        f"{told['machine']['cpu']}, {told['machine']['cores']} cores, Python {told['machine']['python']}\n\n"
    )
    text = about + as_text(sources, rows, compared)
    (asked.output / "table.md").write_text(text)
    sys.stdout.write(text)


def make_input(folder: Path, name: str, size: int, *, seed: int, clean: bool) -> Input:
    """Generate one input, alone in its folder."""
    dialect, _, long = name.partition("-")
    place = folder / name / "sessions" / "--home-dev-shop--"
    place.mkdir(parents=True)
    warm = folder / name / "warm.jsonl"
    flags = ["--clean"] if clean else []
    generate(warm, dialect, "--size", str(_WARM_BYTES), "--seed", str(seed + 1), *flags)
    flags += ["--long"] if long else []
    return generate(place / "input.jsonl", dialect, "--size", str(size), "--seed", str(seed), *flags)._replace(
        name=name, warm=warm
    )


def measure_all(
    sources: list[Input], programs: dict[str, str], rounds: int, only: list[str] | None
) -> dict[Row, list[Measurement]]:
    """Every peer on every input, in rounds. A peer that failed once is not run again."""
    runs: dict[Row, list[Measurement]] = {}
    for source in sources:
        plan = [row for row in plan_for(source, programs) if not only or row[1] in only]
        for number in range(rounds):
            # The order turns, so that no peer always runs after the same neighbour.
            for row in plan[number % len(plan) :] + plan[: number % len(plan)]:
                done = runs.setdefault(row, [])
                if done and done[0].error.startswith("failed"):
                    continue
                done.append(measure(row[1], source, programs, one_core=row[2]))
                rate = source.bytes / 1e6 / done[-1].seconds
                sys.stderr.write(f"{source.name} {number + 1}/{rounds} {row[1]}: {rate:.0f} MB/s {done[-1].error}\n")
    return runs


def plan_for(source: Input, programs: dict[str, str]) -> list[Row]:
    """The peers that can read an input on this machine."""
    missing = [peer for peer in ("orjson", "msgspec", "duckdb") if find_spec(peer) is None]
    plan: list[Row] = [(source.name, REPORT, False)]
    plan += [(source.name, peer, False) for peer in IN_PROCESS if peer not in missing]
    if "jq" in programs:
        plan.append((source.name, "jq", False))
    if "ccusage" in programs and source.name.startswith("session"):
        plan += [(source.name, "ccusage", False), (source.name, "ccusage", True), (source.name, REPORT, True)]
    missing += [name for name in ("jq", "ccusage") if name not in programs]
    if missing:
        sys.stderr.write(f"not installed, so not measured: {', '.join(missing)}\n")
    return plan


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line[:10] == "model name"]
        cpu = names[0] if names else cpu
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()

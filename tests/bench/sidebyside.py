"""Side by side on one archive in one run: pimetrics, ccusage, `@ccusage/pi`, and pi itself as the oracle.

    python -m tests.bench.sidebyside

Installs pi, its Node and the peers from npm into the cache of `tests/live` where they are missing; needs no other
network. Prints Markdown: how many sessions each tool counts as pi does, and the archive as a whole.

The archive is laid out as pi lays it out: the crafted sessions of `tests/live` (every kind of spend, forks, abandoned
branches, old formats) and the session files of the recordings.

The oracle of a session is pi's `get_session_stats`. The oracle of the archive cannot be their sum: a fork begins with a
verbatim copy of its parent's entries, and pi counts them in both. Each call was paid once, so the sum is taken over
distinct entries, and pi does that counting as well: of every session that repeats entries of an older one, a file with
the repeated entries alone is given to pi, and what pi says of it is taken off the sum. Which entries are repeated is
decided here by comparing whole entries without their ids, not by pimetrics.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pimetrics import __version__
from tests.live import crafted
from tests.live.parts import NODE_VERSION, PI_VERSION, cache_folder, npm_install, pi_program
from tests.live.pi import Home, Rpc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PEERS = {"ccusage": "20.0.24", "@ccusage/pi": "18.0.11"}
"""npm packages; later versions of ccusage come without a Linux binary."""

STREAMS = Path(__file__).parents[1] / "fixtures" / "streams"
USD = 1e-9
DAY_MS = 86_400_000


class Spend(NamedTuple):
    """What a tool counts: tokens, and USD."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0

    def plus(self, other: Spend, sign: int = 1) -> Spend:
        """Return the sum of both, or the difference."""
        return Spend(*(a + sign * b for a, b in zip(self, other, strict=True)))

    def agrees(self, other: Spend) -> bool:
        """Whether tokens are equal and costs too, but for the noise of adding doubles."""
        return self[:4] == other[:4] and abs(self.cost_usd - other.cost_usd) <= USD


Tool = Callable[[Path], Spend]
"""Counts what lies under a folder of sessions."""


@dataclass(frozen=True)
class File:
    """A session file of the archive."""

    path: Path
    header: dict[str, Any]
    entries: list[dict[str, Any]]


def name_of(header: dict[str, Any]) -> str:
    """Return the file name that pi gives a session."""
    return f"{header['timestamp'].replace(':', '-').replace('.', '-')}_{header['id']}.jsonl"


def lay_out(sessions: Path, cwd: Path) -> None:
    """Fill a folder of sessions as pi would have."""
    folder = sessions / f"--{str(cwd).strip('/').replace('/', '-')}--"
    folder.mkdir(parents=True)
    alone = [[session.entries] for session in crafted.sessions(cwd).values()]
    with tempfile.TemporaryDirectory() as aside:
        together, _ = crafted.family(cwd, Path(aside))
    families = [*alone, [session.entries for session in together.values()]]
    for number, family in enumerate(families):
        # apart in time: crafted sessions of the same moment and the same usage would be one call twice
        named: str | None = None
        for entries in family:
            header, *rest = (later(entry, number * DAY_MS) for entry in entries)
            header["id"] = f"{header['id']}-{number}"
            if named is not None:
                header["parentSession"] = named
            named = str(write(folder, header, (compact(entry) for entry in rest)))
    for path in sorted(STREAMS.glob("*/*.session*.jsonl"), key=lambda path: (path.stat().st_size, path)):
        first, *lines = lines_of(path)
        header = json.loads(first) | {"cwd": str(cwd)}  # pi opens no session whose folder is gone
        if "parentSession" in header:
            header["parentSession"] = str(folder / Path(header["parentSession"]).name)
        # the smaller of two states of one session was written first, and the later one takes its place as on a disk
        write(folder, header, lines)


def later(entry: dict[str, Any], by_ms: int) -> dict[str, Any]:
    """Return an entry with its times moved."""
    at = datetime.fromisoformat(entry["timestamp"]) + timedelta(milliseconds=by_ms)
    moved = entry | {"timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    if "timestamp" in entry.get("message", {}):
        moved["message"] = entry["message"] | {"timestamp": entry["message"]["timestamp"] + by_ms}
    return moved


def write(folder: Path, header: dict[str, Any], lines: Iterable[str]) -> Path:
    """Write a session file under the name that pi gives it."""
    path = folder / name_of(header)
    path.write_text("".join(f"{line}\n" for line in (compact(header), *lines)), encoding="utf-8")
    return path


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file; only LF ends one, U+2028 does not."""
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def compact(value: dict[str, Any]) -> str:
    """Return JSON as pi writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def files_of(sessions: Path) -> list[File]:
    """Read the archive, oldest session first."""
    found = []
    for path in sorted(sessions.rglob("*.jsonl"), key=lambda path: path.name):
        header, *entries = map(json.loads, lines_of(path))
        found.append(File(path, header, entries))
    return sorted(found, key=lambda file: file.header["timestamp"])


def repeats(files: Sequence[File]) -> Iterator[tuple[File, list[dict[str, Any]]]]:
    """Yield each file that repeats spend of an older one, with the entries it repeats.

    Two entries are the same when all but their ids is equal, their times in ms included: what pi copies. The n-th of
    equal entries in a file is repeated when an older file holds n of them.
    """
    known: Counter[str] = Counter()
    for file in files:
        here: Counter[str] = Counter()
        again = []
        for entry in file.entries:
            content = json.dumps({k: v for k, v in entry.items() if k not in {"id", "parentId"}}, sort_keys=True)
            here[content] += 1
            if here[content] <= known[content]:
                again.append(entry)
        known |= here
        if any('"usage":' in compact(entry) for entry in again):
            if again != file.entries[: len(again)]:
                raise SystemExit(f"{file.path.name} repeats entries that are not its beginning; pi copies beginnings")
            yield file, again


def ask_pi(home: Home, paths: Sequence[Path]) -> list[Spend]:
    """Return pi's own `get_session_stats` of session files; pi may rewrite old formats in place."""
    answers = []
    with Rpc(home, home.argv("rpc", "--session", str(paths[0]))) as rpc:
        for path in paths:
            rpc.call("switch_session", sessionPath=str(path))
            stats = rpc.call("get_session_stats")
            if Path(stats["sessionFile"]) != path:
                raise SystemExit(f"pi answered for {stats['sessionFile']} instead of {path}")
            tokens = (stats["tokens"][wire] for wire in crafted.WIRE_NAMES.values())
            answers.append(Spend(*tokens, stats["cost"]))
    return answers


def pimetrics(sessions: Path) -> Spend:
    """Run `pimetrics report --json`."""
    usage = run([sys.executable, "-m", "pimetrics", "report", "--json", str(sessions)])["usage"]
    return Spend(*(usage["tokens"][name] for name in crafted.WIRE_NAMES), usage["cost_usd"])


def peers(node: Path, home: Path) -> dict[str, Tool]:
    """Install the peers; return them by name."""
    folder = cache_folder() / "-".join(("peers", *PEERS.values()))
    if not folder.is_dir():
        npm_install(folder, PEERS)
    modules = folder / "node_modules"
    binary = next(modules.glob("@ccusage/ccusage-*/bin/ccusage"))
    binary.chmod(0o755)
    # an empty home: neither finds other agents' data or settings
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC", "LOG_LEVEL": "0"}

    def tool(*argv: str) -> Tool:
        def count(sessions: Path) -> Spend:
            told = run([part.replace("SESSIONS", str(sessions)) for part in argv], env=env)
            totals = told["totals"] if told else Counter()
            names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens", "totalCost")
            return Spend(*(totals[name] for name in names))

        return count

    script = str(modules / "@ccusage" / "pi" / "dist" / "index.js")
    return {
        f"ccusage {PEERS['ccusage']}": tool(str(binary), "pi", "daily", "--json", "--offline", "--pi-path", "SESSIONS"),
        f"@ccusage/pi {PEERS['@ccusage/pi']}": tool(str(node), script, "daily", "--json", "--piPath", "SESSIONS"),
    }


def run(argv: Sequence[str], env: dict[str, str] | None = None) -> Any:
    """Run a program to its end and return the JSON that it printed."""
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    if done.returncode:
        raise SystemExit(f"{argv[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-1000:]}")
    return json.loads(done.stdout)


def table(rows: dict[str, tuple[str, Spend]], oracle: Spend) -> str:
    """Return the archive's totals as Markdown, each with its difference to the oracle."""
    kinds = [name.replace("_", " ") for name in crafted.WIRE_NAMES]
    lines = ["| | sessions as pi says | " + " | ".join((*kinds, "cost, USD")) + " |", "|---|---|" + "---|" * 5]
    for name, (sessions, spend) in rows.items():
        cells = [
            f"{have:,}{percent(have, want)}" if type(have) is int else f"{have:.6f}{percent(have, want)}"
            for have, want in zip(spend, oracle, strict=True)
        ]
        lines.append("| " + " | ".join((name, sessions, *cells)) + " |")
    return "\n".join(lines)


def percent(have: float, want: float) -> str:
    """Return the difference in percent, empty where there is none."""
    return "" if abs(have - want) <= USD else f" ({(have - want) / want:+.1%})"


def oracles(home: Home, files: Sequence[File], sessions: Path, work: Path) -> tuple[list[Spend], Spend, str]:
    """Return what pi says of each session, what it says of all calls once, and a word on what forks repeat."""
    opened, copied = work / "opened", work / "copied"
    shutil.copytree(sessions, opened)  # pi rewrites files of old formats, and the others shall read the same bytes
    said = ask_pi(home, [opened / file.path.relative_to(sessions) for file in files])
    copied.mkdir()
    again = list(repeats(files))
    distinct = sum_of(said)
    for each in ask_pi(home, [write(copied, file.header, map(compact, entries)) for file, entries in again]):
        distinct = distinct.plus(each, -1)
    word = f"{len(again)} forks begin with {sum(len(entries) for _, entries in again)} copied entries"
    return said, distinct, word


def sum_of(spends: Iterable[Spend]) -> Spend:
    """Add up."""
    total = Spend()
    for each in spends:
        total = total.plus(each)
    return total


def agreeing(count: Tool, files: Sequence[File], said: Sequence[Spend], work: Path) -> int:
    """Return of how many sessions, each alone in its folder, a tool says what pi says."""

    def agrees(file: File, want: Spend) -> bool:
        with tempfile.TemporaryDirectory(dir=work) as alone:
            folder = Path(alone) / file.path.parent.name
            folder.mkdir()
            shutil.copy(file.path, folder)
            return count(Path(alone)).agrees(want)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(agrees, files, said))


def main() -> None:
    """Build the archive, ask everyone, print what they said."""
    os.environ.setdefault("PIMETRICS_LIVE", "1")  # parts that are missing are installed
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        program = pi_program()
        home = Home(work / "home", program, "http://127.0.0.1:9/v1")  # no model is asked for anything
        sessions = work / "agent" / "sessions"
        lay_out(sessions, home.project)
        files = files_of(sessions)
        said, distinct, word = oracles(home, files, sessions, work)
        (work / "empty").mkdir()
        tools = {f"pimetrics {__version__}": pimetrics, **peers(program.node, work / "empty")}
        rows = {f"**pi {PI_VERSION}, each call once**": ("", distinct)}
        for name, count in tools.items():
            rows[name] = (f"{agreeing(count, files, said, work)} of {len(files)}", count(sessions))
        rows["pi, sum over sessions"] = (f"{len(files)} of {len(files)}", sum_of(said))
        print(f"{datetime.now(UTC):%Y-%m-%d}, node {NODE_VERSION}:", end=" ")
        print(f"{len(files)} sessions, {sum(len(file.entries) for file in files):,} entries; {word}.\n")
        print(table(rows, distinct))


if __name__ == "__main__":
    main()

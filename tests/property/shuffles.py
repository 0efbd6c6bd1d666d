"""Families of sources that know the same calls, read in shuffled orders: always one answer.

    python -m tests.property.shuffles 10000

A family is all that a user can have of one piece of work: its event stream, the stamped recording of it, the session
file, a copy of that, a fork, a fork of the fork, and a fork whose parent is gone; some with a recording that was cut.
The answer is every row of every table, the total of every counter, and by label the counters of tokens, cost and
requests. (Where a source that comes later knows a label better, that counter stays with the label it had: see
`pimetrics_late_revisions_total`.)
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from pimetrics.ledger.memory import MemoryLedger
from pimetrics.pipeline import Pipeline
from tests.scribe import DIALECTS, START_MS, Answer, Call, Compaction, Plan, Prompt, Session, play
from tests.support import assert_agree, read, result, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support import Result

HOUR_MS = 3_600_000
TRUNK = Plan(
    prompts=(
        Prompt(
            answers=(
                Answer(tokens=(900, 40, 0, 12), calls=(Call(), Call("read", "error")), tries=1, stop="toolUse"),
                Answer(tokens=(31, 7, 880, 0), cost=0.1),
            ),
            compaction=Compaction(),
        ),
        Prompt(text="Another way.", answers=(Answer(tokens=(55, 5, 0, 0), model="ember-1"),), warm=True, branch=True),
    )
)
"""The work that the family shares: two branches, tools, a retry, a compaction."""


@dataclass(frozen=True)
class Family:
    """Named sources, and what was paid for them together."""

    name: str
    sources: tuple[tuple[str, bytes], ...]
    requests: int
    input_tokens: int


@cache
def families() -> tuple[Family, ...]:
    """Return a family of every dialect, of RPC output, and one with a cut recording."""
    plans = [(dialect.name, Plan(dialect, TRUNK.prompts), 1.0) for dialect in DIALECTS]
    plans.append(("rpc", Plan(DIALECTS[-1], TRUNK.prompts, rpc=True), 1.0))
    plans += [(f"{dialect.name}, cut", Plan(dialect, TRUNK.prompts), 0.55) for dialect in DIALECTS[2:]]
    return tuple(_family(*each) for each in plans)


def _family(name: str, plan: Plan, kept: float) -> Family:
    session = play(plan)
    stamped = play(Plan(plan.dialect, plan.prompts, stamps=True, rpc=plan.rpc)).stream_bytes
    # another session, of which only a fork is left; at another time, since at the same one it would be the same calls
    lost = _later(play(Plan(plan.dialect, plan.prompts[:1], id=_id(9))), 20 * HOUR_MS)
    half = len(session.file) // 2
    fork = _fork(session.file[:half], 2)
    chained = _fork(fork[:-1], 3)
    orphan = _fork(lost, 4)
    sources = {
        "stream": session.stream_bytes,
        "recording": stamped[: int(len(stamped) * kept)],
        "file": session.file_bytes,
        "copy": session.file_bytes,
        "fork": _bytes(fork),
        "fork of fork": _bytes(chained),
        "gone parent": _bytes(orphan),
    }
    lost_truth = play(Plan(plan.dialect, plan.prompts[:1])).truth
    own = sum(_own_input(number) for number in (2, 3, 4))
    truths = (session.truth, lost_truth)
    spent = sum(n for truth in truths for (_, kind), n in truth.tokens.items() if kind == "input")
    return Family(name, tuple(sources.items()), sum(truth.requests for truth in truths) + 3, spent + own)


def _id(number: int) -> str:
    return f"01a22ddd-0000-7000-8000-{number:012d}"


def _own_input(number: int) -> int:
    return 100 + number


def _fork(lines: Sequence[bytes], number: int) -> list[bytes]:
    """Return a session that copied the entries of another, with an answer of its own and a last entry."""
    parent, *entries = lines
    at = START_MS + (30 + number) * HOUR_MS
    old = json.loads(parent)
    header = old | {"id": _id(number), "timestamp": _iso(at), "parentSession": f"/home/dev/2026_{old['id']}.jsonl"}
    usage = {"input": _own_input(number), "output": 9, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.25}}
    names = {"api": "openai-completions", "provider": "quill", "model": "quill-small"}
    answer = {"role": "assistant", "content": [], **names, "usage": usage, "stopReason": "stop", "timestamp": at + 5}
    last = json.loads(entries[-1])["id"]
    place = {"id": f"{0xF000 + number:08x}", "parentId": last, "timestamp": _iso(at + 20)}
    label = {"id": f"{0xF100 + number:08x}", "parentId": place["id"], "timestamp": _iso(at + 30)}
    own = ({"type": "message", **place, "message": answer}, {"type": "label", **label, "targetId": last, "label": "x"})
    return [to_json(header), *entries, *map(to_json, own)]


def _later(session: Session, by_ms: int) -> list[bytes]:
    """Return the lines of a session file at another time."""
    lines = []
    for line in session.file:
        entry: dict[str, Any] = json.loads(line)
        at = datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000
        entry["timestamp"] = _iso(round(at) + by_ms)
        if "message" in entry:
            entry["message"]["timestamp"] += by_ms
        lines.append(to_json(entry))
    return lines


def _bytes(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def answer(number: int) -> Result:
    """Return the one answer of a family: that of its sources in the order they are listed in."""
    return read(*families()[number].sources)


def shuffle(seed: int) -> None:
    """Read a family in an order of chance, some sources twice, and in every third shuffle in turns, piece by piece.

    Raises:
        AssertionError: The answer is another one; the message names the order and the first differences.
    """
    chance = random.Random(seed)
    number = seed % len(families())
    sources = families()[number].sources
    order = [*chance.sample(sources, len(sources)), *chance.sample(sources, chance.choice((0, 0, 1, 2)))]
    in_turns = seed // len(families()) % 3 == 2
    found = _in_turns(order, chance) if in_turns else read(*order)
    try:
        assert_agree(found, answer(number))
    except AssertionError as error:
        told = ", ".join(name for name, _ in order) + (" in turns" if in_turns else "")
        raise AssertionError(f"shuffle {seed} of {families()[number].name}: {told}\n{error}") from None


def _in_turns(order: Sequence[tuple[str, bytes]], chance: random.Random) -> Result:
    """Read all sources at once, as a follower does: a piece here, a piece there."""
    ledger = MemoryLedger()
    pipeline = Pipeline(ledger)
    reading = [(pipeline.open(name), data, chance.randint(1, max(1, len(data) // 2))) for name, data in order]
    places = [0] * len(reading)
    left = list(range(len(reading)))
    while left:
        turn = chance.choice(left)
        source, data, step = reading[turn]
        source.feed(data[places[turn] : places[turn] + step])
        places[turn] += step
        if places[turn] >= len(data):
            source.finish()
            left.remove(turn)
    return result(ledger, pipeline.stats)


def _shuffles(seeds: range) -> Counter[str]:
    gc.disable()  # rows hold no cycles
    done: Counter[str] = Counter()
    for seed in seeds:
        shuffle(seed)
        done[families()[seed % len(families())].name] += 1
        if seed % 500 == 0:
            gc.collect()
    return done


def main(count: int, first: int = 0) -> None:
    """Do many shuffles on all cores; an AssertionError ends the program with the shuffle that fails."""
    begun = time.perf_counter()
    parts = [range(start, min(start + 250, first + count)) for start in range(first, first + count, 250)]
    done: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for part in pool.imap_unordered(_shuffles, parts):
            done += part
    seconds = time.perf_counter() - begun
    print(f"{done.total():,} shuffles of {len(families())} families in {seconds:.0f} s: one answer each")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ["10000"]))

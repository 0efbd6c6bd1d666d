"""Writes the example archive of the notebooks, the same bytes each time.

    python -m tests.example.archive            # into notebooks/example

Below the folder: `sessions/` as pi lays out its session files, `recordings/` as `pimetrics record` keeps them (stamped;
of about a third of the runs, so that many facts stand in both), and `totals.json`, what a reader must find.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from random import Random
from typing import Final

import zstandard

from tests.bench.parts import iso
from tests.example import story, words
from tests.example.books import Books
from tests.example.pi import Pi
from tests.example.story import DAY_MS, HOUR_MS, Work
from tests.support import to_json

FOLDER: Final = Path(__file__).parents[2] / "notebooks" / "example"
SEED: Final = 150
INCIDENT_DAY: Final = (story.INCIDENT[0] - story.MONDAY_MS) // DAY_MS
EXPIRED_DAY: Final = 35  # a Monday: the key of a provider has run out


def sessions() -> tuple[list[Pi], Books]:
    """Tell the seven weeks; return the sessions in order of their begin, and what they hold."""
    dice, books = Random(SEED), Books()
    told: list[Pi] = []
    for day in range(7 * story.WEEKS):
        wanted = story.A_DAY[day % 7] + 2 * (day == INCIDENT_DAY)
        begun = int(wanted) + (dice.random() < wanted % 1)
        for hour in sorted(dice.sample(story.HOURS, begun)):
            now = story.MONDAY_MS + day * DAY_MS + int((hour + dice.random() / 2) * HOUR_MS)
            work = _begin(dice, books, now)
            if day == EXPIRED_DAY and hour == story.HOURS[0]:
                work.refused()
            _day(work, len(told))
            forks = _afterwards(dice, work, day)
            told += [work.pi, *work.children, *forks]
    for pi in told:
        pi.close()
    return sorted(told, key=lambda pi: pi.start), books


def _begin(dice: Random, books: Books, now: int) -> Work:
    project = dice.choices(list(story.PROJECTS), [share for share, _ in story.PROJECTS.values()])[0]
    kinds = story.PROJECTS[project][1]
    kind = dice.choices([each for each, _ in kinds], [share for _, share in kinds])[0]
    way = dice.choices(("json", "rpc", "terminal"), (0.24, 0.11, 0.65))[0]
    if story.INCIDENT[0] - HOUR_MS < now < story.INCIDENT[1]:  # what makes that afternoon shows in streams only
        project, kind, way = "shop", story.EMBER, dice.choice(("json", "rpc"))
    pi = Pi(books, story.session_id(dice, now), f"/home/mira/{project}", now)
    work = Work(pi, dice, kind, project, way)
    work.start()
    return work


def _day(work: Work, number: int) -> None:
    """Some prompts, one after the other; what seldom happens comes round by number."""
    dice, pi = work.dice, work.pi
    long = dice.random() < 0.16
    prompts = dice.choices((1, 2, 3, 4, 6), (0.34, 0.28, 0.18, 0.12, 0.08))[0] + 2 * long
    for prompt in range(prompts):
        turns = 1 + min(int(dice.expovariate(0.12 if long else 0.27)), 24)
        last = prompt == prompts - 1
        work.prompt(
            turns,
            abort=work.way != "json" and turns > 1 and dice.random() < (0.3 if work.way == "rpc" else 0.1),
            kill=last and work.way == "json" and number % 8 == 3,
        )
        if last:
            break
        work.pause()
        if work.way == "rpc" and work.context > 30_000 and dice.random() < 0.7:
            work.tidy()
        if dice.random() < 0.06:
            work.warm()
        if work.way == "terminal" and len(work.places) > 1 and dice.random() < 0.3:
            work.go_back(dice.randrange(len(work.places) - 1))
            work.pause()
    if work.way == "terminal" and number % 9 == 4:
        pi.name_it(dice.choice(words.NAMES))


def _afterwards(dice: Random, work: Work, day: int) -> list[Pi]:
    """A session may be taken up again on another day, or forked."""
    chance = dice.random()
    if day > 7 * story.WEEKS - 4 or not work.places:
        return []
    later = work.pi.now - work.pi.now % DAY_MS + DAY_MS + int((8 + 8 * dice.random()) * HOUR_MS)
    if chance < 0.12:
        work.pi.now = later
        work.start()
        for _ in range(dice.randint(1, 3)):
            work.prompt(dice.randint(1, 6))
            work.pause()
    elif chance < 0.2 and work.way == "terminal":
        return [_fork(dice, work, later)]
    return []


def _fork(dice: Random, work: Work, now: int) -> Pi:
    place = dice.choice(work.places)
    pi = Pi(work.pi.books, story.session_id(dice, now), work.pi.header["cwd"], now, work.pi)
    pi.copy(work.pi, place.entry)
    fork = Work(pi, dice, work.kind, work.project, "terminal", context=place.context, places=[place])
    fork.start()
    for _ in range(dice.randint(1, 3)):
        fork.prompt(dice.randint(1, 5))
        fork.pause()
    work.children += fork.children
    return pi


def write(folder: Path) -> None:
    """Write the archive into a folder; what an earlier run left in `sessions` and `recordings` goes."""
    for name in ("sessions", "recordings"):
        shutil.rmtree(folder / name, ignore_errors=True)
    told, books = sessions()
    (folder / "recordings").mkdir(parents=True)
    for pi in told:
        home = folder / "sessions" / pi.folder
        home.mkdir(parents=True, exist_ok=True)
        lines = b"".join(to_json(each) + b"\n" for each in (pi.header, *pi.entries))
        (home / f"{pi.name}.gz").write_bytes(gzip.compress(lines, mtime=0))
        for start, records in pi.streams:
            stamp = iso(start).replace("-", "").replace(":", "")
            path = folder / "recordings" / f"{stamp}_{start & 0xFFFFFFFF:08x}.jsonl.zst"
            path.write_bytes(zstandard.ZstdCompressor(19).compress(b"".join(line + b"\n" for line in records)))
    (folder / "totals.json").write_text(json.dumps(books.as_json(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)

"""Play recordings of pi into a folder at their own pace, as if people worked now, for pictures of the dashboards.

`python grafana/tools/play.py RECORDINGS FOLDER --minutes 20`

Every play is a session of its own: its id and its times are new, and each record carries the stamp that
`pimetrics record` would have put on it. RECORDINGS holds NAME.jsonl with NAME.times (arrival of
each line, epoch milliseconds) beside it.
"""

from __future__ import annotations

import argparse
import random
import re
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

_STAMP = re.compile(rb'("timestamp":)(\d{13})\b')
_DATE = re.compile(rb'("timestamp":")(\d{4}-\d\d-\d\dT[\d:.]+Z)"')
_LENGTH = re.compile(rb'("(?:durationMs|delayMs)":)(\d+)\b')
_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def _milliseconds(date: bytes) -> int:
    return round(datetime.fromisoformat(date.decode()).timestamp() * 1000)


def _date(milliseconds: int) -> bytes:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")[:-6].encode() + b"Z"


def play(recording: Path, folder: Path, end: float, stretch: float) -> None:
    """Write one recording line by line, moved to now; stops at `end` (Unix time), as a killed pi would.

    Args:
        recording: The stream; its times are read from beside it.
        folder: Where the copy grows.
        end: When to stop.
        stretch: How many times slower than recorded: scripted models answer in milliseconds.
    """
    lines = recording.read_bytes().split(b"\n")
    times = [int(text) for text in recording.with_suffix(".times").read_text().split()]
    now = time.time() * 1000

    def moved(at: int) -> int:
        return round(now + (at - times[0]) * stretch)

    name = str(uuid.uuid4())
    ids: dict[bytes, bytes] = {}
    with (folder / f"{recording.stem}-{name[:8]}.jsonl").open("wb", buffering=0) as out:
        for line, at in zip(lines, times, strict=False):
            pause = moved(at) / 1000 - time.time()
            if pause > 0:
                time.sleep(pause)
            if time.time() > end:
                return
            line = _STAMP.sub(lambda found: found[1] + str(moved(int(found[2]))).encode(), line)  # noqa: PLW2901
            line = _DATE.sub(lambda found: found[1] + _date(moved(_milliseconds(found[2]))) + b'"', line)  # noqa: PLW2901
            line = _LENGTH.sub(lambda found: found[1] + b"%d" % (int(found[2]) * stretch), line)  # noqa: PLW2901
            line = _ID.sub(lambda found: ids.setdefault(found[0], str(uuid.uuid4()).encode()), line)  # noqa: PLW2901
            if line.startswith(b"{") and line.endswith(b"}"):
                line = line[:-1] + b',"receivedAt":%d}' % moved(at)  # noqa: PLW2901
            out.write(line + b"\n")


def _person(recordings: list[Path], folder: Path, end: float, stretch: float, dice: random.Random) -> None:
    while time.time() < end:
        play(dice.choice(recordings), folder, end, stretch)
        time.sleep(dice.expovariate(0.4))


def main() -> None:
    """Let some people work for some minutes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--people", type=int, default=4)
    parser.add_argument("--stretch", type=float, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    recordings = sorted(path for path in given.recordings.rglob("*.jsonl") if path.with_suffix(".times").exists())
    end = time.time() + 60 * given.minutes
    people = [
        threading.Thread(target=_person, args=(recordings, given.folder, end, given.stretch, random.Random(seed)))  # noqa: S311
        for seed in range(given.people)
    ]
    for person in people:
        person.start()
    for person in people:
        person.join()


if __name__ == "__main__":
    main()

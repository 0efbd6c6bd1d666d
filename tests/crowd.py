"""Many session files that grow, whose totals are known: for load, ends and soaks."""

from __future__ import annotations

from pathlib import Path

START_MS = 1_794_000_000_000
INPUT, OUTPUT, COST = 10, 1, 0.01
"""What each record says it used."""

_HEADER = '{"type":"session","version":3,"id":"s%d","timestamp":"2026-11-16T09:00:00.000Z","cwd":"/d%d"}\n'
_RECORD = (
    '{"type":"message","id":"%08x","parentId":null,"timestamp":"2026-11-16T09:01:05.000Z","message":{"role":"assistant",'
    f'"content":[],"api":"a","provider":"p","model":"m","usage":{{"input":{INPUT},"output":{OUTPUT},"cacheRead":0,'
    f'"cacheWrite":0,"cost":{{"total":{COST}}}}},"stopReason":"stop","timestamp":%d}}}}\n'
)


def header(number: int) -> str:
    """The first line of the file of that number."""
    return _HEADER % (number, number % 100)


def records(number: int, first: int, count: int = 1) -> str:
    """Lines of that file, each an answer of its own."""
    at = START_MS + number * 1_000_000
    return "".join(_RECORD % (n, at + n) for n in range(first, first + count))


def path_of(root: Path, number: int) -> Path:
    """Where that file is: a hundred folders, as of a hundred projects."""
    return root / f"--d{number % 100}--" / f"{number}.jsonl"


def make(root: Path, files: int, each: int) -> None:
    """Write files of so many records each."""
    for number in range(files):
        path = path_of(root, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header(number) + records(number, 0, each))


def grow(root: Path, number: int, first: int, count: int = 1) -> None:
    """Append records to a file."""
    with path_of(root, number).open("a") as file:
        file.write(records(number, first, count))

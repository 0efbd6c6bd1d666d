"""Which files belong together: those that can hold the same facts form a family.

A family is read into one ledger, so what its files know of a fact is merged; two families share nothing, so each can be
read alone and forgotten. To tell, only the marks of a file are read:

- the session ids of its headers, and the parent that a header names (`parentSession`: by id, by the id in pi's file
  names, else by file name) - a stream, its session file, forks and copies;
- the times of its first and last messages, which copies hold verbatim - forks whose line of parents has gaps, sessions
  that were imported without a parent;
- for what has no header (RPC output, cut files): the session ids that it answers, its first record, and the time it
  spans - it joins every file whose time overlaps.

A file under pi's own name (`TIME_ID.jsonl`) is what pi wrote and has one header: its head and tail are read. Any other
file may be several joined (`pi --mode json >> all.jsonl`), so it is searched for headers in full; that costs some
percent of decoding it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from pimetrics.errors import SourceError
from pimetrics.sources.compressed import read_chunks

BLOCK_BYTES: Final = 1 << 15
"""How much of a head or tail is looked at; a tail without any time is taken longer."""

_CHUNK_BYTES: Final = 1 << 20
_MARKS: Final = 8
"""Message times taken from each end of a file."""

_OVERLAP_MS: Final = 60_000
_HEADER_BYTES: Final = 1 << 16
_LONGEST_CARRY: Final = 1 << 26
_SWELLING: Final = 8
"""What a byte of a compressed file is taken for, when work is shared out."""

_PI_NAME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d-]+Z?_(?P<id>[^/\\]+)\.jsonl(?:\.gz|\.zst)?")
_VALUE: Final = rb'"\s*:\s*(?:(\d{12,14})(?![\d.])|"([0-9T:.Z+-]{16,40})")'
_TIME: Final = re.compile(rb'"timestamp' + _VALUE)  # two patterns: one that begins with a literal is ten times as fast
_ARRIVAL: Final = re.compile(rb'"receivedAt' + _VALUE)
_ANSWERED: Final = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,200})"')


@dataclass
class Marks:
    """What was seen of one file without reading it.

    Attributes:
        path: The file.
        size: Its size, bytes; that of a compressed one is a guess of what is in it.
        names: Equal names make files kin.
        parents: File names that its headers call parent.
        headed: Whether its first record is a header.
        first: Earliest time seen, epoch ms; None without any.
        last: Latest time seen.
    """

    path: Path
    size: int = 0
    names: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)
    headed: bool = False
    first: int | None = None
    last: int | None = None

    def see(self, time: int | None) -> None:
        """Note a time."""
        if time is not None:
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)


@dataclass(frozen=True)
class Family:
    """Files that can hold the same facts.

    Attributes:
        files: Sorted by name.
        size: Bytes of all.
        first: Earliest time in them, epoch ms; None when nothing tells.
        last: Latest time in them; None when nothing tells.
    """

    files: tuple[Path, ...]
    size: int
    first: int | None
    last: int | None


def look(path: Path) -> Marks:
    """Read the marks of a file. One that cannot be read has none; whoever reads it says so."""
    marks = Marks(path)
    try:
        size = path.stat().st_size
        marks.size = size * (1 if path.name.endswith(".jsonl") else _SWELLING)
        named = _PI_NAME.fullmatch(path.name)
        if (
            named
            and path.name.endswith(".jsonl")
            and size > 2 * BLOCK_BYTES
            and _look_at_ends(marks, named["id"], size)
        ):
            return marks
        _look_through(marks)
    except (OSError, SourceError):
        return Marks(path, marks.size)
    return marks


def group(files: Iterable[Marks]) -> list[Family]:
    """Return the families, in order of their earliest time (unknown first), then name; the same for any order."""
    found = sorted(files, key=lambda marks: marks.path)
    kin = list(range(len(found)))

    def root(n: int) -> int:
        while kin[n] != n:
            kin[n] = n = kin[kin[n]]
        return n

    def join(a: int, b: int) -> None:
        a, b = sorted((root(a), root(b)))
        kin[b] = a

    parents = {name for marks in found for name in marks.parents}
    holders: dict[str, int] = {}
    for n, marks in enumerate(found):
        names = {*marks.names, *(f"file {name}" for name in marks.parents)}
        if marks.path.name in parents:
            names.add(f"file {marks.path.name}")
        if not marks.headed and marks.first is None:
            names.add("without time")  # what they share with one another cannot be told from times
        for name in names:
            join(holders.setdefault(name, n), n)
    for a, b in _overlaps(found):
        join(a, b)
    families: dict[int, list[Marks]] = {}
    for n, marks in enumerate(found):
        families.setdefault(root(n), []).append(marks)
    made = [_family(members) for members in families.values()]
    return sorted(made, key=lambda family: (family.first is not None, family.first or 0, family.files))


def session_in_name(name: str) -> str | None:
    """Return the session id in a file name of pi's form; None in any other."""
    found = _PI_NAME.fullmatch(name)
    return found["id"] if found else None


def _family(members: list[Marks]) -> Family:
    firsts = [marks.first for marks in members]
    lasts = [marks.last for marks in members]
    return Family(
        tuple(marks.path for marks in members),
        sum(marks.size for marks in members),
        None if None in firsts else min(time for time in firsts if time is not None),
        None if None in lasts else max(time for time in lasts if time is not None),
    )


def _overlaps(files: list[Marks]) -> Iterator[tuple[int, int]]:
    """Yield pairs whose times overlap and of which the first has no header."""
    spans = [
        (m.first - _OVERLAP_MS, m.last, n) for n, m in enumerate(files) if m.first is not None and m.last is not None
    ]
    for start, last, n in spans:
        if not files[n].headed:
            for other_start, other_last, other in spans:
                if other_start <= last and start <= other_last:
                    yield n, other


# --- reading marks --------------------------------------------------------------------------------------------------


def _look_at_ends(marks: Marks, session_id: str, size: int) -> bool:
    """Read head and tail of a file that pi named; False when it is not what its name says."""
    with marks.path.open("rb") as file:
        head = file.read(BLOCK_BYTES)
        line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
        header = _header(line)
        if header is None or header.get("id") != session_id:
            return False
        marks.headed = True
        _note_header(marks, header)
        _note_times(marks, head, first=True)
        length = BLOCK_BYTES
        while True:
            file.seek(-min(length, size), os.SEEK_END)
            if _note_times(marks, file.read(), first=False) or length >= size:
                return True
            length *= 8


def _look_through(marks: Marks) -> None:
    """Read a file in full: every header, and the times around each."""
    head, carry, headers = b"", b"", 0
    answered: set[bytes] = set()
    for chunk in read_chunks(marks.path, _CHUNK_BYTES):
        if len(head) < BLOCK_BYTES:
            head += chunk[: BLOCK_BYTES - len(head)]
        data = carry + chunk
        end = data.rfind(b"\n") + 1
        headers += _note_headers(marks, data[:end])
        if not headers:
            answered.update(_ANSWERED.findall(data))
        # Behind a header its time bounds what follows; without one every time matters.
        _note_times(marks, data[-BLOCK_BYTES:] if headers else data, first=False)
        carry = data[end:] if len(data) - end <= _LONGEST_CARRY else b""
    headers += _note_headers(marks, carry)
    first_line = next((line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip(b"\0\r\t ")), b"")
    marks.headed = _header(first_line) is not None
    _note_times(marks, head, first=True)
    if not marks.headed:
        marks.names.add("first " + blake2b(first_line[:4096], digest_size=12).hexdigest())
        marks.names.update(f"session {each.decode('utf-8', 'replace')}" for each in answered)


def _note_headers(marks: Marks, data: bytes) -> int:
    found = 0
    at = data.find(b'"session"')
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        if end - start <= _HEADER_BYTES and (header := _header(data[start:end])) is not None:
            found += 1
            _note_header(marks, header)
            _note_times(marks, data[max(0, start - BLOCK_BYTES) : start], first=False)
            _note_times(marks, data[end : end + BLOCK_BYTES], first=True)
            at = data.find(b'"session"', end)
        else:
            at = data.find(b'"session"', at + 1)
    return found


def _note_header(marks: Marks, header: dict[str, Any]) -> None:
    session_id, parent, time = header.get("id"), header.get("parentSession"), header.get("timestamp")
    if isinstance(session_id, str) and session_id:
        marks.names.add(f"session {session_id}")
    if isinstance(time, str):
        marks.see(_iso_ms(time))
    if isinstance(parent, str) and parent:
        name = parent.replace("\\", "/").rpartition("/")[2]
        marks.names.add(f"session {session_in_name(name) or parent}")
        marks.parents.add(name)


def _note_times(marks: Marks, data: bytes, *, first: bool) -> int:
    """Note the times in a block; those of messages at its near end become names. Return how many there were."""
    messages: list[int] = []
    times: list[int] = []
    for number, iso in _TIME.findall(data):
        if number:
            messages.append(int(number))
        elif (time := _iso_ms(iso.decode("ascii"))) is not None:
            times.append(time)
    times += messages
    times += [int(number) for number, _ in _ARRIVAL.findall(data) if number]
    if times:
        marks.see(min(times))
        marks.see(max(times))
    near = messages[:_MARKS] if first else messages[-_MARKS:]
    marks.names.update(f"at {time}" for time in near)
    return len(times)


def _header(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line.strip(b"\0\r\t "))
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None
    return found if isinstance(found, dict) and found.get("type") == "session" else None


def _iso_ms(text: str) -> int | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)

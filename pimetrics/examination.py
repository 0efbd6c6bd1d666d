"""What `doctor` finds out: each file looked at on its own, and all of them together in one ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pimetrics.decoding.dialect import EMPTY, FOREIGN, HEAD_BYTES, HEADER_ONLY, SESSION, TAIL_BYTES, Marks, kind_of
from pimetrics.errors import SourceError
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.pipeline import CHUNK_BYTES, Pipeline, no_cyclic_gc
from pimetrics.rows import Row
from pimetrics.sources.compressed import read_chunks

DAY_MS: Final = 86_400_000
_SLACK_MS: Final = 60_000
"""A clock that is set while pi runs moves by less; a message this much before its session's start is odd."""

Watch = Callable[[Sequence[Path], Iterator[tuple[str, Iterable[bytes]]]], Iterator[tuple[str, Iterable[bytes]]]]


@dataclass
class Reject:
    """A line that gave no record."""

    line: int
    reason: str


@dataclass
class Examined:
    """What is known of one file.

    Attributes:
        path: Its name.
        kind: Event stream, RPC output, session file, header only, empty, or not pi's.
        dialect: Of its events; None for kinds without, or where it cannot be told.
        versions: Range of pi versions that fits, in words.
        records: Whole records in it.
        size: Bytes, decompressed.
        rejects: Lines that gave no record.
        unknown: Things that this version does not know, by kind.
        unknown_types: Names of the record types among them, as far as they stand first in their record.
        clock: Oddities of its clock, by what is odd.
        unreadable: Why it cannot be read; None when it can.
        copy_of: A file before it with the same content.
        sessions: Ids of the sessions in it.
    """

    path: str
    kind: str = EMPTY
    dialect: str | None = None
    versions: str = "unknown"
    records: int = 0
    size: int = 0
    rejects: list[Reject] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    unknown_types: set[str] = field(default_factory=set)
    clock: Counter[str] = field(default_factory=Counter)
    unreadable: str | None = None
    copy_of: str | None = None
    sessions: set[str] = field(default_factory=set)

    @property
    def is_wrong(self) -> bool:
        """Whether something about it should be looked after."""
        return bool(self.unreadable or self.rejects or self.clock or self.kind == FOREIGN)


@dataclass
class Examination:
    """What is known of all files.

    Attributes:
        files: Each of them.
        shared: Sessions that several files hold, other than copies: (session id, file names).
        repeated: Usage rows that several files hold; counted once.
        tool_cost_usd: What tools reported.
        child_sessions: Sessions that name a parent: what tools reported may stand in them again.
    """

    files: list[Examined]
    shared: list[tuple[str, list[str]]] = field(default_factory=list)
    repeated: int = 0
    tool_cost_usd: float = 0.0
    child_sessions: int = 0

    @property
    def is_wrong(self) -> bool:
        """Whether something should be looked after; no file at all is."""
        return not self.files or any(each.is_wrong for each in self.files)


def examine(files: Sequence[Path], now_ms: int, watch: Watch | None = None) -> Examination:
    """Read files and tell what is in them.

    Args:
        files: What to read; one that cannot be read is a finding, not an error.
        now_ms: The time, epoch ms: what lies a day after it is odd.
        watch: Shows progress.
    """
    ledger = MemoryLedger()
    found: list[Examined] = []
    contents: dict[bytes, str] = {}
    opened = ((str(file), _chunks(file, found)) for file in files)
    with no_cyclic_gc():
        for name, chunks in watch(files, opened) if watch else opened:
            each = Examined(name)
            found.append(each)
            content = _examine(each, chunks, ledger, now_ms)
            if each.size:
                each.copy_of = contents.setdefault(content, name)
                each.copy_of = None if each.copy_of == name else each.copy_of
    result = Examination(found, repeated=ledger.duplicates)
    by_session: dict[str, list[str]] = defaultdict(list)
    for each in found:
        if each.copy_of is None and each.kind != HEADER_ONLY:
            for session in each.sessions:
                by_session[session].append(each.path)
    result.shared = sorted((session, paths) for session, paths in by_session.items() if len(paths) > 1)
    spent = (fact.values for _, fact in ledger.facts("usage"))
    result.tool_cost_usd = sum(v.get("cost_usd") or 0 for v in spent if v["operation"] == "tool" and v["settled"])
    result.child_sessions = sum(
        fact.values.get("parent_session_id") is not None for _, fact in ledger.facts("sessions")
    )
    return result


def _chunks(file: Path, found: list[Examined]) -> Iterator[bytes]:
    try:
        yield from read_chunks(file, CHUNK_BYTES)
    except SourceError as error:
        found[-1].unreadable = str(error)


def _examine(each: Examined, chunks: Iterable[bytes], ledger: MemoryLedger, now_ms: int) -> bytes:
    """Read one file; return a hash of its content."""
    marks, lines, content = Marks(), _Lines(), blake2b(digest_size=16)
    seen = _Seen(ledger, each, now_ms)
    pipeline = Pipeline(seen)
    source = pipeline.open(each.path)
    for chunk in chunks:
        content.update(chunk)
        each.size += len(chunk)
        for head, tail in lines.feed(chunk):
            marks.feed(head, tail)
        source.feed(chunk)
    for head, tail in lines.finish():
        marks.feed(head, tail)
    source.finish()
    seen.finish()
    stats = pipeline.stats
    each.records = sum(stats.records.values())
    each.unknown = stats.unknown
    each.unknown_types = marks.unknown_types
    each.kind = kind_of(stats.records, len(each.rejects))
    if each.kind not in {EMPTY, FOREIGN, HEADER_ONLY}:
        each.versions = marks.versions
        each.dialect = None if each.kind == SESSION else marks.dialect
    return content.digest()


class _Seen:
    """Passes rows on to the ledger, and looks at what one file says of times and rejects."""

    def __init__(self, ledger: MemoryLedger, each: Examined, now_ms: int) -> None:
        self._ledger = ledger
        self._each = each
        self._latest = now_ms + DAY_MS
        self._early: Counter[tuple[str, int]] = Counter()  # messages before their header, by part
        self._forks: set[tuple[str, int]] = set()

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows."""
        kept = list(rows)
        for row in kept:
            if row.table == "messages":
                self._message(row)
            elif row.table == "sessions":
                if row.part.session_id is not None:
                    self._each.sessions.add(row.part.session_id)
                if row.values.get("parent_session_id") is not None:
                    self._forks.add(row.part.name)
            elif row.table == "rejects":
                self._each.rejects.append(Reject(row.values["line_number"], row.values["reason"]))
        self._ledger.add(kept)

    def _message(self, row: Row) -> None:
        time, source, part = row.values.get("time"), row.values.get("time_source"), row.part
        if time is None:
            self._each.clock["messages without any time"] += 1
            return
        if source == "entry":
            self._each.clock["messages whose own time is missing or over a day off their entry's"] += 1
        if time > self._latest:
            self._each.clock["messages in the future"] += 1
        if part.time is not None and time < part.time - _SLACK_MS:
            self._early[part.name] += 1

    def finish(self) -> None:
        """Count what lies before its header; a fork holds its parent's messages, which are older by right."""
        early = sum(number for part, number in self._early.items() if part not in self._forks)
        if early:
            self._each.clock["messages before the start of their session"] += early


class _Lines:
    """Cuts bytes into lines, keeping only the ends of each."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield head and tail of the lines that end in a chunk."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            joined = self._rest + line if self._rest else line
            self._rest = b""
            yield joined[:HEAD_BYTES], joined[-TAIL_BYTES:]
        joined = self._rest + rest
        # Of a line that goes on only its ends are needed, however long it is.
        limit = HEAD_BYTES + TAIL_BYTES
        self._rest = joined if len(joined) <= limit else joined[:HEAD_BYTES] + joined[-TAIL_BYTES:]

    def finish(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the last line, if it has no end."""
        if self._rest:
            yield self._rest[:HEAD_BYTES], self._rest[-TAIL_BYTES:]

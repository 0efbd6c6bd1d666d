"""The only wiring: bytes -> framing -> decoding -> reducing -> ledger, for one source or many.

Replay and follow are one path: whoever has bytes opens a `Source`, feeds it, and finishes it at its definite end.
"""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from pimetrics.decoding import Decoder
from pimetrics.events import Decoded
from pimetrics.framing import Framer
from pimetrics.records import MAX_LINE_BYTES, Block, Record, Reject
from pimetrics.reducing import Reduction
from pimetrics.rows import Part, Row

CHUNK_BYTES = 1 << 20
"""How much of a file is read at once; decoding in batches of this size is as fast as in larger ones."""


MAX_REJECT_ROWS = 100_000
"""Rejects of one source that become rows; more are counted only, or a file of nothing else would fill the memory."""

_STAMP = re.compile(rb',"receivedAt":[0-9]+\}$')


class Ledger(Protocol):
    """Whatever keeps rows."""

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows; adding a row again changes nothing."""


@dataclass
class Stats:
    """What was read, over all sources of a pipeline. Counts only grow."""

    records: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    fused_lines: int = 0
    bytes_read: int = 0
    extension_errors: int = 0

    def add(self, other: Stats) -> None:
        """Count what was read elsewhere too."""
        self.records += other.records
        self.rejects += other.rejects
        self.unknown += other.unknown
        self.fused_lines += other.fused_lines
        self.bytes_read += other.bytes_read
        self.extension_errors += other.extension_errors


class Source:
    """One source on its way through the stages. Made by `Pipeline.open`."""

    def __init__(self, name: str, pipeline: Pipeline) -> None:
        self.name = name
        self._pipeline = pipeline
        self._decoder = Decoder(shortcut=pipeline.shortcut, backend=pipeline.backend, log=pipeline.events)
        self._framer = Framer(self._decoder.keep, pipeline.max_line)
        self._reduction: Reduction | None = None
        self._errors_told = 0
        self._logged = 0
        self._rejected = 0
        self.records = 0
        self.known_records = 0

    @property
    def reduction(self) -> Reduction | None:
        """What is going on in it now; None before its first record."""
        return self._reduction

    @property
    def is_session_file(self) -> bool:
        """Whether it is a session file, as far as it was read."""
        return self._reduction is not None and self._reduction.is_session_file

    @property
    def offset(self) -> int:
        """Bytes given out as whole lines: where reading may resume."""
        return self._framer.line_start

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._pipeline.stats.bytes_read += len(chunk)
        if self._pipeline.events:
            self._take_one_by_one(self._framer.feed(chunk))
        else:
            self._reduce(self._framer.cut(chunk))

    def finish(self) -> None:
        """The source has ended for good: what is open is unfinished."""
        self._take_one_by_one(self._framer.finish())
        if self._reduction is not None:
            self._pipeline.ledger.add(self._reduction.finish())

    def _take_one_by_one(self, items: list[Record | Reject]) -> None:
        """Take items so that each record is told with the session it stands in."""
        for item in items:
            self._reduce([item])

    def _reduce(self, items: Sequence[Block | Record | Reject]) -> None:
        if not items:
            return
        decoded = self._decoder.feed(items)
        self._count(decoded)
        if self._reduction is None:
            self._reduction = Reduction(self.name)
        if self._reduction.first_record is None:
            bad = {reject.offset for reject in decoded.rejects}
            first = next((record.data for record in _records(items) if record.offset not in bad), None)
            if first is not None:
                self._reduction.first_record = _record_hash(first)
        rows = self._reduction.feed(decoded.events)
        if decoded.rejects:
            rows = [*rows, *self._reject_rows(decoded.rejects)]
        if decoded.log:
            rows = [*rows, *self._event_rows(decoded.log)]
        if rows:
            self._pipeline.ledger.add(rows)
        errors = self._reduction.extension_errors
        self._pipeline.stats.extension_errors += errors - self._errors_told
        self._errors_told = errors

    def _count(self, decoded: Decoded) -> None:
        stats = self._pipeline.stats
        stats.records.update(decoded.records)
        stats.unknown.update(decoded.unknown)
        stats.fused_lines += decoded.fused
        stats.rejects.update(reject.reason for reject in decoded.rejects)
        total = sum(decoded.records.values())
        self.records += total
        self.known_records += total - decoded.records.get("unknown", 0)

    def _reject_rows(self, rejects: list[Reject]) -> Iterator[Row]:
        part = Part(self.name)  # a line that gave no record names no session
        listed = rejects[: MAX_REJECT_ROWS - self._rejected]
        self._rejected += len(listed)
        for reject in listed:
            values = {
                "line_number": reject.line_number,
                "offset_bytes": reject.offset,
                "size_bytes": reject.size,
                "reason": reject.reason,
            }
            yield Row("rejects", (self.name, reject.offset), values, part)

    def _event_rows(self, log: list[tuple[str, Record, int | None]]) -> Iterator[Row]:
        assert self._reduction is not None
        part = self._reduction.part
        for kind, record, received in log:
            values = {
                "record": kind,
                "line_number": record.line_number,
                "offset_bytes": record.offset,
                "size_bytes": record.size,
                "time": received,
                "time_source": None if received is None else "arrival",
            }
            yield Row("events", (self.name, record.offset, self._logged), values, part)
            self._logged += 1


def _records(items: Sequence[Block | Record | Reject]) -> Iterator[Record]:
    for item in items:
        if isinstance(item, Block):
            yield from item.records()
        elif isinstance(item, Record):
            yield item


def _record_hash(line: bytes) -> str:
    """Return a hash of a record that is the same with an arrival stamp and without."""
    return blake2b(_STAMP.sub(b"}", line[:4096]), digest_size=12).hexdigest()


class Pipeline:
    """The stages, joined to one ledger.

    Args:
        ledger: Where rows go.
        shortcut: Skip what need not be decoded; off, the result is the same.
        backend: Name of an ijson backend; None takes the fastest.
        max_line: Longest line that is decoded, bytes.
        events: Also make rows of the table `events`, one a record.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        shortcut: bool = True,
        backend: str | None = None,
        max_line: int = MAX_LINE_BYTES,
        events: bool = False,
    ) -> None:
        self.events = events
        self.ledger = ledger
        self.shortcut = shortcut
        self.backend = backend
        self.max_line = max_line
        self.stats = Stats()

    def open(self, name: str) -> Source:
        """Begin a source. A file name need not be text; the name of a source is."""
        return Source(os.fsencode(name).decode("utf-8", "backslashreplace"), self)

    def run(self, name: str, chunks: Iterable[bytes]) -> Source:
        """Take a whole source from its first byte to its end."""
        source = self.open(name)
        for chunk in chunks:
            source.feed(chunk)
        source.finish()
        return source


@contextmanager
def no_cyclic_gc() -> Iterator[None]:
    """Pause the cyclic garbage collector while many rows are built.

    Rows hold no cycles, but each new one makes the collector look at all of them again: up to half the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

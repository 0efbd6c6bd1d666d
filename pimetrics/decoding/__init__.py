"""Records to events, whatever the dialect.

The contract: `feed(items)` returns what the items say, in order; nothing is held back, so there is no `finish`. No I/O,
no clock. A record that gives nothing becomes a reject; anything unknown is counted and passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import starmap

from pimetrics.decoding import fields, rpc, session, stream
from pimetrics.decoding.parse import Backend, Object, find_backend, parse
from pimetrics.decoding.shortcut import Shortcut, Skim, stamp
from pimetrics.events import Decoded, Event, Message, Usage
from pimetrics.names import RECORD_TYPES, UNKNOWN
from pimetrics.records import Record, Reject

_KNOWN = frozenset(RECORD_TYPES) - {UNKNOWN}

__all__ = ["Decoder"]


class Decoder:
    """Decodes one source, in order.

    Args:
        shortcut: Skip what need not be decoded (see `shortcut`); off, the result is the same and slower.
        backend: Name of an ijson backend; None takes the fastest that is installed.
        log: Also list every record (`Decoded.log`).
    """

    def __init__(self, *, shortcut: bool = True, backend: str | None = None, log: bool = False) -> None:
        self._log = log
        self._backend: Backend = find_backend(backend)
        self._shortcut = Shortcut(self._load_message, self._load_usage) if shortcut else None

    def keep(self, head: bytes) -> bool:
        """Tell framing whether a long line has to be held whole."""
        return self._shortcut is None or self._shortcut.keep(head)

    def feed(self, items: Sequence[Record | Reject]) -> Decoded:
        """Decode what framing gave."""
        shortcut = self._shortcut
        if shortcut is None:
            return _Batch(self._log).take(items, None, self._backend)
        batch = _Batch(self._log)
        decoded = batch.take(items, shortcut.look, self._backend)
        if all(starmap(shortcut.agrees, batch.found)):
            return decoded
        decoded = _Batch(self._log).take(items, shortcut.look_at_dropped, self._backend)
        shortcut.forget()
        return decoded

    def _load_message(self, line: bytes) -> Message | None:
        raw = self._object(line)
        return fields.message(raw.get("message"), Counter())

    def _load_usage(self, line: bytes) -> Usage | None:
        return stream.update_usage(self._object(line))

    def _object(self, line: bytes) -> Object:
        found = parse([Record(line, 0, 1, len(line))], self._backend)[0]
        return {} if isinstance(found, str) else found[0]


class _Batch:
    """Decodes the items of one `feed`.

    Attributes:
        found: The records that were parsed, and the types found on each line.
    """

    def __init__(self, log: bool) -> None:  # noqa: FBT001  as `Decoder` has it
        self._log = log
        self.found: list[tuple[Record, list[str]]] = []

    def take(
        self, items: Sequence[Record | Reject], look: Callable[[Record], Skim | None] | None, backend: Backend
    ) -> Decoded:
        """Decode items; each line's events go to the slot that it was given on its way."""
        slots: list[Sequence[Event]] = []
        records: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        rejects: list[Reject] = []
        log: list[tuple[str, Record, int | None]] = []
        waiting: list[tuple[int, Record]] = []
        for item in items:
            if isinstance(item, Reject):
                rejects.append(item)
                continue
            skim = look(item) if look else None
            if skim is None:
                waiting.append((len(slots), item))
                slots.append(())
                continue
            records[skim[0]] += 1
            if skim[1] is not None:
                slots.append((skim[1],))
            if self._log:
                log.append((skim[0], item, stamp(item.data)))
        fused = 0
        parsed = parse([record for _, record in waiting], backend) if waiting else []
        for (place, record), found in zip(waiting, parsed, strict=True):
            if isinstance(found, str):
                rejects.append(Reject(found, record.offset, record.line_number, record.size))
                self.found.append((record, []))
                continue
            kinds = [_kind(raw) or UNKNOWN for raw in found]
            self.found.append((record, kinds))
            if self._log:
                stamps = [fields.time_ms(raw.get("receivedAt")) for raw in found]
                log += [(k, record, at) for k, at in zip(kinds, stamps, strict=True)]
            slots[place] = [e for raw in found if (e := _read(raw, records, unknown)) is not None]
            fused += len(found) > 1
        events = [event for slot in slots for event in slot]
        rejects.sort(key=lambda reject: reject.offset)
        log.sort(key=lambda seen: seen[1].offset)
        return Decoded(events, rejects, records, unknown, fused, log)


def _kind(raw: Object) -> str | None:
    kind = raw.get("type")
    return kind if type(kind) is str and kind in _KNOWN else None


def _read(raw: Object, records: Counter[str], unknown: Counter[str]) -> Event | None:
    kind = _kind(raw)
    if kind is None:
        records[UNKNOWN] += 1
        if "id" in raw and "parentId" in raw:
            unknown["entry"] += 1
            return session.place(raw)
        unknown["record"] += 1
        return None
    records[kind] += 1
    received = fields.time_ms(raw.get("receivedAt"))
    reader = stream.READERS.get(kind) or session.READERS.get(kind)
    if reader is not None:
        return reader(raw, unknown, received)
    if kind == "entry_appended":
        return session.appended(raw, unknown, received)
    if kind == "response":
        return rpc.response(raw)
    return None

"""Decodes what framing gave in one go: each line is looked at, cut or read in full, and told in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pimetrics.decoding import fields, rpc, session, stream
from pimetrics.decoding.parse import Backend, Object, parse, parse_arrays
from pimetrics.decoding.shortcut import Cut, Shortcut, Skim
from pimetrics.decoding.shortcut.stamps import stamp
from pimetrics.decoding.shortcut.updates import UPDATE
from pimetrics.events import Decoded, Event
from pimetrics.names import RECORD_TYPES, UNKNOWN
from pimetrics.records import BLANK, Block, Record, Reject

_KNOWN = frozenset(RECORD_TYPES) - {UNKNOWN}


class Batch:
    """Decodes the items of one `feed`.

    Args:
        backend: The backend of ijson.
        shortcut: What looks at whole lines; None to decode every line in full.
        dropped: What looks at records whose middle is gone, which cannot be decoded.
        log: Also list every record.

    Attributes:
        found: The records that were decoded in full, and the types found on each.
        mistaken: Whether a message was not in the form that it seemed to be in.
    """

    def __init__(self, backend: Backend, shortcut: Shortcut | None, dropped: Shortcut | None, *, log: bool) -> None:
        self.found: list[tuple[Record, list[str]]] = []
        self.mistaken = False
        self._backend = backend
        self._shortcut = shortcut
        self._dropped = dropped
        self._log: list[tuple[str, Record, int | None]] | None = [] if log else None
        self._events: list[Event | list[Event] | None] = []  # a list where a line held several
        self._records: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._rejects: list[Reject] = []
        self._fused = 0
        self._cuts: list[tuple[int, Cut, Block | Record, int]] = []  # (place, cut, where it is, start there)
        self._waiting: list[tuple[int, Record]] = []

    def take(self, items: Iterable[Block | Record | Reject]) -> Decoded:
        """Decode items; return what they say."""
        for item in items:
            if isinstance(item, Reject):
                self._rejects.append(item)
            elif isinstance(item, Record):
                self._record(item)
            elif self._shortcut is None or self._log is not None:
                for record in item.records():
                    self._record(record)
            else:
                self._block(item, self._shortcut)
        if self._cuts:
            self._read_cuts()
        if self._waiting:
            self._read_waiting()
        self._rejects.sort(key=lambda reject: reject.offset)
        if self._log:
            self._log.sort(key=lambda seen: seen[1].offset)
        events: list[Event] = []
        for each in self._events:
            if isinstance(each, list):
                events += each
            elif each is not None:
                events.append(each)
        return Decoded(events, self._rejects, self._records, self._unknown, self._fused, self._log or [])

    # --- looking ----------------------------------------------------------------------------------------------------

    def _block(self, block: Block, shortcut: Shortcut) -> None:
        data, events, records = block.data, self._events, self._records
        look, cuts = shortcut.look, self._cuts
        at, size = 0, len(data)
        while at < size:
            if data.startswith(UPDATE, at):
                end, number, update = shortcut.updates(data, at)
                if number:
                    records["message_update"] += number
                    events.append(update)
                    at = end
                    continue
            end = data.index(b"\n", at)
            line = data[at:end]
            seen = look(line, data, end + 1)
            if seen is None:
                if line.strip(BLANK):
                    self._wait(block.record(at))
            elif isinstance(seen[0], str):
                records[seen[0]] += 1
                if seen[1] is not None:
                    events.append(seen[1])
            else:
                cuts.append((len(events), seen, block, at))
                events.append(None)
            at = end + 1

    def _record(self, record: Record) -> None:
        seen: Skim | Cut | None = None
        if not record.whole:
            seen = self._dropped.look_at_dropped(record) if self._dropped else None
        elif record.ended and self._shortcut:
            seen = self._shortcut.update(record.data) or self._shortcut.look(record.data)
        if seen is None:
            self._wait(record)
        elif isinstance(seen[0], str):
            self._tell(seen[0], record, seen[1])
        else:
            self._cuts.append((len(self._events), seen, record, 0))
            self._events.append(None)

    def _tell(self, kind: str, record: Record, event: Event | None) -> None:
        self._records[kind] += 1
        if event is not None:
            self._events.append(event)
        if self._log is not None:
            self._log.append((kind, record, stamp(record.data)))

    def _wait(self, record: Record) -> None:
        self._waiting.append((len(self._events), record))
        self._events.append(None)

    # --- decoding ---------------------------------------------------------------------------------------------------

    def _read_cuts(self) -> None:
        """Decode the values of the lines that were cut; lines that are not what they looked like wait for all else."""
        arrays = parse_arrays([cut[1] for _, cut, _, _ in self._cuts], self._backend)
        events, records, unknown = self._events, self._records, self._unknown
        for (place, (form, _), where, start), values in zip(self._cuts, arrays, strict=True):
            is_form = len(values) == form.length
            event = form.build(values, unknown) if is_form else None
            if event is None:
                self.mistaken |= not is_form and form.kind == "message_end"
                self._waiting.append((place, where.record(start) if isinstance(where, Block) else where))
                continue
            records[form.kind] += 1
            events[place] = event
            if self._log is not None and isinstance(where, Record):
                self._log.append((form.kind, where, stamp(where.data)))

    def _read_waiting(self) -> None:
        self._waiting.sort(key=lambda waiting: waiting[0])
        parsed = parse([record for _, record in self._waiting], self._backend)
        for (place, record), found in zip(self._waiting, parsed, strict=True):
            if isinstance(found, str):
                self._rejects.append(Reject(found, record.offset, record.line_number, record.size))
                self.found.append((record, []))
                continue
            kinds = [_kind(raw) or UNKNOWN for raw in found]
            self.found.append((record, kinds))
            if self._log is not None:
                stamps = [fields.time_ms(raw.get("receivedAt")) for raw in found]
                self._log += [(kind, record, at) for kind, at in zip(kinds, stamps, strict=True)]
            self._events[place] = [e for raw in found if (e := self._read(raw)) is not None]
            self._fused += len(found) > 1

    def _read(self, raw: Object) -> Event | None:
        kind = _kind(raw)
        if kind is None:
            self._records[UNKNOWN] += 1
            if "id" in raw and "parentId" in raw:
                self._unknown["entry"] += 1
                return session.place(raw)
            self._unknown["record"] += 1
            return None
        self._records[kind] += 1
        received = fields.time_ms(raw.get("receivedAt"))
        reader = stream.READERS.get(kind) or session.READERS.get(kind)
        if reader is not None:
            return reader(raw, self._unknown, received)
        if kind == "entry_appended":
            return session.appended(raw, self._unknown, received)
        if kind == "response":
            return rpc.response(raw)
        return None


def _kind(raw: dict[str, Any]) -> str | None:
    kind = raw.get("type")
    return kind if type(kind) is str and kind in _KNOWN else None

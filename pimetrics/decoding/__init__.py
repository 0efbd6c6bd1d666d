"""Records to events, whatever the dialect.

The contract: `feed(items)` returns what the items say, in order; nothing is held back, so there is no `finish`. No I/O,
no clock. A record that gives nothing becomes a reject; anything unknown is counted and passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import starmap

from pimetrics.decoding import fields, stream
from pimetrics.decoding.batch import Batch
from pimetrics.decoding.parse import Backend, Object, find_backend, parse
from pimetrics.decoding.shortcut import Shortcut
from pimetrics.events import Decoded, Message, Usage
from pimetrics.records import Block, Record, Reject

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
        self._backend = found = find_backend(backend)
        self._shortcut = Shortcut(partial(_load_message, found), partial(_load_usage, found)) if shortcut else None

    def keep(self, head: bytes) -> bool:
        """Tell framing whether a long line has to be held whole."""
        return self._shortcut is None or self._shortcut.keep(head)

    def feed(self, items: Sequence[Block | Record | Reject]) -> Decoded:
        """Decode what framing gave."""
        shortcut = self._shortcut
        batch = Batch(self._backend, shortcut, shortcut, log=self._log)
        decoded = batch.take(items)
        if shortcut is None or (not batch.mistaken and all(starmap(shortcut.agrees, batch.found))):
            return decoded
        shortcut.forget()
        return Batch(self._backend, None, shortcut, log=self._log).take(items)


def _load_message(backend: Backend, line: bytes) -> Message | None:
    raw = _object(backend, line)
    return fields.message(raw.get("message"), Counter())


def _load_usage(backend: Backend, line: bytes) -> Usage | None:
    return stream.update_usage(_object(backend, line))


def _object(backend: Backend, line: bytes) -> Object:
    found = parse([Record(line, 0, 1, len(line))], backend)[0]
    return {} if isinstance(found, str) else found[0]

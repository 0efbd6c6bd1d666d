"""The parts of sources, as the ledger on disk knows them: who holds a fact, and whose it is.

A part has the same number in the file after a restart when its place and its header are the same. In RPC output the
session is known only later; its part is then known by its place, and gets its session when that comes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from pimetrics.rows import Part

AT_HAND: Final = 20_000
"""Parts kept in memory; more are read again when they are needed."""


class Parts:
    """Parts by number.

    Args:
        db: The file, with its schema.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._by_ref: dict[int, Part] = {}
        self._written: dict[int, tuple[Any, ...]] = {}
        self._touched: dict[int, Part] = {}  # by id(): parts are compared by identity here
        self._assigned: list[Part] = []

    def get(self, ref: int) -> Part:
        """Return a part."""
        part = self._by_ref.get(ref)
        if part is None:
            if len(self._by_ref) >= AT_HAND:
                self._by_ref.clear()
                self._written.clear()
            source, number, session_id, cwd, time = self._db.execute(
                "SELECT source, number, session_id, cwd, time FROM parts WHERE id = ?", (ref,)
            ).fetchone()
            part = self._by_ref[ref] = Part(json.loads(source), number)
            part.session_id, part.cwd, part.time = loaded(session_id), loaded(cwd), time
            part.ref = ref
        return part

    def touch(self, part: Part) -> None:
        """Note that a part that is being read may have changed."""
        self._touched[id(part)] = part

    def write(self, used: Iterable[Part]) -> None:
        """Write the parts that have changed or are new; inside the transaction of the commit."""
        for part in used:
            if part.ref is None:
                self._touched[id(part)] = part
        for part in self._touched.values():
            if part.ref is None:
                self._find(part)
            self._save(part)

    def written(self) -> None:
        """The commit has succeeded."""
        self._touched.clear()
        self._assigned.clear()

    def undo(self) -> None:
        """The commit has failed: numbers given in it mean nothing."""
        for part in self._assigned:
            if part.ref is not None:
                self._by_ref.pop(part.ref, None)
                self._written.pop(part.ref, None)
            part.ref = None
        for part in self._touched.values():
            if part.ref is not None:
                self._written.pop(part.ref, None)
        self._assigned.clear()

    def _find(self, part: Part) -> None:
        header = (part.session_id, part.cwd, part.time)
        free = None
        for ref, session_id, cwd, time in self._db.execute(
            "SELECT id, session_id, cwd, time FROM parts WHERE source = ? AND number = ?",
            (json.dumps(part.source), part.number),
        ):
            known = (loaded(session_id), loaded(cwd), time)
            if known == header:
                break
            if known == (None, None, None):
                free = ref
        else:
            ref = free
        if ref is None:
            ref = self._db.execute(
                "INSERT INTO parts (source, number) VALUES (?, ?)", (json.dumps(part.source), part.number)
            ).lastrowid
        assert ref is not None
        part.ref = ref
        known_as = self._by_ref.get(ref)
        if known_as is not None:
            known_as.session_id, known_as.cwd, known_as.time = header
        self._by_ref[ref] = part
        self._assigned.append(part)

    def _save(self, part: Part) -> None:
        assert part.ref is not None
        off_branch = json.dumps(sorted(part.parents.keys() - part.active)) if part.branched else None
        tree = (dumped(part.leaf), off_branch, len(part.parents))
        now = (dumped(part.session_id), dumped(part.cwd), part.time, *tree)
        if self._written.get(part.ref) != now:
            self._db.execute(
                "UPDATE parts SET session_id = ?, cwd = ?, time = ?, leaf = ?, off_branch = ?, entries = ? "
                "WHERE id = ?",
                (*now, part.ref),
            )
            self._written[part.ref] = now


def dumped(text: str | None) -> str | None:
    """Text as it can be stored: ids from outside may hold lone surrogates, which SQLite cannot."""
    return None if text is None else json.dumps(text)


def loaded(stored: str | None) -> str | None:
    """Text as it was before `dumped`."""
    if stored is None:
        return None
    text = json.loads(stored)
    assert isinstance(text, str)
    return text

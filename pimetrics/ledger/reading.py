"""A ledger on disk as rows, for `pimetrics.read`: short reads, so that an exporter that writes it is not held up.

(A long read would let its log grow without end.) Rows that are added or changed between two reads may or may not show.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from pimetrics.ledger.parts import loaded
from pimetrics.ledger.schema import failure, open_reader
from pimetrics.ledger.sqlite import TABLE_IDS
from pimetrics.ledger.totals import GAVE_WAY

_PAGE_ROWS: Final = 5000


class _Part(NamedTuple):
    source: str
    session_id: str | None
    cwd: str | None
    has_tree: bool
    off_branch: frozenset[str]
    entries: int


class LedgerReader:
    """Reads a ledger file; a context manager.

    Args:
        path: The file.

    Raises:
        StateError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = open_reader(path)
        self._parts: dict[int, _Part] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the visible rows of a table as column values, `row_id` and times (epoch ms) included.

        Raises:
            StateError: The file is damaged.
        """
        try:
            yield from self._rows(table)
        except sqlite3.Error as error:
            raise failure(self._path, error) from None

    def _rows(self, table: str) -> Iterator[dict[str, Any]]:
        tbl = TABLE_IDS[table]
        after: tuple[int, bytes] = (-(1 << 63), b"")
        while True:
            page = self._db.execute(
                "SELECT place, hash, alias, ordinal, counted, owner, entry_id, holders, body FROM facts "
                "WHERE tbl = ? AND (place, hash) > (?, ?) ORDER BY place, hash LIMIT ?",
                (tbl, *after, _PAGE_ROWS),
            ).fetchall()
            for place, digest, alias, ordinal, counted, owner, entry_id, holders, body in page:
                after = (place, digest)
                if body is None or counted == GAVE_WAY or (ordinal and self._has_settled(tbl, place, alias, ordinal)):
                    continue
                row: dict[str, Any] = json.loads(body)
                owned = self._part(owner)
                held = [self._part(each) for each in json.loads(holders)]
                row["session_id"] = owned.session_id
                row["row_id"] = digest.hex()
                row["source"] = min(part.source for part in held)
                if table == "usage":
                    row["on_active_branch"] = _on_active_branch(loaded(entry_id), owned, held)
                yield row
            if len(page) < _PAGE_ROWS:
                return

    def _has_settled(self, tbl: int, place: int, alias: bytes, ordinal: int) -> bool:
        found = self._db.execute(
            "SELECT count(*) FROM facts WHERE tbl = ? AND place = ? AND alias = ? AND ordinal = 0", (tbl, place, alias)
        ).fetchone()[0]
        return bool(found >= ordinal)

    def _part(self, ref: int) -> _Part:
        part = self._parts.get(ref)
        if part is None:
            source, session_id, cwd, leaf, off_branch, entries = self._db.execute(
                "SELECT source, session_id, cwd, leaf, off_branch, entries FROM parts WHERE id = ?", (ref,)
            ).fetchone()
            off = frozenset(json.loads(off_branch)) if off_branch else frozenset()
            part = self._parts[ref] = _Part(
                json.loads(source), loaded(session_id), loaded(cwd), leaf is not None, off, entries
            )
        return part


def _on_active_branch(entry_id: str | None, owner: _Part, holders: list[_Part]) -> bool | None:
    """The same as `Fact.on_active_branch`, by what is stored."""
    trees = [part for part in holders if part.has_tree and part[1:3] == owner[1:3]]
    tree = max(trees, key=lambda part: (part.entries, part.source), default=owner)
    return None if entry_id is None or not tree.has_tree else entry_id not in tree.off_branch

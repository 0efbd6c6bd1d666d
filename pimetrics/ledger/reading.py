"""A ledger on disk as rows, for `pimetrics.read`: short reads, so that an exporter that writes it is not held up.

(A long read would let its log grow without end.) Rows that are added or changed between two reads may or may not show.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pimetrics.ledger.parts import loaded
from pimetrics.ledger.schema import failure, open_reader
from pimetrics.ledger.sqlite import TABLE_IDS

_PAGE_ROWS: Final = 5000


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
        self._parts: dict[int, tuple[Any, ...]] = {}

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
                "SELECT place, hash, alias, ordinal, owner, entry_id, holders, body FROM facts "
                "WHERE tbl = ? AND (place, hash) > (?, ?) ORDER BY place, hash LIMIT ?",
                (tbl, *after, _PAGE_ROWS),
            ).fetchall()
            for place, digest, alias, ordinal, owner, entry_id, holders, body in page:
                after = (place, digest)
                if body is None or (ordinal and self._has_settled(tbl, place, alias, ordinal)):
                    continue
                row: dict[str, Any] = json.loads(body)
                _, row["session_id"], leaf, off_branch = self._part(owner)
                row["row_id"] = digest.hex()
                row["source"] = min(self._part(each)[0] for each in json.loads(holders))
                if table == "usage":
                    entry = loaded(entry_id)
                    known = entry is not None and leaf is not None
                    row["on_active_branch"] = entry not in off_branch if known else None
                yield row
            if len(page) < _PAGE_ROWS:
                return

    def _has_settled(self, tbl: int, place: int, alias: bytes, ordinal: int) -> bool:
        found = self._db.execute(
            "SELECT count(*) FROM facts WHERE tbl = ? AND place = ? AND alias = ? AND ordinal = 0", (tbl, place, alias)
        ).fetchone()[0]
        return bool(found >= ordinal)

    def _part(self, ref: int) -> tuple[Any, ...]:
        part = self._parts.get(ref)
        if part is None:
            source, session_id, leaf, off_branch = self._db.execute(
                "SELECT source, session_id, leaf, off_branch FROM parts WHERE id = ?", (ref,)
            ).fetchone()
            off = frozenset(json.loads(off_branch)) if off_branch else frozenset()
            part = self._parts[ref] = (json.loads(source), loaded(session_id), leaf, off)
        return part

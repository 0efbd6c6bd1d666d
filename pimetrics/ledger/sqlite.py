"""The ledger on disk: what survives restarts, kills and power cuts.

Rows change facts and totals in memory; `commit` writes all that has changed in one transaction, together with how far
each file was read. What could not be written stays in memory and goes with the next try, so a failed commit loses
nothing; after a kill the file says, consistently, what was counted and up to where.

The primary key of a fact begins with the time in its key, so new facts go to the end of the tree and a row costs the
same with ten million rows as with none. Start reads totals and never sums rows.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from pimetrics import keys
from pimetrics.keys import Key
from pimetrics.ledger.facts import Fact, Facts
from pimetrics.ledger.parts import Parts, dumped, loaded
from pimetrics.ledger.schema import failure, open_state
from pimetrics.ledger.totals import Histogram, Labels, Totals
from pimetrics.marks import Mark
from pimetrics.rows import COLUMNS, Row

TABLE_IDS: Final = {
    "sessions": 1, "prompts": 2, "runs": 3, "turns": 4, "messages": 5, "usage": 6, "tool_calls": 7, "retries": 8,
    "compactions": 9, "queue": 10, "rejects": 11, "events": 12,
}  # fmt: skip
"""Numbers of the tables in the file; never changed, never reused."""

RECENT: Final = 4096
"""Committed facts that are kept at hand: the twin of a row mostly comes within seconds."""

_UPSERT_FACT: Final = """
    INSERT INTO facts (tbl, place, hash, alias, ordinal, counted, owner, entry_id, holders, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET counted = excluded.counted, owner = excluded.owner, entry_id = excluded.entry_id,
    holders = excluded.holders, body = excluded.body
"""
_UPSERT_SERIES: Final = """
    INSERT INTO series (metric, labels, amount, counts, born) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET amount = excluded.amount, counts = excluded.counts
"""
_UPSERT_FILE: Final = """
    INSERT INTO files (path, dev, ino, size, mtime_ns, ctime_ns, offset, head, tail, done, errors)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET dev = excluded.dev, ino = excluded.ino, size = excluded.size,
    mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, offset = excluded.offset, head = excluded.head,
    tail = excluded.tail, done = excluded.done, errors = excluded.errors
"""


# Left to itself, SQLite scans the table.
_HAS_CUT_OFF: Final = "SELECT 1 FROM facts INDEXED BY facts_cut_off WHERE tbl = ? AND ordinal > 0 LIMIT 1"


class _Kept(NamedTuple):
    fact: Fact
    place: int
    alias: bytes | None
    ordinal: int


_Id = tuple[int, bytes]


class SqliteLedger:
    """Facts and totals in a file.

    Args:
        path: The file; made when it is absent.

    Raises:
        StateFullError: There is no room to open it; nothing is wrong otherwise.
        StateError: It cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken = False
        """Whether an add was cut off by an error: what is in memory cannot be trusted, what is in the file can."""
        self.totals = Totals()
        self._db, self._lock, self.replaces = open_state(path)
        self._inode = _inode_of(path)
        self._parts = Parts(self._db)
        self._pending: dict[_Id, _Kept] = {}
        self._recent: dict[_Id, _Kept] = {}
        self._new_by_alias: dict[tuple[int, bytes], list[_Id]] = {}
        self._new_names: dict[tuple[int, bytes], tuple[int, bytes]] = {}  # table and other name to place and hash
        self._rules = Facts(self, self.totals)
        self._late: dict[str, int] = {}
        self._overflow: dict[str, int] = {}
        try:
            self._load()
        except sqlite3.Error as error:
            self.close()
            raise failure(path, error) from None

    @property
    def duplicates(self) -> int:
        """Usage rows that another source had already brought, since the start."""
        return self._rules.duplicates

    @property
    def pending(self) -> int:
        """Facts that wait for a commit."""
        return len(self._pending)

    @property
    def is_there(self) -> bool:
        """Whether the file that is written still stands under its name."""
        return _inode_of(self.path) == self._inode

    @property
    def silent(self) -> bool:
        """Whether facts are known but not counted, since the ledger replaces a lost one and has not caught up."""
        return self._rules.silent

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, in any order, as often as you like. Nothing is written before `commit`.

        Raises:
            StateFullError: The file cannot be read now.
            StateLostError: It is damaged.
        """
        rows = list(rows)
        for row in rows:
            self._parts.touch(row.part)
        try:
            self._rules.add(rows)
        except sqlite3.Error as error:
            self.broken = True
            raise failure(self.path, error) from None

    def commit(self, now: float, marks: Iterable[Mark] = (), gone: Iterable[str] = ()) -> set[tuple[str, Labels]]:
        """Write what has changed; return the series that have moved.

        Args:
            now: Unix seconds; the birth of new series.
            marks: How far files were read: all rows up to there were added.
            gone: Paths of files that are no more.

        Raises:
            StateFullError: It cannot be written now; all is kept for the next try, but marks must be given again.
            StateLostError: The file is damaged.
        """
        totals = self.totals
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._write(now, marks, gone)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._parts.undo()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise failure(self.path, error) from None
        self._parts.written()
        moved, totals.moved = totals.moved, set()
        totals.newly_admitted.clear()
        totals.newly_born.clear()
        self._late, self._overflow = dict(totals.late), dict(totals.overflow)
        self._recent |= self._pending
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]
        self._pending = {}
        self._new_by_alias.clear()
        self._new_names.clear()
        return moved

    def caught_up(self) -> None:
        """From now on new facts count. Written with the next commit."""
        self._rules.silent = False

    def files(self) -> list[Mark]:
        """Return how far files were read when they were last committed."""
        columns = "path, dev, ino, size, mtime_ns, ctime_ns, offset, head, tail, done, errors"
        return [Mark(os.fsdecode(row[0]), *row[1:]) for row in self._db.execute(f"SELECT {columns} FROM files")]  # noqa: S608

    def forget_rows(self, before_ms: int, at_most: int = 1000) -> int:
        """Delete the bodies of rows older than a time; their keys stay, so what comes back counts nothing.

        Args:
            before_ms: Epoch ms.
            at_most: Rows in one transaction; call again while it returns that many.

        Returns:
            How many were deleted.
        """
        try:
            deleted = 0
            for table in TABLE_IDS.values():
                if deleted >= at_most:
                    break
                found = self._db.execute(
                    "SELECT tbl, place, hash FROM facts WHERE tbl = ? AND place >= 0 AND place < ? "
                    "AND body IS NOT NULL LIMIT ?",
                    (table, before_ms, at_most - deleted),
                ).fetchall()
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany("UPDATE facts SET body = NULL WHERE tbl = ? AND place = ? AND hash = ?", found)
                self._db.execute("COMMIT")
                for tbl, _, digest in found:
                    self._recent.pop((tbl, digest), None)
                deleted += len(found)
            return deleted
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise failure(self.path, error) from None

    def close(self) -> None:
        """Give the file free."""
        self._db.close()
        os.close(self._lock)

    # --- as a store of facts ----------------------------------------------------------------------------------------

    def get(self, table: str, key: Key) -> Fact | None:
        """Return a fact."""
        found = (TABLE_IDS[table], keys.digest(table, key))
        kept = self._pending.get(found) or self._recent.get(found)
        if kept is None:
            kept = self._read(found, keys.place(table, key))
            if kept is None:
                return None
            self._recent[found] = kept
        return kept.fact

    def put(self, table: str, key: Key, fact: Fact) -> None:
        """Keep a new fact."""
        new_id = (TABLE_IDS[table], keys.digest(table, key))
        is_open = keys.is_open(key)
        alias = keys.open_alias(key) if is_open else keys.alias_of(table, key)
        hashed = None if alias is None else _alias_hash(alias)
        ordinal = keys.ordinal_of(key) if is_open else 0
        self._pending[new_id] = _Kept(fact, keys.place(table, key), hashed, ordinal)
        if hashed is not None:
            self._new_by_alias.setdefault((new_id[0], hashed), []).append(new_id)
        if is_open:
            self._has_open.add(table)

    def touch(self, table: str, key: Key) -> None:
        """Note that a fact has changed."""
        changed = (TABLE_IDS[table], keys.digest(table, key))
        kept = self._pending.get(changed)
        if kept is None:
            kept = self._pending[changed] = self._recent.pop(changed)

    def has_open(self, table: str) -> bool:
        """Whether the table holds a cut-off fact."""
        return table in self._has_open

    def settled(self, table: str, alias: Key) -> int:
        """Return how many settled facts have the alias."""
        tbl, hashed = TABLE_IDS[table], _alias_hash(alias)
        new = sum(not self._pending[each].ordinal for each in self._new_by_alias.get((tbl, hashed), ()))
        known = self._db.execute(
            "SELECT count(*) FROM facts WHERE tbl = ? AND place = ? AND alias = ? AND ordinal = 0",
            (tbl, keys.place(table, keys.open_key(alias, 1)), hashed),
        ).fetchone()[0]
        assert isinstance(known, int)
        return new + known

    def cut_off(self, table: str, alias: Key) -> Iterator[tuple[int, Fact]]:
        """Yield the cut-off facts of an alias with their ordinals."""
        tbl, hashed = TABLE_IDS[table], _alias_hash(alias)
        for each in self._new_by_alias.get((tbl, hashed), ()):
            kept = self._pending[each]
            if kept.ordinal:
                yield kept.ordinal, kept.fact
        place = keys.place(table, keys.open_key(alias, 1))
        new = set(self._new_by_alias.get((tbl, hashed), ()))
        for digest, ordinal, *row in self._db.execute(
            "SELECT hash, ordinal, counted, owner, entry_id, holders, body FROM facts INDEXED BY facts_cut_off "
            "WHERE tbl = ? AND place = ? AND ordinal > 0 AND alias = ? ORDER BY ordinal",
            (tbl, place, hashed),
        ).fetchall():
            found = (tbl, digest)
            if found in new:
                continue
            kept = (
                self._pending.get(found)
                or self._recent.pop(found, None)
                or _Kept(self._fact(*row), place, hashed, ordinal)
            )
            self._pending[found] = kept  # whoever asks may change it
            yield ordinal, kept.fact

    def call(self, table: str, name: Key, key: Key) -> None:
        """Let a fact go by another name too."""
        self._new_names[TABLE_IDS[table], _alias_hash(name)] = keys.place(table, key), keys.digest(table, key)

    def called(self, table: str, name: Key) -> Fact | None:
        """Return the fact that goes by another name; whoever asks may change it."""
        tbl, hashed = TABLE_IDS[table], _alias_hash(name)
        where = (
            self._new_names.get((tbl, hashed))
            or self._db.execute("SELECT place, hash FROM names WHERE tbl = ? AND name = ?", (tbl, hashed)).fetchone()
        )
        if where is None:
            return None
        found = (tbl, where[1])
        kept = self._pending.get(found) or self._recent.pop(found, None) or self._read(found, where[0])
        if kept is None:
            return None
        self._pending[found] = kept
        return kept.fact

    # --- the file ---------------------------------------------------------------------------------------------------

    def _read(self, found: _Id, place: int) -> _Kept | None:
        row = self._db.execute(
            "SELECT alias, ordinal, counted, owner, entry_id, holders, body FROM facts "
            "WHERE tbl = ? AND place = ? AND hash = ?",
            (found[0], place, found[1]),
        ).fetchone()
        return None if row is None else _Kept(self._fact(*row[2:]), place, row[0], row[1])

    def _fact(self, counted: int, owner: int, entry_id: str | None, holders: str, body: str | None) -> Fact:
        parts = tuple(self._parts.get(each) for each in json.loads(holders))
        fact = Fact({} if body is None else json.loads(body), self._parts.get(owner), loaded(entry_id), parts, counted)
        fact.bare = body is None
        return fact

    def _write(self, now: float, marks: Iterable[Mark], gone: Iterable[str]) -> None:
        db, totals = self._db, self.totals
        self._parts.write(part for kept in self._pending.values() for part in (kept.fact.owner, *kept.fact.holders))
        db.executemany(
            "INSERT OR REPLACE INTO names VALUES (?, ?, ?, ?)",
            ((*name, *where) for name, where in self._new_names.items()),
        )
        db.executemany(_UPSERT_FACT, (self._fact_row(each, kept) for each, kept in self._pending.items()))
        db.executemany(_UPSERT_SERIES, (self._series_row(key, now) for key in totals.moved))
        db.executemany("INSERT OR IGNORE INTO labels VALUES (?, ?)", totals.newly_admitted)
        db.executemany(
            "INSERT OR REPLACE INTO births VALUES (?, ?, ?)",
            ((head[0], json.dumps(head[1]), totals.births[head]) for head in totals.newly_born),
        )
        for name, value, known in (("late", totals.late, self._late), ("overflow", totals.overflow, self._overflow)):
            if value != known:
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))
        if self.replaces and not self.silent:
            db.execute("DELETE FROM meta WHERE name = 'silent'")
            self.replaces = False
        db.executemany("DELETE FROM files WHERE path = ?", ((os.fsencode(path),) for path in gone))
        db.executemany(_UPSERT_FILE, ((os.fsencode(mark.path), *mark[1:]) for mark in marks))

    def _fact_row(self, each: _Id, kept: _Kept) -> tuple[Any, ...]:
        fact = kept.fact
        holders = json.dumps([part.ref for part in fact.holders])
        body = None if fact.bare else json.dumps({k: v for k, v in fact.values.items() if v is not None})
        entry = dumped(fact.entry_id)
        return (
            each[0], kept.place, each[1], kept.alias, kept.ordinal, fact.counted, fact.owner.ref, entry, holders, body,
        )  # fmt: skip

    def _series_row(self, key: tuple[str, Labels], now: float) -> tuple[Any, ...]:
        metric, labels = key
        seen = self.totals.histograms.get(key)
        if seen is not None:
            return metric, json.dumps(labels), str(seen.total), json.dumps(seen.counts), now
        return metric, json.dumps(labels), str(self.totals.counters[key]), None, now

    def _load(self) -> None:
        db, totals = self._db, self.totals
        for metric, labels, amount, counts in db.execute("SELECT metric, labels, amount, counts FROM series"):
            key = (metric, tuple(json.loads(labels)))
            if counts is None:
                totals.counters[key] = int(amount)
            else:
                histogram = totals.histograms[key] = Histogram(0)
                histogram.counts, histogram.total = json.loads(counts), int(amount)
        for label, value in db.execute("SELECT label, value FROM labels"):
            totals.admitted[label].add(value)
        for metric, labels, at in db.execute("SELECT metric, labels, at FROM births"):
            totals.births[metric, tuple(json.loads(labels))] = at
        meta = dict(db.execute("SELECT name, value FROM meta"))
        totals.late.update(json.loads(meta.get("late", "{}")))
        totals.overflow.update(json.loads(meta.get("overflow", "{}")))
        self._late, self._overflow = dict(totals.late), dict(totals.overflow)
        if self.replaces:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('silent', '1')")
        self.replaces = self.replaces or "silent" in meta
        self._rules.silent = self.replaces
        names = {number: table for table, number in TABLE_IDS.items()}
        self._has_open = {names[tbl] for tbl in names if db.execute(_HAS_CUT_OFF, (tbl,)).fetchone()}


def _inode_of(path: Path) -> tuple[int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _alias_hash(alias: Key) -> bytes:
    return blake2b(f"{alias!r}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


assert set(TABLE_IDS) == set(COLUMNS)

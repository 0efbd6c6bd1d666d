"""The ledger in memory, for `read`, `report`, `serve --no-state` and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pimetrics import keys
from pimetrics.keys import Key
from pimetrics.ledger.facts import Fact, Facts, row
from pimetrics.ledger.totals import GAVE_WAY, Labels, Totals
from pimetrics.marks import Mark
from pimetrics.rows import COLUMNS, Row


class MemoryLedger:
    """Facts by table and key, and the running totals.

    Args:
        counting: False leaves the totals at zero (see `Facts`).
    """

    def __init__(self, *, counting: bool = True) -> None:
        self.totals = Totals()
        self.broken = False
        """Whether what is in memory cannot be trusted: never here."""
        self._facts: dict[str, dict[Key, Fact]] = {table: {} for table in COLUMNS}
        self._settled: dict[str, dict[Key, int]] = {}  # table to alias to settled facts, for tables with open ones
        self._open: dict[str, dict[Key, list[Key]]] = {table: {} for table in COLUMNS}  # by alias
        self._called: dict[tuple[str, Key], Key] = {}  # table and other name to key
        self._rules = Facts(self, self.totals, counting=counting)
        self.pending = 0
        """Rows since the last commit."""

    @property
    def duplicates(self) -> int:
        """Usage rows that another source had already brought."""
        return self._rules.duplicates

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, in any order, as often as you like."""
        rows = list(rows)
        self.pending += len(rows)
        self._rules.add(rows)

    def commit(self, now: float, marks: Iterable[Mark] = (), gone: Iterable[str] = ()) -> set[tuple[str, Labels]]:
        """Return the series that have moved since the last time; memory remembers neither births nor files."""
        del now, marks, gone
        moved, self.totals.moved = self.totals.moved, set()
        self.totals.newly_admitted.clear()
        self.pending = 0
        return moved

    def name_directories(self) -> None:
        """Give RPC output, which names no working directory, that of its session, where only one session has its id."""
        directories: dict[object, set[str | None]] = {}
        open_ones: list[tuple[object, Fact]] = []
        for key, fact in self._facts["sessions"].items():
            if keys.is_open(key):
                open_ones.append((keys.open_alias(key)[0], fact))
            else:
                directories.setdefault(key[0], set()).add(fact.values.get("cwd"))
        for session_id, fact in open_ones:
            found = directories.get(session_id, set())
            if len(found) == 1:
                for part in fact.holders:
                    part.cwd = next(iter(found))

    def files(self) -> list[Mark]:
        """Return how far files were read before: nothing survives here."""
        return []

    @property
    def is_there(self) -> bool:
        """Whether what is written stands where it was put: nothing is written here."""
        return True

    @property
    def silent(self) -> bool:
        """Whether facts are known but not counted: never here."""
        return False

    def caught_up(self) -> None:
        """Facts count from the start here."""

    def forget_rows(self, before_ms: int, at_most: int = 1000) -> int:
        """Delete the values of old facts, which stay known; return how many."""
        deleted = 0
        for table, facts in self._facts.items():
            for key, fact in facts.items():
                if not fact.bare and 0 <= keys.place(table, key) < before_ms:
                    fact.values, fact.bare = {}, True
                    deleted += 1
                    if deleted >= at_most:
                        return deleted
        return deleted

    def close(self) -> None:
        """There is nothing to give free."""

    def facts(self, table: str) -> Iterator[tuple[Key, Fact]]:
        """Yield the facts of a table that have not given way to a settled twin."""
        settled = self._settled.get(table)
        for key, fact in self._facts[table].items():
            if fact.bare or fact.counted == GAVE_WAY:
                continue
            if settled is None or not keys.is_open(key) or not keys.gives_way(key, settled):
                yield key, fact

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the visible rows of a table as column values, `row_id` and times (epoch ms) included."""
        return (row(table, key, fact) for key, fact in self.facts(table))

    # --- as a store of facts ----------------------------------------------------------------------------------------

    def get(self, table: str, key: Key) -> Fact | None:
        """Return a fact."""
        return self._facts[table].get(key)

    def put(self, table: str, key: Key, fact: Fact) -> None:
        """Keep a new fact."""
        self._facts[table][key] = fact
        if keys.is_open(key):
            if table not in self._settled:
                settled = self._settled[table] = {}
                for other in self._facts[table]:
                    alias = keys.alias_of(table, other)
                    if alias is not None:
                        settled[alias] = settled.get(alias, 0) + 1
            self._open[table].setdefault(keys.open_alias(key), []).append(key)
            return
        known = self._settled.get(table)
        if known is not None:
            alias = keys.alias_of(table, key)
            if alias is not None:
                known[alias] = known.get(alias, 0) + 1

    def touch(self, table: str, key: Key) -> None:
        """Facts are changed in place; there is nothing to note."""

    def has_open(self, table: str) -> bool:
        """Whether the table holds a cut-off fact."""
        return table in self._settled

    def settled(self, table: str, alias: Key) -> int:
        """Return how many settled facts have the alias."""
        return self._settled.get(table, {}).get(alias, 0)

    def cut_off(self, table: str, alias: Key) -> Iterator[tuple[int, Fact]]:
        """Yield the cut-off facts of an alias with their ordinals."""
        for key in self._open[table].get(alias, ()):
            yield keys.ordinal_of(key), self._facts[table][key]

    def call(self, table: str, name: Key, key: Key) -> None:
        """Let a fact go by another name too."""
        self._called[table, name] = key

    def called(self, table: str, name: Key) -> Fact | None:
        """Return the fact that goes by another name."""
        key = self._called.get((table, name))
        return None if key is None else self._facts[table].get(key)

"""The ledger in memory: each fact once, for `read`, `report` and tests.

Adding a row is idempotent, so reading anything twice is harmless; the order of sources never matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pimetrics import keys
from pimetrics.keys import Key
from pimetrics.ledger.merge import merge
from pimetrics.ledger.totals import GAVE_WAY, Totals
from pimetrics.rows import COLUMNS, Row


class Fact:
    """One fact: what is known of it, and who holds it.

    Attributes:
        values: Merged columns.
        owner: The part with the earliest header among those that hold it.
        entry_id: Its entry in the owner's session file.
        source: Smallest source name among those that hold it.
        parts: Names of the parts that hold it.
        counted: Which of its metrics have moved (see `totals`).
    """

    __slots__ = ("counted", "entry_id", "owner", "parts", "source", "values")

    def __init__(self, row: Row) -> None:
        self.values = row.values
        self.owner = row.part
        self.entry_id = row.entry_id
        self.source = row.part.source
        self.parts: tuple[tuple[str, int], ...] = (row.part.name,)
        self.counted = 0


class MemoryLedger:
    """Facts by table and key, and the running totals."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.duplicates = 0
        """Usage rows that another source had already brought."""
        self._facts: dict[str, dict[Key, Fact]] = {table: {} for table in COLUMNS}
        self._settled: dict[str, dict[Key, int]] = {}  # table to alias to settled facts, for tables with open ones
        self._open: dict[str, dict[Key, list[Key]]] = {table: {} for table in COLUMNS}  # by alias

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, in any order, as often as you like."""
        totals = self.totals
        for row in rows:
            table, key = row.table, row.key
            facts = self._facts[table]
            fact = facts.get(key)
            if fact is None:
                facts[key] = fact = Fact(row)
                self._new(table, key, fact)
                fact.counted = totals.count(table, fact.values, fact.counted)
                continue
            self._seen_again(table, fact, row)
            counted = fact.counted
            if fact.values == row.values:
                continue
            before = totals.counted_moves(table, fact.values, counted)
            if merge(fact.values, row.values):
                if before != totals.counted_moves(table, fact.values, counted):
                    totals.revise(table)
                fact.counted = totals.count(table, fact.values, counted)

    def facts(self, table: str) -> Iterator[tuple[Key, Fact]]:
        """Yield the facts of a table that have not given way to a settled twin."""
        settled = self._settled.get(table)
        for key, fact in self._facts[table].items():
            if settled is None or not keys.is_open(key) or not keys.gives_way(key, settled):
                yield key, fact

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the visible rows of a table as column values, `row_id` and times (epoch ms) included."""
        for key, fact in self.facts(table):
            row = dict(fact.values)
            row["row_id"] = keys.row_id(table, key)
            row["session_id"] = fact.owner.session_id
            row["source"] = fact.source
            if table == "usage":
                row["on_active_branch"] = fact.owner.is_active(fact.entry_id)
            yield row

    def _seen_again(self, table: str, fact: Fact, row: Row) -> None:
        part = row.part
        if part.name not in fact.parts:
            fact.parts += (part.name,)
            fact.source = min(fact.source, part.source)
            self.duplicates += table == "usage"
        if part is not fact.owner and part.rank <= fact.owner.rank:
            fact.owner, fact.entry_id = part, row.entry_id

    def _new(self, table: str, key: Key, fact: Fact) -> None:
        """Let a cut-off fact and its settled twin count as one."""
        if keys.is_open(key):
            settled = self._settled.get(table)
            if settled is None:
                settled = self._settled[table] = {}
                for other in self._facts[table]:
                    alias = keys.alias_of(table, other)
                    if alias is not None:
                        settled[alias] = settled.get(alias, 0) + 1
            self._open[table].setdefault(keys.open_alias(key), []).append(key)
            if keys.gives_way(key, settled):
                fact.counted = GAVE_WAY  # its twin is here: nothing of it counts
            return
        settled = self._settled.get(table)
        if settled is None:
            return
        alias = keys.alias_of(table, key)
        if alias is None:
            return
        settled[alias] = settled.get(alias, 0) + 1
        for other in self._open[table].get(alias, ()):
            cut_off = self._facts[table][other]
            if 0 < cut_off.counted != GAVE_WAY and keys.gives_way(other, settled):
                fact.counted |= cut_off.counted
                cut_off.counted = GAVE_WAY
                self.totals.revise(table)
                break

"""What a ledger does with rows, wherever it keeps them: each fact once, counters at most once per fact and metric.

`Facts` holds the rules; a `Store` holds the facts (in memory, on disk). Adding a row is idempotent, so reading anything
twice is harmless; the order of sources never matters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from pimetrics import keys
from pimetrics.keys import Key
from pimetrics.ledger.merge import merge
from pimetrics.ledger.totals import GAVE_WAY, Totals
from pimetrics.rows import Part, Row


class Fact:
    """One fact: what is known of it, and who holds it.

    Attributes:
        values: Merged columns.
        owner: The part with the earliest header among those that hold it.
        entry_id: Its entry in the session file of its owner, or of a copy of it.
        holders: The parts that hold it, each name once.
        counted: Which of its metrics have moved (see `totals`).
        bare: True when retention has deleted its values: it is only known to exist, and counts nothing any more.
    """

    __slots__ = ("bare", "counted", "entry_id", "holders", "owner", "values")

    def __init__(
        self, values: dict[str, Any], owner: Part, entry_id: str | None, holders: tuple[Part, ...], counted: int
    ) -> None:
        self.bare = False
        self.values = values
        self.owner = owner
        self.entry_id = entry_id
        self.holders = holders
        self.counted = counted

    @property
    def source(self) -> str:
        """Smallest source name among those that hold it."""
        holders = self.holders
        return holders[0].source if len(holders) == 1 else min(part.source for part in holders)

    @property
    def on_active_branch(self) -> bool | None:
        """Whether it is on the branch that its session ended on, by the fullest file of that session."""
        owner = self.owner
        if self.holders == (owner,):
            return owner.is_active(self.entry_id)
        trees = [
            part
            for part in self.holders
            if part.leaf is not None and (part.session_id, part.cwd) == (owner.session_id, owner.cwd)
        ]
        if not trees:
            return owner.is_active(self.entry_id)
        return max(trees, key=lambda part: (len(part.parents), part.source)).is_active(self.entry_id)


def row(table: str, key: Key, fact: Fact) -> dict[str, Any]:
    """Return a fact as column values, `row_id` and times (epoch ms) included."""
    found = dict(fact.values)
    found["row_id"] = keys.row_id(table, key)
    found["session_id"] = fact.owner.session_id
    found["source"] = fact.source
    if table == "usage":
        found["on_active_branch"] = fact.on_active_branch
    return found


class Store(Protocol):
    """Where facts are kept. What `add` changes on a fact after `get` or `put` is told with `touch`."""

    def get(self, table: str, key: Key) -> Fact | None:
        """Return a fact."""

    def put(self, table: str, key: Key, fact: Fact) -> None:
        """Keep a new fact."""

    def touch(self, table: str, key: Key) -> None:
        """Note that a fact has changed."""

    def has_open(self, table: str) -> bool:
        """Whether the table holds a cut-off fact; False lets settled ones skip the search for a twin."""

    def settled(self, table: str, alias: Key) -> int:
        """Return how many settled facts have the alias."""

    def cut_off(self, table: str, alias: Key) -> Iterable[tuple[int, Fact]]:
        """Return the cut-off facts of an alias with their ordinals; a change of one of them is noted by itself."""

    def call(self, table: str, name: Key, key: Key) -> None:
        """Let a fact go by another name too."""

    def called(self, table: str, name: Key) -> Fact | None:
        """Return the fact that goes by another name; a change of it is noted by itself."""


class Facts:
    """The rules.

    Args:
        store: Where facts are kept.
        totals: What they move.
        counting: False moves nothing: tables and reports are made of facts, and do not pay for counters.
    """

    def __init__(self, store: Store, totals: Totals, *, counting: bool = True) -> None:
        self._counting = counting
        self.totals = totals
        self.silent = False
        """Facts are known but not counted: a ledger that replaces a lost one must not show history again."""
        self.duplicates = 0
        """Usage rows that another source had already brought."""
        self._store = store

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, in any order, as often as you like."""
        totals, store, silent = self.totals, self._store, self.silent
        for row in rows:
            table, key = row.table, row.key
            fact = store.get(table, key)
            if fact is None:
                fact = Fact(row.values, row.part, row.entry_id, (row.part,), 0)
                store.put(table, key, fact)
                self._pair(table, key, fact)
                if keys.is_done_compaction(key):
                    self._find_twin(row, fact)
                if self._counting:
                    fact.counted = totals.count(table, row.values, fact.counted, silent=silent, part=row.part)
                continue
            if self._meet(fact, row):
                store.touch(table, key)
            if keys.is_done_compaction(key):
                self._find_twin(row, fact)

    def _meet(self, fact: Fact, row: Row) -> bool:
        """Take what a row says of a fact that is known; return whether the fact has changed."""
        changed = self._seen_again(row.table, fact, row)
        return self._merge(row.table, fact, row.values, row.part) or changed

    def _merge(self, table: str, fact: Fact, news: dict[str, Any], part: Part) -> bool:
        """Merge columns into a fact and count what is final now; return whether the columns have changed."""
        totals, counted, values = self.totals, fact.counted, fact.values
        if fact.bare or values == news:
            return False
        if not self._counting:
            return merge(values, news)
        before = totals.counted_moves(table, values, counted)
        if not merge(values, news):
            return False
        if before != totals.counted_moves(table, values, counted):
            totals.revise(table)
        fact.counted = totals.count(table, values, counted, silent=self.silent, part=part)
        return True

    # --- compactions that a stream could not anchor -----------------------------------------------------------------

    def _find_twin(self, row: Row, fact: Fact) -> None:
        """Let an anchored compaction and one that a stream could not anchor count, and show, as one: the anchored one.

        Both are found by their session and content. RPC output may tell its session late or never: what has none is
        found by its content alone.
        """
        table, session_id = row.table, row.part.session_id
        if keys.is_unanchored(row.key):
            name = keys.content_name(row.key, session_id)
            twin = self._store.called(table, keys.counterpart(name))
            if twin is not None:
                if fact.counted != GAVE_WAY:
                    self._take_over(table, twin, fact)
                    self._store.touch(table, row.key)
                self._meet(twin, row)
            self._store.call(table, name, row.key)
            return
        for known in {session_id, None}:
            name = keys.content_name(row.key, known)
            lost = self._store.called(table, keys.counterpart(name))
            if (
                lost is not None
                and lost.counted != GAVE_WAY
                and {part.session_id for part in lost.holders} <= {session_id, None}
            ):
                self._take_over(table, fact, lost)
                self._store.touch(table, row.key)
            self._store.call(table, name, row.key)

    def _take_over(self, table: str, fact: Fact, lost: Fact) -> None:
        """Let one fact stand for two: what the other one has moved, it does not move again."""
        fact.counted |= lost.counted
        lost.counted = GAVE_WAY
        self._merge(table, fact, lost.values, fact.owner)
        names = {part.name for part in fact.holders}
        self.duplicates += table == "usage"
        fact.holders += tuple(part for part in lost.holders if part.name not in names)

    # --- who holds a fact -------------------------------------------------------------------------------------------

    def _seen_again(self, table: str, fact: Fact, row: Row) -> bool:
        part, changed = row.part, False
        if part is not fact.holders[-1]:
            others = tuple(holder for holder in fact.holders if holder.name != part.name)
            if len(others) == len(fact.holders):
                self.duplicates += table == "usage"
                changed = True
            fact.holders = (*others, part)  # of a source that is read again, the newer reading
        owner = fact.owner
        if part is owner:
            return changed
        same_session = (part.session_id, part.cwd) == (owner.session_id, owner.cwd)
        if part.rank <= owner.rank:
            entry_id = row.entry_id if row.entry_id is not None or not same_session else fact.entry_id
            changed = changed or part.rank != owner.rank or entry_id != fact.entry_id
            fact.owner, fact.entry_id = part, entry_id
        elif same_session and fact.entry_id is None and row.entry_id is not None:
            fact.entry_id, changed = row.entry_id, True
        return changed

    def _pair(self, table: str, key: Key, fact: Fact) -> None:
        """Let a cut-off fact and its settled twin count as one."""
        store = self._store
        if keys.is_open(key):
            if store.settled(table, keys.open_alias(key)) >= keys.ordinal_of(key):
                fact.counted = GAVE_WAY  # its twin is here: nothing of it counts
            return
        if not store.has_open(table):
            return
        alias = keys.alias_of(table, key)
        if alias is None:
            return
        settled = store.settled(table, alias)
        for ordinal, cut_off in store.cut_off(table, alias):
            if 0 < cut_off.counted != GAVE_WAY and settled >= ordinal:
                fact.counted |= cut_off.counted
                cut_off.counted = GAVE_WAY
                self.totals.revise(table)
                break

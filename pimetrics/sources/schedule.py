"""When to look at what again: what changed lately often, the rest rarely.

And never more looks a second than a core notices, however many files there are.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, Protocol, TypeVar

ACTIVE: Final = 0
RECENT: Final = 1
OLD: Final = 2

_AFTER: Final = (60.0, 600.0)
"""Seconds without a change after which something is no longer active, no longer recent."""

_EVERY: Final = (0.25, 2.0, 30.0)
"""Seconds between two looks, by tier."""

_LOOKS_PER_SECOND: Final = (1000, 200, 200)
"""Most looks a second, by tier; a look costs about 5 us."""


class Timed(Protocol):
    """What can be scheduled.

    Attributes:
        due: When to look next, on the clock that polls use; infinity when it is not scheduled.
        changed: When it was last seen to change.
        tier: One of the above.
    """

    due: float
    changed: float
    tier: int


T = TypeVar("T", bound=Timed)


class Schedule(Generic[T]):
    """Things by when they are due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0
        self._in_tier = [0, 0, 0]

    def add(self, thing: T, due: float) -> None:
        """Take up something new, or set when it is due."""
        if thing.tier < 0:
            thing.tier = OLD
            self._in_tier[OLD] += 1
        thing.due = due
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, thing))

    def drop(self, thing: T) -> None:
        """Never look at it again."""
        if thing.tier >= 0:
            self._in_tier[thing.tier] -= 1
        thing.tier, thing.due = -1, float("inf")

    def again(self, thing: T, now: float) -> None:
        """Look again after the time that fits its tier."""
        age = now - thing.changed
        tier = ACTIVE if age < _AFTER[0] else RECENT if age < _AFTER[1] else OLD
        if thing.tier >= 0:
            self._in_tier[thing.tier] -= 1
        self._in_tier[tier] += 1
        thing.tier = tier
        self.add(thing, now + max(_EVERY[tier], self._in_tier[tier] / _LOOKS_PER_SECOND[tier]))

    def pop(self, now: float) -> list[T]:
        """Return what is due."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            due, _, thing = heapq.heappop(self._heap)
            if due == thing.due:
                thing.due = float("inf")
                found.append(thing)
        return found

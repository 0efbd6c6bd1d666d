"""New series are held at 0 for a while, so that `increase()` never loses their first increment.

PromQL sees an increase only between two samples of a series. A series that appears at 5 gives no increase at all: the
first 5 calls of a new model would be missing from every dashboard. So a scraper that meets a new series is shown 0
until the hold has passed since the series was first exposed; with a hold longer than the scrape interval each of
several Prometheus servers gets a sample at 0. Others (a person with curl) see the truth at once.

A series is named by its open labels here: when the first call of a tool makes `tool="bash"` appear, all its outcomes
appear with it, at 0, and need no hold of their own later.
"""

from __future__ import annotations

from typing import Final

from pimetrics.names import METRICS, OPEN_LABELS

Labels = tuple[str, ...]
Head = tuple[str, Labels]

HOLD_SECONDS: Final = 60.0
"""Default hold: as long as the longest scrape interval that is common."""

RELEASED: Final = float("-inf")

CAUGHT_UP: Final[Head] = ("pimetrics_ready", ())
"""Stored with the births: a first catch-up is done. Without it a ledger that was begun with nothing to read would take
what came between that start and the first scrape for history, after a restart."""


def head_of(metric: str, labels: Labels) -> Head | None:
    """Return what a series is born with; None for one that exists from the start."""
    family = METRICS[metric]
    if not any(name in OPEN_LABELS for name in family.labels):
        return None
    return (metric, labels[:-1] if family.labels[-1] in family.closed else labels)


class Births:
    """When each new series was first exposed to a scraper. Clocks are passed in.

    Args:
        hold: Seconds that a scraper is shown 0.

    Attributes:
        fresh: What has changed and is not stored yet: head to time of birth, or `RELEASED`.
    """

    def __init__(self, hold: float = HOLD_SECONDS) -> None:
        self._hold = hold
        self._at: dict[Head, float] = {}
        self.fresh: dict[Head, float] = {}

    def load(self, stored: dict[Head, float]) -> None:
        """Take over what was stored."""
        self._at = dict(stored)
        self.fresh = {}

    def release(self, heads: set[Head]) -> None:
        """Show these as they are from the start: what a first catch-up finds is history, and no increase."""
        for head in heads:
            self._set(head, RELEASED)

    def is_held(self, head: Head, now: float) -> bool:
        """Whether a scraper is shown 0 at `now` (Unix seconds); being asked for the first time is the birth."""
        born = self._at.get(head)
        if born is None:
            if self._hold <= 0:
                self._set(head, RELEASED)
                return False
            self._set(head, now)
            return True
        if born == RELEASED:
            return False
        if now < born:
            self._set(head, now)  # its birth was told by a clock that was ahead, and would last until that time comes
            return True
        if now - born >= self._hold:
            self._set(head, RELEASED)  # for good: a clock that goes back must not make a counter fall
            return False
        return True

    def _set(self, head: Head, at: float) -> None:
        self._at[head] = at
        self.fresh[head] = at

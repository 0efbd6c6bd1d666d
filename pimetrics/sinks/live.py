"""What is going on now, for gauges: runs, tools and queues of the sources that are followed.

A source that has been silent for the idle time closes its gauges: pi crashed, or its user left. Counters are never
closed by silence (see the design of `unfinished`).
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from pimetrics.names import QUEUES

IDLE_SECONDS: Final = 900.0
"""Default idle time. Longer than nearly every tool call and request, shorter than a coffee break that matters."""


class Doing(NamedTuple):
    """What one source is doing.

    Attributes:
        session: Name of its session, as far as it is known.
        tools: Names of the tools that run, how often each.
        running_since: Start of the run in progress, epoch ms (0 when unknown); None without one.
        queued: Messages that wait, by queue.
        last_time: Latest time seen in it, epoch ms.
    """

    session: tuple[str | None, str | None]
    tools: Counter[str]
    running_since: int | None
    queued: dict[str, int]
    last_time: int | None


class Gauges(NamedTuple):
    """Gauge values; times are Unix seconds, 0 without one."""

    sessions_active: int
    runs_active: int
    oldest_run_start: float
    tools: Counter[str]
    queued: dict[str, int]
    last_event: float


class Live:
    """Keeps what each source is doing. Clocks are passed in.

    Args:
        idle: Seconds of silence after which a source closes its gauges.
    """

    def __init__(self, idle: float = IDLE_SECONDS) -> None:
        self._idle = idle
        self._doing: dict[str, tuple[Doing, float]] = {}
        self._tools_seen: set[str] = set()
        self._last_event = 0

    def update(self, source: str, doing: Doing, at: float) -> None:
        """Note what a source is doing, as of `at` (Unix seconds)."""
        self._doing[source] = doing, at
        self._tools_seen.update(doing.tools)
        self._last_event = max(self._last_event, doing.last_time or 0)

    def end(self, source: str) -> None:
        """A source has ended."""
        self._doing.pop(source, None)

    def gauges(self, now: float) -> Gauges:
        """Return the gauges at `now` (Unix seconds); every tool that ever ran is there, at 0 when it does not run."""
        active = [doing for doing, at in self._doing.values() if now - at <= self._idle]
        starts = [doing.running_since / 1000 for doing in active if doing.running_since is not None]
        tools: Counter[str] = Counter(dict.fromkeys(self._tools_seen, 0))
        queued = dict.fromkeys(QUEUES, 0)
        for doing in active:
            tools.update(doing.tools)
            for queue, depth in doing.queued.items():
                queued[queue] += depth
        return Gauges(
            len({doing.session for doing in active}),
            len(starts),
            min((start for start in starts if start), default=0.0),
            tools,
            queued,
            self._last_event / 1000,
        )

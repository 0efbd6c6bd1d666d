"""The charts of `report --html`: which stand above which table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pimetrics import plots
from pimetrics.plots import spans
from pimetrics.plots.inline import dark_rules, inline
from pimetrics.plots.rendering import Chart
from pimetrics.reports import top
from pimetrics.reports.html import Picture
from pimetrics.reports.pages import TITLES
from pimetrics.reports.selection import Tabled, Zone
from pimetrics.sinks.frames import Tables, tables

COLOURS: Final = dark_rules("svg")
"""CSS that turns the charts dark."""

_EITHER: Final = (("reported", "arrival"), ("entry",))
"""Sources of durations: measured ones, and where there are none, those of session entries."""


class Pictures:
    """Draws what a report is about.

    Args:
        facts: What about.
        zone: In whose time.
    """

    def __init__(self, facts: Tabled, zone: Zone) -> None:
        found = tables(facts.rows)
        self._tables = Tables(**{name: spans.in_zone(table, zone.local) for name, table in found.items()})
        self._facts = facts
        self._zone = zone
        self._models = plots.ranked(self._tables.usage)

    def above(self, title: str) -> list[Picture]:
        """Return the charts that stand above the table of a title; those without data are left out."""
        draw = _CHARTS.get(title)
        return [Picture(*inline(chart)) for chart in draw(self) if not plots.is_empty(chart)] if draw else []

    def by_time(self, every: spans.Every | None) -> Iterator[Chart]:
        """Draw cost and cache hits over time."""
        usage, zone = self._tables.usage, self._zone.name
        yield plots.cost_by_day(usage, models=self._models, every=every, timezone=zone)
        yield plots.cache_hit_rate(usage, models=self._models, every=every, timezone=zone)

    def by_model(self) -> Iterator[Chart]:
        """Draw what models cost, and how fast they are."""
        usage = self._tables.usage
        yield plots.cost_by(usage, models=self._models)
        yield _first_of(lambda sources: plots.request_latency(usage, sources=sources))
        yield _first_of(lambda sources: plots.tokens_per_second(usage, sources=sources))

    def by_column(self, column: str, *, with_tools: bool = False) -> Iterator[Chart]:
        """Draw what each name of a column cost."""
        yield plots.cost_by(self._tables.usage, column, sessions=self._tables.sessions, with_tools=with_tools)

    def by_tool(self) -> Iterator[Chart]:
        """Draw how long tools take, and what they put into the context."""
        calls = self._tables.tool_calls
        yield _first_of(lambda sources: plots.tool_latency(calls, sources=sources))
        yield plots.context_share(self._tables.messages, calls)

    def by_error(self) -> Iterator[Chart]:
        """Draw what retries cost and brought."""
        yield plots.retry_waste(self._tables.retries)
        yield plots.retry_success(self._tables.retries)

    def by_compaction(self) -> Iterator[Chart]:
        """Draw what compactions take out of a growing context."""
        t, zone = self._tables, self._zone.name
        yield plots.compaction_savings(t.compactions, timezone=zone)
        yield plots.context_growth(t.usage, t.compactions)

    def by_prompt(self) -> Iterator[Chart]:
        """Draw what prompts cost, and how the dearest went."""
        t, zone = self._tables, self._zone.name
        yield plots.cost_per_prompt(t.usage)
        dearest = [each["prompt_id"] for each in top.prompts(self._facts, 2, self._zone) if each["prompt_id"]]
        if dearest:
            yield plots.waterfall(
                t.usage,
                t.tool_calls,
                t.turns,
                prompt_id=dearest[0],
                title="The most expensive prompt as it went",
                timezone=zone,
            )

    def by_turn(self) -> Iterator[Chart]:
        """Draw what made the dearest turns expensive."""
        yield plots.dearest_turns(self._tables.usage, timezone=self._zone.name)


_CHARTS: Final[dict[str, Callable[[Pictures], Iterator[Chart]]]] = {
    TITLES["day"]: lambda p: p.by_time(None),  # weeks or months, where days would be too many
    TITLES["week"]: lambda p: p.by_time("week"),
    TITLES["month"]: lambda p: p.by_time("month"),
    TITLES["model"]: Pictures.by_model,
    TITLES["provider"]: lambda p: p.by_column("provider"),
    TITLES["project"]: lambda p: p.by_column("project"),
    TITLES["session"]: lambda p: p.by_column("session_id", with_tools=True),
    TITLES["operation"]: lambda p: p.by_column("operation"),
    TITLES["tool"]: Pictures.by_tool,
    TITLES["error"]: Pictures.by_error,
    TITLES["compaction"]: Pictures.by_compaction,
    TITLES["compaction reason"]: Pictures.by_compaction,
    TITLES["prompt"]: Pictures.by_prompt,
    TITLES["turn"]: Pictures.by_turn,
}


def _first_of(drawn: Callable[[Sequence[str]], Chart]) -> Chart:
    """Return the chart of measured durations, else that of those of session entries."""
    measured, entries = (drawn(sources) for sources in _EITHER)
    return entries if plots.is_empty(measured) else measured

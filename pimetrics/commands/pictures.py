"""The charts of `report --html`: which stand above which table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import polars as pl
from altair.typing import ChartType

from pimetrics import plots
from pimetrics.plots import spans
from pimetrics.plots.inline import dark_rules, inline
from pimetrics.reports import top
from pimetrics.reports.html import Picture
from pimetrics.reports.pages import TITLES
from pimetrics.reports.selection import Facts, Zone
from pimetrics.sinks.frames import Tables, tables

COLOURS: Final = dark_rules("svg")
"""CSS that turns the charts dark."""

_QUARTER_MS: Final = 900_000
"""Every zone is off UTC by whole quarters of an hour, and changes at whole quarters."""

_EITHER: Final = (("reported", "arrival"), ("entry",))
"""Sources of durations: measured ones, and where there are none, those of session entries."""


class Pictures:
    """Draws what a report is about.

    Args:
        facts: What about.
        zone: In whose time.
    """

    def __init__(self, facts: Facts, zone: Zone) -> None:
        found = tables(facts.rows)
        self._tables = Tables(**{name: _local(table, zone) for name, table in found.items()})
        self._facts = facts
        self._zone = zone
        self._models = plots.ranked(self._tables.usage)

    def above(self, title: str) -> list[Picture]:
        """Return the charts that stand above the table of a title; those without data are left out."""
        draw = _CHARTS.get(title)
        return [Picture(*inline(chart)) for chart in draw(self) if not plots.is_empty(chart)] if draw else []

    def by_time(self, every: spans.Every | None) -> Iterator[ChartType]:
        """Draw cost and cache hits over time."""
        usage, zone = self._tables.usage, self._zone.name
        yield plots.cost_by_day(usage, models=self._models, every=every, timezone=zone)
        yield plots.cache_hit_rate(usage, models=self._models, every=every, timezone=zone)

    def by_model(self) -> Iterator[ChartType]:
        """Draw what models cost, and how fast they are."""
        usage = self._tables.usage
        yield plots.cost_by(usage, models=self._models)
        yield _first_of(lambda sources: plots.request_latency(usage, sources=sources))
        yield _first_of(lambda sources: plots.tokens_per_second(usage, sources=sources))

    def by_column(self, column: str, *, with_tools: bool = False) -> Iterator[ChartType]:
        """Draw what each name of a column cost."""
        yield plots.cost_by(self._tables.usage, column, sessions=self._tables.sessions, with_tools=with_tools)

    def by_tool(self) -> Iterator[ChartType]:
        """Draw how long tools take, and what they put into the context."""
        calls = self._tables.tool_calls
        yield _first_of(lambda sources: plots.tool_latency(calls, sources=sources))
        yield plots.context_share(self._tables.messages, calls)

    def by_error(self) -> Iterator[ChartType]:
        """Draw what retries cost and brought."""
        yield plots.retry_waste(self._tables.retries)
        yield plots.retry_success(self._tables.retries)

    def by_compaction(self) -> Iterator[ChartType]:
        """Draw what compactions take out of a growing context."""
        t, zone = self._tables, self._zone.name
        yield plots.compaction_savings(t.compactions, timezone=zone)
        yield plots.context_growth(t.usage, t.compactions)

    def by_prompt(self) -> Iterator[ChartType]:
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

    def by_turn(self) -> Iterator[ChartType]:
        """Draw what made the dearest turns expensive."""
        yield plots.dearest_turns(self._tables.usage, timezone=self._zone.name)


_CHARTS: Final[dict[str, Callable[[Pictures], Iterator[ChartType]]]] = {
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


def _first_of(drawn: Callable[[Sequence[str]], ChartType]) -> ChartType:
    """Return the chart of measured durations, else that of those of session entries."""
    measured, entries = (drawn(sources) for sources in _EITHER)
    return entries if plots.is_empty(measured) else measured


def _local(table: pl.DataFrame, zone: Zone) -> pl.DataFrame:
    """Turn times into those of a zone, as the tables of the report have them; polars knows fewer zones than Python."""
    quarters = (pl.col("time").dt.epoch("ms") // _QUARTER_MS).alias("quarter")
    known = table.select(quarters).unique().drop_nulls()["quarter"].to_list()
    offsets = [_offset_ms(quarter * _QUARTER_MS, zone) for quarter in known]
    moved = pl.col("time").dt.epoch("ms") + quarters.replace_strict(known, offsets, default=0, return_dtype=pl.Int64)
    return table.with_columns(moved.cast(pl.Datetime("ms")).alias("time"))


def _offset_ms(at: int, zone: Zone) -> int:
    offset = zone.local(at).utcoffset()
    return round(offset.total_seconds() * 1000) if offset else 0

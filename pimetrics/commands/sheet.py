"""`report --html`: the views of a report and their charts as one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pimetrics import __version__
from pimetrics.commands.pictures import COLOURS, Pictures
from pimetrics.names import printable
from pimetrics.reports import views
from pimetrics.reports.headline import rejected
from pimetrics.reports.html import Html
from pimetrics.reports.pages import OVERVIEW, Page
from pimetrics.reports.selection import Facts, Range, Selected, Tabled, Zone

_MOST_ROWS: Final = 20
"""Rows of a table of the overview; a view that is asked for has all."""

_TOP: Final = 10
"""Most expensive prompts and turns of the overview."""


def sheet(
    facts: Tabled,
    summary: dict[str, Any],
    zone: Zone,
    within: Range,
    *,
    by: Sequence[str],
    top: int | None,
    now_ms: int,
) -> str:
    """Return the page.

    Args:
        facts: What about.
        summary: What `report --json` says of them.
        zone: In whose time.
        within: The range they lie in.
        by: Views, whole; none, and no `top`, gives the overview.
        top: How many of the most expensive prompts and turns.
        now_ms: When it is made, epoch ms.
    """
    out = Html("What pi did and cost", _period(facts, zone), Pictures(facts, zone).above, COLOURS)
    page = Page(out, facts, zone)
    is_overview = not by and not top
    page.headline(summary)
    for view in by or (OVERVIEW if is_overview else ()):
        page.view(view, most=_MOST_ROWS if is_overview else None)
    if top or is_overview:
        page.top(top or _TOP)
    page.legend()
    if isinstance(facts, Selected):
        page.range(within, facts)
    if said := rejected(summary):
        out.note(f"{said}.", apart=True)
    return out.document(
        f"Made by pimetrics {__version__} at {zone.local(now_ms):%Y-%m-%d %H:%M} ({printable(zone.name)}) from "
        f"{summary['records']['total']:,} records. Costs are those that pi reports."
    )


def _period(facts: Facts, zone: Zone) -> str:
    days = [group.label[0] for group in views.groups(facts, views.VIEWS["day"], zone) if group.label[0]]
    if not days:
        return "Nothing with a time"
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"

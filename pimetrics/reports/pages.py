"""What `report` shows to people: a headline, then a table a view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pimetrics.ledger.totals import pico
from pimetrics.names import UNKNOWN, printable
from pimetrics.reports import top, views, wording
from pimetrics.reports.headline import headline
from pimetrics.reports.layout import Cell, Column, Row, Writer, name, words
from pimetrics.reports.selection import Facts, Range, Selected, Zone, iso
from pimetrics.reports.views import VIEWS, Group

_NOT_LABELLED: Final = {
    "day": "time unknown", "week": "time unknown", "month": "time unknown", "session_id": "no session",
    "project": "no project",
}  # fmt: skip

TITLES: Final = {
    "day": "Days", "week": "Weeks", "month": "Months", "model": "Models", "provider": "Providers", "tool": "Tools",
    "session": "Sessions", "project": "Projects", "operation": "What was paid for", "error": "Errors",
    "compaction": "Compactions", "compaction reason": "Compactions (tokens: mean)", "prompt": "Most expensive prompts",
    "turn": "Most expensive turns",
}  # fmt: skip
"""Titles of the tables."""

OVERVIEW: Final = ("day", "model", "tool", "project", "compaction", "error")
"""Views that most people want."""

_MOST_ROWS: Final = 10
"""Rows of a table in the overview; the rest is one line there, and in full with `--by`."""


class Page:
    """Writes the parts of a report.

    Args:
        out: Where to.
        ledger: What about.
        zone: In whose time.
    """

    def __init__(self, out: Writer, ledger: Facts, zone: Zone) -> None:
        self._out = out
        self._ledger = ledger
        self._zone = zone

    def headline(self, summary: dict[str, Any]) -> None:
        """Say what it cost, in two lines, and what was done for it."""
        everything = views.total(views.groups(self._ledger, VIEWS["project"], self._zone))
        self._out.facts(headline(summary, everything))

    def overview(self) -> None:
        """Show the tables that most people want, ten rows of each at most."""
        for view in OVERVIEW:
            self.view(view, most=_MOST_ROWS)

    def view(self, by: str, most: int | None = None) -> None:
        """Show one view; `most` rows of it, and the rest as one."""
        if by == "tool":
            self._tools(most)
        elif by == "error":
            self._errors()
        elif by == "compaction":
            self._compactions(most)
        else:
            self._groups(by, most)

    # --- groups -----------------------------------------------------------------------------------------------------

    def _groups(self, by: str, most: int | None) -> None:
        view = VIEWS[by]
        found = views.groups(self._ledger, view, self._zone)
        if not found or (most and by == "project" and len(found) < 2):
            return
        with_tools = by in {"session", "operation"}
        label = _session_label(self._ledger, self._zone) if by == "session" else _label(view.names)
        rows = [(label(group), group) for group in found]
        total = views.total(found)
        if most and len(rows) > most:
            # The latest days, but the most expensive of everything else.
            kept, rest = (rows[1 - most :], rows[: 1 - most]) if view.by_time else (rows[: most - 1], rows[most - 1 :])
            others = views.total(group for _, group in rest)
            word = f"{len(rest)} earlier" if view.by_time else f"{len(rest)} more"
            line = ([words(word, "dim"), *[words("")] * (len(rows[0][0]) - 1)], others)
            rows = [line, *kept] if view.by_time else [*kept, line]
        digits = wording.decimals([group.all.cost_pico for group in [*(g for _, g in rows), total]])
        heads = _SESSION_COLUMNS if by == "session" else [Column(names) for names in view.names]
        if by == "model":
            heads = [Column("model")]
        blank = [words("total"), *[words("")] * (len(heads) - 1)]
        has_work = "prompts" in view.counts
        self._out.table(
            TITLES[by],
            [*heads, *(_of_sessions(each) if with_tools else each for each in _GROUP_COLUMNS)],
            [[*cells, *_figures(group, digits, with_tools=with_tools, has_work=has_work)] for cells, group in rows],
            [*blank, *_figures(total, digits, with_tools=with_tools, has_work=has_work)] if len(rows) > 1 else None,
        )

    # --- the other tables -------------------------------------------------------------------------------------------

    def _tools(self, most: int | None) -> None:
        found = views.tools(self._ledger)
        rows = []
        for each in found[:most]:
            spent, took = each["reported_by_tools"], each["duration_s"]
            rows.append(
                [
                    name(each["tool"]),
                    wording.count(each["calls"]),
                    *(_some(each[end]) for end in ("error", "aborted", "unfinished")),
                    *(wording.duration(took[q]) for q in ("p50", "p95", "max")),
                    wording.duration(took["sum"] if took["count"] else None),
                    wording.size(each["args_bytes"]),
                    wording.size(each["result_bytes"]),
                    wording.money(pico(spent["cost_usd"]), used=spent["usage_rows"] > 0, no_price=spent["no_price"]),
                ]
            )
        if rows:
            self._out.table(TITLES["tool"], _TOOL_COLUMNS, rows)
            self._more(len(found), most, "tool")
            if any(each["duration_source"] == "entry" for each in found[:most]):
                self._out.note("Some times are those of session entries: they include what ran beside the tool.")

    def _errors(self) -> None:
        rows = [
            [
                name(each["error"]),
                _some(each["answers"]),
                _some(each["tokens"]),
                wording.money(pico(each["cost_usd"]), used=each["tokens"] > 0, no_price=each["no_price"]),
                _some(each["retries"]),
                wording.duration(each["backoff_s"] or None),
            ]
            for each in views.errors(self._ledger)
        ]
        if rows:
            self._out.table(TITLES["error"], _ERROR_COLUMNS, rows)

    def _compactions(self, most: int | None) -> None:
        found = views.compactions(self._ledger, self._zone)
        if not found:
            return
        if most:
            self._compactions_by_reason(found)
            return
        rows = [
            [
                wording.moment(each["time"]),
                name(each["session_id"], missing="no session"),
                *(name(each[column]) for column in ("reason", "outcome")),
                wording.count(each["tokens_before"]),
                wording.count(each["tokens_after"]),
                wording.duration(each["duration_s"]),
                _cost(each),
            ]
            for each in found
        ]
        self._out.table(TITLES["compaction"], _COMPACTION_COLUMNS, rows)

    def _compactions_by_reason(self, found: list[dict[str, Any]]) -> None:
        kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for each in found:
            kinds.setdefault((each["reason"], each["outcome"]), []).append(each)
        rows = []
        for (reason, outcome), same in sorted(kinds.items()):
            costs = [pico(each["cost_usd"]) for each in same if each["cost_usd"] is not None]
            rows.append(
                [
                    name(reason),
                    name(outcome),
                    wording.count(len(same)),
                    wording.count(_mean([each["tokens_before"] for each in same])),
                    wording.count(_mean([each["tokens_after"] for each in same])),
                    wording.duration(sum(each["duration_s"] or 0 for each in same) or None),
                    wording.money(sum(costs), used=bool(costs), no_price=sum(each["no_price"] for each in same)),
                ]
            )
        self._out.table(TITLES["compaction reason"], _REASON_COLUMNS, rows)

    def top(self, number: int) -> None:
        """Show the most expensive prompts and turns."""
        for title, found in (
            (TITLES["prompt"], top.prompts(self._ledger, number, self._zone)),
            (TITLES["turn"], top.turns(self._ledger, number, self._zone)),
        ):
            if not found:
                continue
            digits = wording.decimals([pico(each["cost_usd"]) for each in found])
            rows: list[Row] = []
            for each in found:
                is_outside = "prompt_id" in each and each["prompt_id"] is None
                rows.append(
                    [
                        words("outside prompts", "dim") if is_outside else wording.moment(each["time"]),
                        name(each["session_id"], missing="-" if is_outside else "no session"),
                        name(each["project"], missing="-"),
                        words(each["outcome"] or "-"),
                        wording.duration(each["duration_s"]),
                        _some(each["turns"]),
                        name(", ".join(each["models"]), missing="-"),
                        name(_times(each["tools"]), missing="-"),
                        _some(each["tool_errors"]),
                        wording.size(each["tool_result_bytes"]),
                        _some(each["retries"]),
                        _some(each["compactions"]),
                        wording.count(each["total_tokens"]),
                        wording.share(each["cache_hit_rate"]),
                        wording.money(pico(each["cost_usd"]), digits, no_price=each["no_price"]),
                    ]
                )
            self._out.table(title, _TOP_COLUMNS, rows)

    # --- notes ------------------------------------------------------------------------------------------------------

    def legend(self) -> None:
        """Explain the + after an amount, when one is there."""
        found = views.total(views.groups(self._ledger, VIEWS["operation"], self._zone))
        if found.all.no_price and found.all.cost_pico:
            self._out.note(
                "$1.00+ and unpriced: pi knows no price for some of it, so the true cost is higher.", apart=True
            )

    def range(self, within: Range, selected: Selected) -> None:
        """Say which range it is, and what the range leaves out because it has no time."""
        ends = [(word, iso(at, self._zone)) for word, at in (("from", within.since), ("until", within.until))]
        said = " ".join(f"{word} {at[:16].replace('T', ' ')}" for word, at in ends if at)
        self._out.note(f"Only what was done {said} ({printable(self._zone.name)}).")
        rows, cost = selected.untimed()
        if rows:
            self._out.note(f"Left out: {rows:,} usage rows whose time is unknown ({wording.usd(pico(cost))}).")

    def _more(self, found: int, most: int | None, by: str) -> None:
        if most and found > most:
            self._out.note(f"{found - most} more with --by {by}")


_GROUP_COLUMNS: Final = [
    Column("sessions", 9),
    Column("prompts", 8),
    Column("requests", 2),
    Column("tool calls", 7),
    Column("errors", 5),
    Column("retries", 6),
    Column("compactions", 10),
    Column("input", 4),
    Column("output", 3),
    Column("cache read", 4),
    Column("cache write", 5),
    Column("tokens", 0),
    Column("cache hits", 3),
    Column("unfinished", 9),
    Column("by tools", 3),
    Column("cost", 0),
]
_SESSION_COLUMNS: Final = [
    Column("started", 1),
    Column("session", least=17),
    Column("project", 2, least=20),
    Column("name", 11),
]
_TOOL_COLUMNS: Final = [
    Column("tool"), Column("calls"), Column("errors", 1), Column("aborted", 5), Column("unfinished", 4),
    Column("p50", 2), Column("p95", 1), Column("max", 3), Column("total time", 6), Column("arguments", 8),
    Column("results", 7), Column("cost", 2),
]  # fmt: skip
_ERROR_COLUMNS: Final = [
    Column("error"), Column("answers"), Column("tokens", 2), Column("cost"), Column("retries"), Column("waited", 1),
]  # fmt: skip
_COMPACTION_COLUMNS: Final = [
    Column("time"), Column("session", 2, least=17), Column("reason", 1), Column("outcome"), Column("before"),
    Column("after"), Column("time taken", 3), Column("cost"),
]  # fmt: skip
_REASON_COLUMNS: Final = [
    Column("reason"), Column("outcome"), Column("count"), Column("before"), Column("after"), Column("time taken", 1),
    Column("cost"),
]  # fmt: skip
_TOP_COLUMNS: Final = [
    Column("when"), Column("session", 5, least=17), Column("project", 2, least=20), Column("outcome", 7),
    Column("took", 4), Column("turns", 3), Column("models", 6), Column("tools", 1), Column("tool errors", 9),
    Column("results", 8), Column("retries", 9), Column("compactions", 9), Column("tokens"), Column("cache hits", 8),
    Column("cost"),
]  # fmt: skip


def _of_sessions(column: Column) -> Column:
    """Per session and per operation the cost holds what tools reported."""
    return Column("of it by tools", column.rank) if column.title == "by tools" else column


def _figures(group: Group, digits: int, *, with_tools: bool, has_work: bool) -> list[Cell]:
    counts, t = group.counts, group.all.tokens
    by_tools = group.by_tools
    cost = group.all.cost_pico if with_tools else group.headline_pico
    no_price = group.all.no_price if with_tools else group.all.no_price - by_tools.no_price
    missing = wording.NOTHING
    return [
        _some(len(group.sessions)) if has_work and not with_tools else missing,
        _some(counts["prompts"]) if has_work else missing,
        _some(counts["requests"]),
        _some(counts["tool_calls"]) if has_work else missing,
        _some(counts["errors"]),
        _some(counts["retries"]),
        _some(counts["compactions"]),
        *(_some(t[kind]) for kind in ("input", "output", "cache_read", "cache_write")),
        wording.count(group.total_tokens) if group.all.rows else missing,
        wording.share(group.cache_hit_rate) if t["cache_read"] or t["cache_write"] else missing,
        _some(views.total_tokens(group.unfinished)),
        wording.money(by_tools.cost_pico, digits, no_price=by_tools.no_price, used=bool(by_tools.rows)),
        wording.money(cost, digits, no_price=no_price, used=group.total_tokens > 0),
    ]


def _some(number: int) -> Cell:
    return wording.count(number) if number else wording.NOTHING


def _label(names: Sequence[str]) -> Callable[[Group], list[Cell]]:
    if names == ("provider", "model"):
        return lambda group: [name(f"{group.label[0]}/{group.label[1]}")]
    return lambda group: [
        name(label, missing=_NOT_LABELLED.get(each, UNKNOWN)) for each, label in zip(names, group.label, strict=True)
    ]


def _session_label(ledger: Facts, zone: Zone) -> Callable[[Group], list[Cell]]:
    known = {(fact.owner.session_id, fact.owner.cwd): fact.values for _, fact in ledger.facts("sessions")}

    def label(group: Group) -> list[Cell]:
        session_id, cwd = group.label
        v = known.get((session_id, cwd), {})
        return [
            wording.moment(iso(v.get("first_time"), zone)),
            name(session_id, missing="no session"),
            name(cwd, missing="no project"),
            name(v.get("name"), missing="-"),
        ]

    return label


def _mean(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return round(sum(known) / len(known)) if known else None


def _cost(each: dict[str, Any]) -> Cell:
    if each["cost_usd"] is None:
        return wording.NOTHING
    return wording.money(pico(each["cost_usd"]), no_price=each["no_price"])


def _times(counts: dict[str, int]) -> str:
    return ", ".join(
        f"{number} {each}" for each, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )

"""Views as plain data: the lists that `report --by ... --json` adds, and the rows of `--csv`."""

from __future__ import annotations

import csv
from typing import IO, Any, Final

from pimetrics.names import printable
from pimetrics.reports import top, views
from pimetrics.reports.selection import Facts, Zone
from pimetrics.reports.views import VIEWS, Group, View
from pimetrics.rows import Part

Data = dict[str, Any]


def rows(ledger: Facts, by: str, zone: Zone) -> list[Data]:
    """Return the rows of a view."""
    if by == "tool":
        return views.tools(ledger)
    if by == "error":
        return views.errors(ledger)
    if by == "compaction":
        return views.compactions(ledger, zone)
    view = VIEWS[by]
    return [_labelled(view, group) for group in views.groups(ledger, view, zone)]


def _labelled(view: View, group: Group) -> Data:
    return {**dict(zip(view.names, group.label, strict=True)), **group.as_dict(view.counts)}


def top_rows(ledger: Facts, number: int, zone: Zone) -> Data:
    """Return the most expensive prompts and turns."""
    return {"prompts": top.prompts(ledger, number, zone), "turns": top.turns(ledger, number, zone)}


def _empty(by: str, zone: Zone) -> Data:
    """Return a row that shows the columns of a view, so that an empty table has its heading."""
    if by == "tool":
        return views.tool_row("", [], Group(()))
    if by == "error":
        return views.error_row(Group(("",)))
    if by == "compaction":
        return views.compaction_row({}, Part(""), zone)
    if by == "top":
        return {"what": "", **top.Work().as_dict("row_id", None, zone)}
    view = VIEWS[by]
    return _labelled(view, Group((None,) * len(view.names)))


def write_csv(out: IO[str], by: str, found: list[Data], zone: Zone) -> None:
    """Write rows as CSV: a heading, then a line each; null is empty, names are escaped."""
    writer = csv.writer(out, lineterminator="\n")
    columns = list(_flat(_empty(by, zone)))
    writer.writerow(columns)
    for each in found:
        flat = _flat(each)
        writer.writerow([_cell(flat[column]) for column in columns])


def top_as_rows(found: Data) -> list[Data]:
    """Return top prompts and turns as rows of one table."""
    return [
        {"what": what, "row_id": each[f"{what}_id"], **{k: v for k, v in each.items() if k != f"{what}_id"}}
        for what in ("prompt", "turn")
        for each in found[f"{what}s"]
    ]


_OPEN: Final = frozenset({"models", "tools"})
"""Keys whose own keys are names from outside: one cell, not a column each."""


def _flat(row: Data, before: str = "") -> Data:
    flat: Data = {}
    for key, value in row.items():
        if isinstance(value, dict) and key in _OPEN:
            flat[f"{before}{key}"] = "; ".join(f"{each} {number}" for each, number in value.items())
        elif isinstance(value, dict):
            flat |= _flat(value, f"{before}{key}_")
        else:
            flat[f"{before}{key}"] = value
    return flat


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = printable(value)
    # A spreadsheet runs a cell that begins so as a formula; a name that cannot call anything stays as it is.
    return f"'{shown}" if shown[:1] in {"=", "+", "-", "@"} and any(c in shown for c in "(|!") else shown

"""`pimetrics report`: what pi did and cost, for people (tables) and programs (`--json`, `--csv`)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from pimetrics.api import load
from pimetrics.commands.output import escape_what_cannot_be_printed, write_whole
from pimetrics.commands.stdin import refuse_unusable_stdin
from pimetrics.errors import WrongUseError
from pimetrics.gathering import gather
from pimetrics.names import printable
from pimetrics.pipeline import Stats
from pimetrics.places import recordings_dir, sessions_dir
from pimetrics.progress import watched
from pimetrics.reports.data import rows, top_as_rows, top_rows, write_csv
from pimetrics.reports.headline import rejected
from pimetrics.reports.selection import Facts, Range, Selected, Zone, parse_range
from pimetrics.reports.summary import summarize

_BY = (
    "day", "week", "month", "model", "provider", "tool", "session", "project", "operation", "error", "compaction",
)  # fmt: skip


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--by",
    "by",
    multiple=True,
    type=click.Choice(_BY),
    metavar="VIEW",
    help=f"Show one view: {', '.join(_BY)}. Repeatable.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show the N most expensive prompts and turns.")
@click.option(
    "--since", metavar="WHEN", help="Leave out what came before: 2026-10-25, 2026-10-25T14:00, today, 7d, 12h."
)
@click.option("--until", metavar="WHEN", help="Leave out what came after; a date is included to its end.")
@click.option("--timezone", metavar="ZONE", help="Cut days in this zone (Europe/Berlin, UTC); default: local time.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; --by and --top add to it.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one view as CSV (by day, unless --by or --top says which).")
@click.option(
    "--textfile",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the metrics of a scrape to this .prom file, for node_exporter, instead of a report.",
)
@click.option(
    "--html",
    "html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write tables and charts to this file as one page that needs no network, instead of showing them.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 when a line was rejected.")
def command(
    *,
    paths: tuple[str, ...],
    by: tuple[str, ...],
    top: int | None,
    since: str | None,
    until: str | None,
    timezone: str | None,
    as_json: bool,
    as_csv: bool,
    textfile: Path | None,
    html: Path | None,
    strict: bool,
) -> None:
    """Report what pi did and cost.

    PATH is a stream, recording, RPC output or session file, a folder, a glob pattern, or - for standard input. Without
    one: pi's session folder and the recordings folder.

    Two costs stand side by side: what pi reports, and what tools reported beside it, which may repeat the sessions of
    sub-agents. Figures of one session, prompt or turn, and all of --json and --csv, hold both.
    """
    refuse_unusable_stdin(paths)
    if textfile is not None and (as_csv or as_json or by or top or since or until):
        raise WrongUseError("--textfile writes all metrics; give it alone")
    if html is not None and (as_csv or as_json or textfile):
        raise WrongUseError("--html writes a page; give it without --json, --csv and --textfile")
    if as_csv and (as_json or len(by) + (top is not None) > 1):
        raise WrongUseError("--csv prints one table; give one --by, or --top, and no --json")
    zone = Zone(timezone)
    now_ms = int(time.time() * 1000)
    within = parse_range(since, until, zone, now_ms)
    escape_what_cannot_be_printed()
    if textfile is not None:
        summary, stats = _write_textfile(textfile, paths)
    elif html is not None:
        summary, stats = _write_html(html, paths, zone, within, by=by, top=top, now_ms=now_ms)
    else:
        facts, stats = gather(paths, named=top is not None)
        selected = facts if within.is_open else Selected(facts, within)
        summary = summarize(selected, stats)
        if as_csv:
            view = "top" if top else by[0] if by else "day"
            found = top_as_rows(top_rows(selected, top, zone)) if top else rows(selected, view, zone)
            write_csv(sys.stdout, view, found, zone)
        elif as_json:
            _write_json(selected, summary, zone, by=by, top=top)
        else:
            _show(selected, summary, zone, within, by=by, top=top)
    if not (as_csv or as_json or textfile) and (said := rejected(summary)):
        print(f"pimetrics: {said}", file=sys.stderr)
    if not stats.bytes_read:
        print(f"pimetrics: {_nowhere(paths)}", file=sys.stderr)
    if strict and summary["rejects"]["total"]:
        sys.exit(1)


def _nowhere(paths: tuple[str, ...]) -> str:
    """Say what to do where there was nothing to read: figures of 0 look like an answer."""
    looked = paths or (sessions_dir(), recordings_dir())
    where = " and ".join(printable(str(path)) for path in looked)
    return f"nothing to read in {where}; run pi once, or name a file or folder (pimetrics demo plays a recording)"


def _write_textfile(path: Path, paths: tuple[str, ...]) -> tuple[dict[str, Any], Stats]:
    from pimetrics.exporter import snapshot_of  # noqa: PLC0415  other reports do without Prometheus' formats
    from pimetrics.sinks.textfile import text  # noqa: PLC0415

    ledger, pipeline = load(paths, watch=watched, counting=True)
    write_whole(path, text(snapshot_of(ledger, pipeline.stats)))
    return summarize(ledger, pipeline.stats), pipeline.stats


def _write_html(
    path: Path,
    paths: tuple[str, ...],
    zone: Zone,
    within: Range,
    *,
    by: tuple[str, ...],
    top: int | None,
    now_ms: int,
) -> tuple[dict[str, Any], Stats]:
    from pimetrics.commands.sheet import sheet  # noqa: PLC0415  says what is missing before anything is read

    ledger, pipeline = load(paths, watch=watched)
    selected = ledger if within.is_open else Selected(ledger, within)
    summary = summarize(selected, pipeline.stats)
    page = sheet(selected, summary, zone, within, by=by, top=top, now_ms=now_ms)
    write_whole(path, page.encode("utf-8", "backslashreplace"))
    return summary, pipeline.stats


def _write_json(selected: Facts, summary: dict[str, Any], zone: Zone, *, by: tuple[str, ...], top: int | None) -> None:
    more: dict[str, Any] = {}
    if isinstance(selected, Selected):
        more["range"] = selected.described(zone)
    if by:
        more["by"] = {view: rows(selected, view, zone) for view in by}
    if top:
        more["top"] = top_rows(selected, top, zone)
    json.dump(summary | more, sys.stdout, indent=2, allow_nan=False)
    print()


def _show(
    ledger: Facts, summary: dict[str, Any], zone: Zone, within: Range, *, by: tuple[str, ...], top: int | None
) -> None:
    from rich.console import Console  # noqa: PLC0415  --json and --csv do without it

    from pimetrics.reports.layout import Terminal  # noqa: PLC0415
    from pimetrics.reports.pages import Page  # noqa: PLC0415

    page = Page(Terminal(Console(highlight=False, markup=False, emoji=False)), ledger, zone)
    page.headline(summary)
    for view in by:
        page.view(view)
    if top:
        page.top(top)
    if not by and not top:
        page.overview()
    page.legend()
    if isinstance(ledger, Selected):
        page.range(within, ledger)

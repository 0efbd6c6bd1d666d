"""`pimetrics report`: what pi did and cost, for people (tables) and programs (`--json`)."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from pimetrics.api import load
from pimetrics.commands.stdin import refuse_terminal
from pimetrics.commands.summary import summarize
from pimetrics.names import printable


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--strict", is_flag=True, help="Exit with 1 when a line was rejected.")
def command(paths: tuple[str, ...], *, as_json: bool, strict: bool) -> None:
    """Report what pi did and cost.

    PATH is a stream, recording, RPC output or session file, a folder, a glob pattern, or - for standard input. Without
    one: pi's session folder and the recordings folder.
    """
    refuse_terminal(paths)
    ledger, pipeline = load(paths)
    summary = summarize(ledger, pipeline.stats)
    if as_json:
        json.dump(summary, sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        _show(summary)
    if strict and summary["rejects"]["total"]:
        sys.exit(1)


def _show(summary: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415  --json does without it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    usage = summary["usage"]
    by_tools = next((o["cost_usd"] for o in usage["by_operation"] if o["operation"] == "tool"), 0.0)
    console.print(f"Cost as reported by pi  [bold]{money(usage['cost_usd'] - by_tools)}[/bold]")
    if by_tools:
        console.print(f"Reported by tools       {money(by_tools)} (may repeat sub-agent sessions)")
    console.print(
        f"{summary['sessions']} sessions, {summary['prompts']} prompts, {summary['turns']} turns, "
        f"{sum(t['calls'] for t in summary['tools'])} tool calls\n"
    )
    models = Table(title="Models", title_justify="left")
    models.add_column("model", overflow="fold")
    for name in ("requests", "input", "cache read", "cache write", "output", "cost"):
        models.add_column(name, justify="right")
    for each in usage["by_model"]:
        t = each["tokens"]
        unpriced = each["cost_usd"] == 0 and any(t.values())
        models.add_row(
            Text(printable(f"{each['provider']}/{each['model']}")),
            *(f"{n:,}" for n in (each["requests"], t["input"], t["cache_read"], t["cache_write"], t["output"])),
            "unpriced" if unpriced else money(each["cost_usd"]),
        )
    if usage["by_model"]:
        console.print(models)
    tools = Table(title="Tools", title_justify="left")
    tools.add_column("tool", overflow="fold")
    for name in ("calls", "errors", "unfinished", "p50", "p95", "max"):
        tools.add_column(name, justify="right")
    for each in sorted(summary["tools"], key=lambda each: -each["calls"]):
        d = each["duration_s"] if each["duration_s"]["count"] else each["entry_duration_s"]
        tools.add_row(
            Text(printable(each["tool"])),
            *(f"{n:,}" for n in (each["calls"], each["errors"], each["unfinished"])),
            *(length(d[q]) for q in ("p50", "p95", "max")),
        )
    if summary["tools"]:
        console.print(tools)
    if summary["rejects"]["total"]:
        reasons = ", ".join(f"{n} {reason}" for reason, n in summary["rejects"]["by_reason"].items())
        print(f"pimetrics: {summary['rejects']['total']} lines gave no record ({reasons})", file=sys.stderr)


def money(usd: float) -> str:
    """Show USD: two decimals above ten dollars, four below."""
    return f"${usd:,.2f}" if abs(usd) >= 10 else f"${usd:,.4f}"


def length(seconds: float | None) -> str:
    """Show a duration in the unit that reads best."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)}:{int(seconds % 60):02d} min"

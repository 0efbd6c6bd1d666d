"""`pimetrics backfill`: the past as OpenMetrics, for promtool."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from pimetrics.api import load
from pimetrics.commands.stdin import refuse_terminal
from pimetrics.errors import WrongUseError
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.totals import TALLIES
from pimetrics.names import printable
from pimetrics.sinks.openmetrics import Moved, history


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Label that every series gets; repeatable."
)
def command(paths: tuple[str, ...], labels: tuple[str, ...]) -> None:
    """Print the history of an archive as OpenMetrics with the times at which things happened.

    \b
      pimetrics backfill --label job=pimetrics --label instance=127.0.0.1:9746 > history.om
      promtool tsdb create-blocks-from openmetrics --max-block-duration=720h history.om DATA

    Give the labels that the scraped series have, and backfilled and live series join. Prometheus keeps the last three
    hours in memory: backfill what is older, and give it a retention that reaches back as far.
    """  # noqa: D301  the control character is click's sign for lines that stay as they are
    refuse_terminal(paths)
    extra = dict(_pair(each) for each in labels)
    ledger, _ = load(paths)
    left_out: list[str] = []
    for text in history(_moves(ledger, left_out), extra):
        sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    if left_out:
        print(f"pimetrics: {len(left_out)} rows have no time and are left out", file=sys.stderr)


def _pair(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair or not name.isidentifier() or not name.isascii() or name.startswith("__"):
        raise WrongUseError(f"{printable(text)} is no label; give NAME=VALUE, for example job=pimetrics")
    return name, value


def _moves(ledger: MemoryLedger, left_out: list[str]) -> Iterator[Moved]:
    """Yield what the facts of a ledger move, at the time each of them ended."""
    for table, tallies in TALLIES.items():
        for _, fact in ledger.facts(table):
            values = fact.values
            time = values.get("time")
            if time is None:
                left_out.append(table)
                continue
            ended = time + round((values.get("duration_s") or 0) * 1000)
            for _, final, moves in tallies:
                if final(values):
                    for metric, labels, amount in moves(values):
                        if metric.startswith("pi_"):
                            yield Moved(metric, labels, amount, ended)

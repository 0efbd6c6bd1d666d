"""`pimetrics backfill`: the past as OpenMetrics, for promtool."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import click

from pimetrics.api import load
from pimetrics.commands.lengths import Seconds
from pimetrics.commands.stdin import refuse_unusable_stdin
from pimetrics.errors import WrongUseError
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.totals import TALLIES, Labels, Totals
from pimetrics.names import METRICS, OPEN_LABELS, printable
from pimetrics.rows import UNFINISHED
from pimetrics.sinks.openmetrics import Moved, history

UNFINISHED_S: Final = 86_400.0
"""`serve` counts what has no end as unfinished a day after the last byte of its file, and not before."""


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Label that every series gets; repeatable."
)
@click.option(
    "--older-than",
    type=Seconds(),
    metavar="TIME",
    help="Leave out what ended later than this ago (3h), and what has no end and is not a day old. All unless told.",
)
def command(paths: tuple[str, ...], labels: tuple[str, ...], older_than: float | None) -> None:
    """Print the history of an archive as OpenMetrics with the times at which things happened.

    \b
      pimetrics backfill --older-than 3h --label job=pimetrics --label instance=127.0.0.1:9746 > history.om
      promtool tsdb create-blocks-from openmetrics --max-block-duration=720h history.om DATA

    Give the labels that the scraped series have, and backfilled and live series join. Prometheus keeps the last three
    hours in memory: backfill what is older, and give it a retention that reaches back as far.
    """  # noqa: D301  the control character is click's sign for lines that stay as they are
    refuse_unusable_stdin(paths)
    extra = dict(_pair(each) for each in labels)
    ledger, _ = load(paths)
    before = _Before.ago(older_than)
    left_out: Counter[str] = Counter()
    for text in history(_moves(ledger, before, left_out), extra):
        sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    for why, rows in sorted(left_out.items()):
        print(f"pimetrics: {rows} rows {why} and are left out", file=sys.stderr)


class _Before(NamedTuple):
    """Up to when facts are taken, epoch ms: those that have ended, and those without an end."""

    ended: float
    unfinished: float

    @classmethod
    def ago(cls, length_s: float | None) -> _Before:
        if length_s is None:
            return cls(float("inf"), float("inf"))
        now = time.time()
        return cls((now - length_s) * 1000, (now - max(length_s, UNFINISHED_S)) * 1000)


def _pair(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair or not name.isidentifier() or not name.isascii() or name.startswith("__"):
        raise WrongUseError(f"{printable(text)} is no label; give NAME=VALUE, for example job=pimetrics")
    return name, value


def _moves(ledger: MemoryLedger, before: _Before, left_out: Counter[str]) -> Iterator[Moved]:
    """Yield what the facts of a ledger move, at the time each of them ended, under the labels that `serve` shows."""
    totals = ledger.totals
    for table, tallies in TALLIES.items():
        for _, fact in ledger.facts(table):
            values = fact.values
            start = values.get("time")
            if start is None:
                left_out["have no time"] += 1
                continue
            ended = start + round((values.get("duration_s") or 0) * 1000)
            if ended > (before.unfinished if values.get("outcome") == UNFINISHED else before.ended):
                left_out["are too young"] += 1
                continue
            for _, final, moves in tallies:
                if final(values):
                    for metric, labels, amount in moves(values):
                        if metric.startswith("pi_"):
                            yield Moved(metric, _admitted(totals, metric, labels), amount, ended)


def _admitted(totals: Totals, metric: str, labels: Labels) -> Labels:
    """Fold names that found no room into `other`, as the scrape does: with thousands of models too, series join."""
    names = METRICS[metric].labels
    return tuple(
        totals.admit(name, value) if name in OPEN_LABELS else value for name, value in zip(names, labels, strict=True)
    )

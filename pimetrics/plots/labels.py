"""Names from outside as charts show them, and which of them have a colour of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import altair as alt
import polars as pl

from pimetrics.names import OTHER, UNKNOWN, printable
from pimetrics.plots.frames import Frame, answering, named
from pimetrics.plots.theme import WIDTH, Theme

MOST_COLOURS: Final = 6
"""Names with a colour of their own; the rest is `other`. More could not be told apart."""

_LONGEST: Final = 32
"""Characters of a label."""


def shown(name: str | None) -> str:
    """Return a name from outside as a label: escaped, and cut in the middle where it is long."""
    text = printable((name or UNKNOWN)[:1000])
    if not text.strip():
        text = f'"{text[:_LONGEST]}"'
    if len(text) <= _LONGEST:
        return text
    tail = (_LONGEST - 1) // 2
    return f"{text[: _LONGEST - 1 - tail]}…{text[-tail:]}"


def labels(names: Iterable[str | None]) -> dict[str | None, str]:
    """Return a label for each name; names that look the same when cut get a number, so none is taken for another."""
    found: dict[str | None, str] = {}
    used: set[str] = set()
    for name in names:
        if name in found:
            continue
        label, number = shown(name), 1
        while label in used:
            number += 1
            label = f"{shown(name)} ({number})"
        found[name] = label
        used.add(label)
    return found


def ranked(frame: Frame, by: str = "model") -> list[str]:
    """Return names, the most expensive first: give one list to several charts, and a name has one colour in all.

    Args:
        frame: `usage`, or any table with the column.
        by: The column.
    """
    rows = frame.lazy()
    columns = rows.collect_schema().names()
    if by == "model" and "response_model" in columns:
        rows = rows.with_columns(answering())
    cost = pl.col("cost_usd").fill_null(0).sum() if "cost_usd" in columns else pl.lit(0.0)
    found = (
        rows.with_columns(named(by))
        .group_by(by)
        .agg(cost.alias("cost"), pl.len().alias("rows"))
        .sort(["cost", "rows", by], descending=[True, True, False])
        .collect()
    )
    return found[by].to_list()


class Colours(NamedTuple):
    """Which names have a colour.

    Attributes:
        labels: Label of each name; those without a colour are `other`.
        domain: Labels in order, `other` last where there is one.
        range: Their colours.
    """

    labels: dict[str | None, str]
    domain: list[str]
    range: list[str]

    def scale(self) -> alt.Scale:
        """Return the scale of a colour channel."""
        return alt.Scale(domain=self.domain, range=self.range)

    def legend(self) -> alt.Legend:
        """Return a legend in as many columns as the longest name leaves room for."""
        longest = max(map(len, self.domain), default=0)
        return alt.Legend(columns=max(1, min(len(self.domain), WIDTH // (34 + 7 * longest))))


def colours(order: Sequence[str], names: Iterable[str], look: Theme) -> Colours:
    """Give the first names of an order their colours, and the rest that of `other`.

    Args:
        order: All names, the most important first; what is missing in it is `other`.
        names: Those that the chart shows; only they are in its legend.
        look: Whose palette.
    """
    present = set(names)
    top = labels(order[:MOST_COLOURS])
    rest = OTHER if OTHER not in top.values() else f"all {OTHER}"
    domain = [label for name, label in top.items() if name in present]
    shades = [shade for name, shade in zip(top, look.palette, strict=False) if name in present]
    if any(name not in top for name in present):
        domain.append(rest)
        shades.append(look.other)
    return Colours({name: top.get(name, rest) for name in present}, domain, shades)


def relabelled(frame: pl.DataFrame, column: str, found: dict[str | None, str]) -> pl.DataFrame:
    """Replace names by their labels."""
    return frame.with_columns(pl.Series(column, [found[name] for name in frame[column].to_list()], dtype=pl.String))

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

_BEFORE: Final = 10
"""Characters that a label has before the first one that sets it apart."""


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
    """Return a label for each name, no two the same.

    Names that would look the same when cut are cut elsewhere, so that what sets them apart is seen; where even that is
    too far away, they get a number.
    """
    distinct = list(dict.fromkeys(names))
    cut = {name: shown(name) for name in distinct}
    for alike in _alike(cut):
        cut |= _apart(alike)
    return dict(zip(distinct, unique([cut[name] for name in distinct]), strict=True))


def unique(texts: Iterable[str]) -> list[str]:
    """Number the texts that have been there before."""
    used: dict[str, None] = {}  # in order
    for text in texts:
        label, number = text, 1
        while label in used:
            number += 1
            label = f"{text} ({number})"
        used[label] = None
    return list(used)


def _alike(cut: dict[str | None, str]) -> list[list[str]]:
    """Return the groups of long names that have one label."""
    groups: dict[str, list[str]] = {}
    for name, label in cut.items():
        if name is not None and len(name) > _LONGEST:
            groups.setdefault(label, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _apart(names: list[str]) -> dict[str | None, str]:
    """Cut names so that they begin shortly before the first character in which they differ."""
    texts = {name: printable(name[:1000]) for name in names}
    first, last = min(texts.values()), max(texts.values())
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    cut: dict[str | None, str] = {}
    for name, text in texts.items():
        start = max(0, min(same - _BEFORE, len(text) - _LONGEST + 1))
        label = f"{'…' if start else ''}{text[start:]}"
        cut[name] = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
    for alike in _alike(cut):
        if len(alike) < len(names):
            cut |= _apart(alike)
    return cut


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


def stacked(frame: pl.DataFrame, by: str, amount: str, shades: Colours) -> pl.DataFrame:
    """Stack amounts on each `start`, in the order of the colours: every bar goes from `bottom` to `top`."""
    return (
        relabelled(frame, by, shades.labels)
        .group_by("start", by)
        .agg(pl.col(amount).sum())
        .with_columns(pl.col(by).replace_strict(shades.domain, range(len(shades.domain))).alias("place"))
        .sort("start", "place")
        .with_columns(pl.col(amount).cum_sum().over("start").alias("top"))
        .with_columns((pl.col("top") - pl.col(amount)).alias("bottom"))
    )

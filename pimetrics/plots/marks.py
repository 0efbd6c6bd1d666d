"""Kinds of picture that several charts are: sorted bars, ranges of percentiles, histograms; and none at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import altair as alt
import polars as pl
from altair.typing import ChartType

from pimetrics.plots.frames import data
from pimetrics.plots.theme import BLUE, EMPTY, ORANGE, PURPLE, SKY, WIDTH, Theme, dressed

ROW: Final = 26
"""Height of a row of bars, pixels."""


def counted(number: int, word: str) -> str:
    """Say a number of things."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def share(part: float, whole: float) -> str:
    """Say a share as percent."""
    if not whole:
        return "0%"
    percent = 100 * part / whole
    if 0 < percent < 0.05:
        return "<0.1%"
    return f"{percent:.0f}%" if percent >= 0.95 or not percent else f"{percent:.1f}%"


def nothing(title: str, why: str, theme: str) -> ChartType:
    """Return a chart that says why it is empty."""
    said = alt.Chart(data([{"said": f"no data: {why}"}])).mark_text(fontSize=13, align="center")
    chart = said.encode(text="said:N").properties(width=WIDTH, height=70, usermeta=EMPTY)
    return dressed(chart, theme, title)


def titled(
    chart: ChartType,
    rows: pl.DataFrame,
    title: str,
    subtitle: str = "",
    *,
    why: str = "nothing of that kind here",
    theme: str = "light",
) -> ChartType:
    """Finish a chart of your own as those here are: title, ground and axes of the theme; without rows it says so.

    Args:
        chart: A chart without `config`.
        rows: What it draws.
        title: What is seen.
        subtitle: What it says.
        why: What a chart without rows says.
        theme: light or dark.
    """
    return nothing(title, why, theme) if rows.is_empty() else dressed(chart, theme, title, subtitle)


def rows_axis(field: str, order: Sequence[str], *, names: bool = True) -> alt.Y:
    """Return an axis of names, in order from top to bottom; beside another chart with the same rows without labels."""
    axis = alt.Axis(labelFontSize=12, labelOverlap=False, labelPadding=10) if names else None
    return alt.Y(f"{field}:N", sort=list(order), scale=alt.Scale(domain=list(order)), title=None, axis=axis)


def whole_axis(most: float, **options: Any) -> alt.Axis:
    """Return an axis of whole numbers from zero to `most`, with few labels."""
    return alt.Axis(values=ticks(most, 5, whole=True), format=",d", **options)


def ticks(most: float, about: int, *, whole: bool) -> list[float]:
    """Return round numbers from zero to above `most`, about so many."""
    least = max(most / about, 1 if whole else 1e-9)
    scale = 10.0 ** math.floor(math.log10(least))
    step = next(each * scale for each in (1, 2, 5, 10) if each * scale >= least * 0.999)
    return [step * each for each in range(math.ceil(most / step) + 1)]


def room(amounts: Sequence[float], said: Sequence[str], width: int = WIDTH) -> float:
    """Return where an axis from zero has to end so that the longest text fits beside the longest bar."""
    text_width = 12 + 6 * max(map(len, said), default=0)
    return (max(amounts, default=0) or 1) * width / max(width - text_width, width / 3)


def bars(
    rows: pl.DataFrame,
    field: str,
    amount: str,
    said: str,
    *,
    axis: alt.Axis,
    colour: Any,
    width: int = WIDTH,
    names: bool = True,
) -> ChartType:
    """Return horizontal bars from zero in the order of the rows, each with what it says at its end.

    Args:
        rows: A row a bar.
        field: Column of labels.
        amount: Column of numbers.
        said: Column of what stands at the end of a bar.
        axis: Of the numbers.
        colour: Of the bars.
        width: Pixels.
        names: Whether the labels are shown.
    """
    y = rows_axis(field, rows[field].to_list(), names=names)
    end = room(list(map(float, rows[amount].to_list())), rows[said].to_list(), width)
    x = alt.X(f"{amount}:Q", axis=axis, scale=alt.Scale(domain=[0, end], nice=False))
    base = alt.Chart(data(rows)).encode(y=y, x=x)
    marks = base.mark_bar(height=ROW - 10).encode(color=colour)
    return alt.layer(marks, base.mark_text(align="left", dx=5).encode(text=f"{said}:N")).properties(
        width=width, height=ROW * rows.height
    )


SHORTEST: Final = 0.001
"""What is shorter, seconds, stands at the start of a logarithmic axis."""

QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

_LOOKS: Final = {
    "p5": (SKY, "triangle-right"), "p50": (BLUE, "circle"), "p95": (ORANGE, "diamond"), "p99": (PURPLE, "square"),
}  # fmt: skip
"""Colour and shape of a percentile, the same in every chart."""


def quantiles(column: str) -> list[pl.Expr]:
    """Return the percentiles of durations, as `report` has them; none is shorter than a logarithmic axis can show."""
    return [pl.col(column).quantile(q, "linear").clip(SHORTEST).alias(name) for name, q in QUANTILES.items()]


def ranges(
    rows: pl.DataFrame,
    field: str,
    look: Theme,
    *,
    x: alt.X,
    width: int = WIDTH,
    points: Sequence[str] = tuple(QUANTILES),
    order: Sequence[str] = (),
    names: bool = True,
) -> ChartType:
    """Return a row a name with its percentiles on one line, each a shape and a colour of its own.

    Args:
        rows: Columns `field`, `said` (what stands behind the name's last point) and those of `points`.
        field: Column of labels.
        look: Colours.
        x: The axis, on a field called `value`.
        width: Pixels.
        points: Columns with the percentiles, the lowest first.
        order: Labels from top to bottom, of rows that have none too; else as the rows stand.
        names: Whether the labels are shown.
    """
    scale = x["scale"]
    # What is drawn last lies on top; where all are one value, the lowest shows as the smallest shape.
    long = rows.unpivot(on=list(reversed(points)), index=[field, "said"], variable_name="percentile")
    y = rows_axis(field, order or rows[field].to_list(), names=names)
    shades = [look.palette[_LOOKS[each][0]] for each in points]
    shapes = [_LOOKS[each][1] for each in points]
    line = (
        alt.Chart(data(rows))
        .mark_rule(strokeWidth=3, color=look.line, strokeCap="round")
        .encode(y=y, x=alt.X(f"{points[0]}:Q", scale=scale), x2=f"{points[-1]}:Q")
    )
    key = alt.Legend(title=None, symbolType="circle")
    dots = (
        alt.Chart(data(long))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            y=y,
            x=x,
            color=alt.Color("percentile:N", scale=alt.Scale(domain=list(points), range=shades), legend=key),
            shape=alt.Shape("percentile:N", scale=alt.Scale(domain=list(points), range=shapes), legend=key),
        )
    )
    said = (
        alt.Chart(data(rows))
        .mark_text(align="left", dx=9, color=look.dim)
        .encode(y=y, x=alt.X(f"{points[-1]}:Q", scale=scale), text="said:N")
    )
    return alt.layer(line, dots, said).properties(width=width, height=ROW * len(order or rows))

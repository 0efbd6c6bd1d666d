"""How the charts look: one set of colours for light ground and one for dark, and the same quiet axes everywhere.

The colours are Okabe and Ito's hues, moved apart in lightness until any two of them can be told from each other with
each of the common kinds of colour blindness, and from the ground (`tests/unit/test_plots_theme.py` measures both).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Literal

import altair as alt
from altair.typing import ChartType

from pimetrics.errors import WrongUseError
from pimetrics.names import printable

Name = Literal["light", "dark"]


@dataclass(frozen=True)
class Theme:
    """Colours of a chart, as #rrggbb.

    Attributes:
        ground: Behind everything.
        ink: Titles, and what is said beside a mark.
        dim: Axes and subtitles.
        line: Grid and rules.
        other: What is summed up as "other", and what is unknown.
        palette: The categories, the first the most important.
    """

    ground: str
    ink: str
    dim: str
    line: str
    other: str
    palette: tuple[str, ...]

    def colours(self) -> tuple[str, ...]:
        """Return all colours in a fixed order; no two of a theme are the same."""
        single = [getattr(self, each.name) for each in fields(self) if each.name != "palette"]
        return (*single, *self.palette)


LIGHT: Final = Theme(
    ground="#ffffff", ink="#1d1f23", dim="#5f636b", line="#e2e0da", other="#949494",
    palette=("#0b57a4", "#d18f00", "#0f9d68", "#8f3b76", "#4a9eea", "#b03a12"),
)  # fmt: skip
DARK: Final = Theme(
    ground="#1c1f25", ink="#e6e7ea", dim="#a0a5af", line="#343942", other="#858585",
    palette=("#3d96dd", "#e8a32e", "#35d39a", "#e18bc2", "#97d2f9", "#e57450"),
)  # fmt: skip
_THEMES: Final = {"light": LIGHT, "dark": DARK}

BLUE, ORANGE, GREEN, PURPLE, SKY, RED = range(6)
"""Places in a palette, for what has a colour of its own."""

OUTCOMES: Final = {
    "ok": GREEN, "success": GREEN, "error": RED, "failed": ORANGE, "exhausted": RED, "aborted": PURPLE, "retried": SKY,
}  # fmt: skip
"""Colour of an outcome; the rest is `other`."""

FONT: Final = "Arial, Helvetica, sans-serif"
"""The renderer measures with metrics of Arial, so labels keep their room where the font has them too."""

EMPTY: Final = {"empty": True}
"""What a chart without data has as `usermeta`."""

COMPACT: Final = "datum.value ? replace(format(datum.value, '~s'), 'k', 'K') : '0'"
"""Expression of a label with a prefix: 20K, 1.5M, and a plain 0."""

WIDTH: Final = 600
"""Width of the plotted area, pixels."""


def theme(name: str) -> Theme:
    """Return a theme.

    Raises:
        WrongUseError: There is none of that name.
    """
    try:
        return _THEMES[name]
    except KeyError:
        raise WrongUseError(f"{printable(name)} is no theme; use light or dark") from None


def dressed(chart: ChartType, name: str, title: str, subtitle: str = "") -> ChartType:
    """Return a chart with its title, the ground and the axes of a theme."""
    look = theme(name)
    said = alt.Title(title, subtitle=subtitle) if subtitle else alt.Title(title)
    return chart.properties(title=said, background=look.ground, config=config(look), padding=12)


def undressed(chart: ChartType) -> ChartType:
    """Return a chart without what only the outermost may have, to be put beside others."""
    bare = chart.copy(deep=False)
    for each in ("background", "config", "padding"):
        setattr(bare, each, alt.Undefined)
    return bare


def config(look: Theme) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a theme: few lines, small labels, titles on the left."""
    small = {"labelFont": FONT, "titleFont": FONT, "labelFontSize": 11, "titleFontSize": 11}
    return {
        "font": FONT,
        "view": {"stroke": None},
        "title": {
            "font": FONT, "fontSize": 15, "fontWeight": 600, "color": look.ink, "anchor": "start", "frame": "bounds",
            "offset": 12, "subtitleFont": FONT, "subtitleFontSize": 12, "subtitleColor": look.dim,
            "subtitlePadding": 5, "lineHeight": 18,
        },
        "axis": {
            **small, "labelColor": look.dim, "titleColor": look.dim, "titleFontWeight": "normal",
            "gridColor": look.line, "domainColor": look.line, "tickColor": look.line, "domain": False,
            "ticks": False, "labelPadding": 6,
            "titlePadding": 10, "labelLimit": 360, "labelOverlap": "greedy", "labelSeparation": 6,
        },
        "legend": {
            **small, "labelColor": look.ink, "titleColor": look.dim, "titleFontWeight": "normal", "orient": "top",
            "symbolType": "square", "symbolSize": 90, "labelLimit": 240, "padding": 0, "offset": 8,
            "columnPadding": 14, "symbolOpacity": 1,
        },
        "header": {
            "labelFont": FONT, "labelFontSize": 12, "labelColor": look.ink, "labelAnchor": "start", "title": None,
            "labelPadding": 4,
        },
        "text": {"font": FONT, "fontSize": 11, "color": look.ink},
    }  # fmt: skip

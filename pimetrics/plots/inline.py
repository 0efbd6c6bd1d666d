"""Charts as parts of a page: SVG that is drawn once, and follows the page into the dark by CSS alone."""

from __future__ import annotations

import re
from html import escape
from typing import Any, Final, NamedTuple

import altair as alt
from altair.typing import ChartType

from pimetrics.plots.rendering import svg_of
from pimetrics.plots.theme import DARK, LIGHT, config, undressed


class Inline(NamedTuple):
    """A chart as a page holds it.

    Attributes:
        title: What is seen.
        said: What it says.
        svg: The picture in the colours of `LIGHT`, without title and ground.
    """

    title: str
    said: str
    svg: str


_WIDEST: Final = 1.18
"""How much wider than Arial a browser's letters may be (DejaVu Sans, where a Linux has nothing else)."""


def inline(chart: ChartType) -> Inline:
    """Return a chart of the light theme as a part of a page; the page says its title in its own type.

    A browser may draw with wider letters than the renderer measures with. So everything is laid out for larger letters
    than are shown, or labels would be cut off at the edge.
    """
    title = chart.title
    bare = undressed(chart)
    bare.title, bare.background = alt.Undefined, "transparent"
    # Every bar would say its own numbers to a reader of the page: the table beside the chart does that better.
    bare.config = config(LIGHT) | {"aria": False}
    label = f"{title.text}: {title.subtitle}"
    picture, found = re.subn(
        r'^<svg [^>]*\b(width="\d+" height="\d+" viewBox="[^"]*")>',
        lambda size: f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" {size[1]}>',
        svg_of(_larger(bare.to_dict(validate=False))),
    )
    assert found == 1
    picture = re.sub(r'font-size="([\d.]+)px"', lambda size: f'font-size="{float(size[1]) / _WIDEST:.3g}px"', picture)
    return Inline(title.text, title.subtitle, picture)


def _larger(part: Any) -> Any:
    """Return a specification with larger letters."""
    if isinstance(part, dict):
        return {
            name: each * _WIDEST if name.lower().endswith("fontsize") and isinstance(each, int) else _larger(each)
            for name, each in part.items()
        }
    return [_larger(each) for each in part] if isinstance(part, list) else part


def dark_rules(within: str) -> str:
    """Return CSS that shows the pictures below a selector in the colours of `DARK`."""
    return "\n".join(
        f'{within} [{paint}="{light}"] {{ {paint}: {dark}; }}'
        for light, dark in zip(LIGHT.colours(), DARK.colours(), strict=True)
        for paint in ("fill", "stroke")
    )

"""Charts as parts of a page: SVG that is drawn once, and follows the page into the dark by CSS alone."""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

import altair as alt
from altair.typing import ChartType

from pimetrics.plots.rendering import svg
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


def inline(chart: ChartType) -> Inline:
    """Return a chart of the light theme as a part of a page; the page says its title in its own type."""
    title = chart.title
    bare = undressed(chart)
    bare.title, bare.background = alt.Undefined, "transparent"
    # Every bar would say its own numbers to a reader of the page: the table beside the chart does that better.
    bare.config = config(LIGHT) | {"aria": False}
    label = f"{title.text}: {title.subtitle}"
    picture, found = re.subn(
        r'^<svg [^>]*\b(width="\d+" height="\d+" viewBox="[^"]*")>',
        lambda size: f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" {size[1]}>',
        svg(bare),
    )
    assert found == 1
    return Inline(title.text, title.subtitle, picture)


def dark_rules(within: str) -> str:
    """Return CSS that shows the pictures below a selector in the colours of `DARK`."""
    return "\n".join(
        f'{within} [{paint}="{light}"] {{ {paint}: {dark}; }}'
        for light, dark in zip(LIGHT.colours(), DARK.colours(), strict=True)
        for paint in ("fill", "stroke")
    )

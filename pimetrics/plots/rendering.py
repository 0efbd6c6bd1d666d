"""Charts to pictures, without a browser or a network: the only home of vl-convert."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import altair as alt
from altair.typing import ChartType

from pimetrics.errors import WrongUseError, needed
from pimetrics.names import printable
from pimetrics.plots.theme import EMPTY, undressed

Chart = ChartType
"""What every function of `plots` returns."""

_UNDRAWABLE: Final = re.compile(
    "[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]|[\\u202a-\\u202e\\u2066-\\u2069]"
)
"""What XML forbids, and what turns a line of text round."""

_VEGA_LITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def png(chart: ChartType, *, scale: float = 2) -> bytes:
    """Return a chart as PNG.

    Args:
        chart: The chart.
        scale: Pixels of the picture for one of the chart.

    Raises:
        WrongUseError: vl-convert is not installed.
    """
    return _png(chart.to_dict(validate=False), scale)


def svg(chart: ChartType) -> str:
    """Return a chart as SVG; its text stays text.

    Raises:
        WrongUseError: vl-convert is not installed.
    """
    return svg_of(chart.to_dict(validate=False))


def svg_of(spec: dict[str, Any]) -> str:
    """Return a Vega-Lite specification as SVG."""
    return str(_converter().vegalite_to_svg(_drawable(spec), vl_version=_VEGA_LITE))


def save(chart: ChartType, path: str | os.PathLike[str]) -> None:
    """Write a chart to a `.png` or `.svg` file.

    Raises:
        WrongUseError: The name ends otherwise, or vl-convert is not installed.
    """
    file = Path(path)
    if file.suffix == ".png":
        file.write_bytes(png(chart))
    elif file.suffix == ".svg":
        file.write_text(svg(chart), encoding="utf-8")
    else:
        raise WrongUseError(f"{printable(str(file))} is no name of a picture; let it end in .png or .svg")


def use_png(*, scale: float = 2) -> None:
    """Show charts in this notebook as PNG from now on: those of this package and any other of altair.

    A PNG stays in the `.ipynb` and needs no network to be seen. altair has such a renderer too, but with it a name
    that holds a control character ends the notebook's kernel.

    Args:
        scale: Pixels of the picture for one of the chart.
    """
    alt.renderers.register("pimetrics-png", lambda spec, **_options: {"image/png": _png(spec, scale)})
    alt.renderers.enable("pimetrics-png")


def together(*charts: ChartType, columns: int = 1) -> alt.ConcatChart:
    """Put several charts into one picture, on the ground of the first; each keeps its title and its colours."""
    joined: alt.ConcatChart = alt.concat(*map(undressed, charts), columns=columns, spacing=30).resolve_scale(
        color="independent", shape="independent", opacity="independent"
    )
    joined.background, joined.config, joined.padding = charts[0].background, charts[0].config, charts[0].padding
    return joined


def is_empty(chart: ChartType) -> bool:
    """Return whether a chart says no more than that there is no data."""
    return bool(chart.usermeta == EMPTY)


def _png(spec: dict[str, Any], scale: float) -> bytes:
    return bytes(_converter().vegalite_to_png(_drawable(spec), vl_version=_VEGA_LITE, scale=scale))


def _drawable(part: Any) -> Any:
    """Return a specification with what no SVG can hold shown escaped: vl-convert ends the process over it."""
    if isinstance(part, str):
        return printable(part) if _UNDRAWABLE.search(part) else part
    if isinstance(part, dict):
        return {name: _drawable(each) for name, each in part.items()}
    if isinstance(part, list):
        return [_drawable(each) for each in part]
    return part


def _converter() -> ModuleType:
    with needed("plots", "vl_convert", "a picture"):
        return import_module("vl_convert")

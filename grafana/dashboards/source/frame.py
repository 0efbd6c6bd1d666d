"""What every dashboard shares: variables, links, annotations, and where the panels stand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grafana_foundation_sdk.builders import dashboard as dash
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as d

from .panels import DATASOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG: Final = "pimetrics"
COLUMNS_OF_THE_GRID: Final = 24

_VALUES: Final = {
    "job": ("Job", "label_values(pimetrics_build_info, job)"),
    "instance": ("Instance", 'label_values(pimetrics_build_info{job=~"$job"}, instance)'),
    "provider": ("Provider", 'label_values(pi_requests_total{job=~"$job", instance=~"$instance"}, provider)'),
    "model": (
        "Model",
        'label_values(pi_requests_total{job=~"$job", instance=~"$instance", provider=~"$provider"}, model)',
    ),
    "tool": ("Tool", 'label_values(pi_tool_calls_total{job=~"$job", instance=~"$instance"}, tool)'),
}


class Annotation(NamedTuple):
    """Marks on every graph of a dashboard where an expression is above 0."""

    name: str
    expr: str
    color: str
    title: str
    text: str


class Section(NamedTuple):
    """A row with the question that its panels answer."""

    title: str
    panels: Sequence[Any]


def _variables(shown: Sequence[str]) -> list[Any]:
    """Give all six variables on every dashboard.

    Links carry the choice from one dashboard to the next; those that change nothing on a dashboard are hidden there.
    """
    made: list[Any] = [
        dash.DatasourceVariable("datasource").label("Data source").type("prometheus")
        .description("The Prometheus (or VictoriaMetrics) that scrapes pimetrics")
    ]  # fmt: skip
    everything = d.VariableOption(selected=True, text=["All"], value=["$__all"])
    for name, (label, query) in _VALUES.items():
        variable = dash.QueryVariable(name).label(label).datasource(DATASOURCE)
        variable.query({"query": query, "refId": name, "qryType": 1}).multi(True).include_all(True).all_value(".+")
        variable.refresh(d.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(d.VariableSort.ALPHABETICAL_ASC)
        variable.current(everything)
        if name not in {"job", "instance", *shown}:
            variable.hide(d.VariableHide.HIDE_VARIABLE)
        made.append(variable)
    return made


def _place(builder: dash.Dashboard, sections: Sequence[Section]) -> None:
    number, top = 1, 0
    for section in sections:
        builder.with_row(dash.Row(section.title).id(number).grid_pos(d.GridPos(x=0, y=top, w=COLUMNS_OF_THE_GRID, h=1)))
        number, top, left, tallest = number + 1, top + 1, 0, 0
        for panel in section.panels:
            size = panel.build().grid_pos
            if left + size.w > COLUMNS_OF_THE_GRID:
                left, top, tallest = 0, top + tallest, 0
            builder.with_panel(panel.id(number).grid_pos(d.GridPos(x=left, y=top, w=size.w, h=size.h)))
            number, left, tallest = number + 1, left + size.w, max(tallest, size.h)
        top += tallest


def dashboard(
    uid: str, title: str, description: str, sections: Sequence[Section], *, variables: Sequence[str],
    annotations: Sequence[Annotation] = (), start: str = "now-24h",
) -> dict[str, Any]:  # fmt: skip
    """Put a dashboard together.

    Args:
        uid: Stays the same for ever: links and bookmarks hold it.
        title: Shown in the list of dashboards.
        description: What the dashboard answers.
        sections: Rows with panels, top down.
        variables: Which of provider, model and tool change something here.
        annotations: Marks on every graph.
        start: Where the picked range begins.

    Returns:
        What Grafana calls the dashboard model, ready to be written as JSON.
    """
    builder = dash.Dashboard(title).uid(uid).description(description).tags([TAG]).readonly()
    builder.time(start, "now").refresh("1m").timezone("browser").tooltip(d.DashboardCursorSync.CROSSHAIR)
    builder.variables(_variables(variables))
    builder.link(
        dash.DashboardLink("pimetrics").type(d.DashboardLinkType.DASHBOARDS).tags([TAG]).as_dropdown(False)
        .include_vars(True).keep_time(True)
    )  # fmt: skip
    _place(builder, sections)
    made: dict[str, Any] = _plain(builder.build())
    made["id"] = None
    made["annotations"] = {"list": [_annotation(mark) for mark in annotations]}
    return made


def _annotation(mark: Annotation) -> dict[str, Any]:
    # The SDK's class knows neither title nor text, and without them a mark says only its time.
    return {
        "name": mark.name, "datasource": _plain(DATASOURCE), "enable": True, "hide": False, "iconColor": mark.color,
        "expr": mark.expr, "titleFormat": mark.title, "textFormat": mark.text, "step": "60s", "useValueForTime": False,
    }  # fmt: skip


def _plain(built: object) -> Any:
    """Turn the SDK's objects into dicts and lists."""
    return json.loads(json.dumps(built, cls=JSONEncoder))

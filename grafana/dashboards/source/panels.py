"""Panels with the house's settings: a title that asks one question, a description, a unit and an empty state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grafana_foundation_sdk.builders import bargauge, common, heatmap, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as dash
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common as c
from grafana_foundation_sdk.models import dashboard as d
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

DATASOURCE: Final = d.DataSourceRef(type_val="prometheus", uid="${datasource}")

GOOD, FAIR, BAD, CALM = "green", "orange", "red", "text"

WORD_COLORS: Final = {
    "ok": "green", "success": "green", "stop": "green", "toolUse": "blue", "error": "red", "failed": "red",
    "exhausted": "red", "aborted": "orange", "retried": "yellow", "unfinished": "purple", "unknown": "#8e8e8e",
    "other": "#8e8e8e", "length": "yellow", "deferred": "super-light-blue", "pending": "light-blue",
    "input": "blue", "output": "orange", "cache_read": "green", "cache_write": "purple",
    "p50": "green", "p95": "orange", "p99": "red",
    "turn": "blue", "tool": "orange", "compaction": "purple", "branch_summary": "light-purple", "cache_warm": "green",
    "manual": "blue", "threshold": "green", "overflow": "red",
}  # fmt: skip
"""One colour a word on every dashboard, so red never means something that went well."""


class Query(NamedTuple):
    """One expression and the name of its series in the legend."""

    expr: str
    legend: str = ""


class Column(NamedTuple):
    """One value column of a table."""

    title: str
    expr: str
    unit: str
    decimals: int | None = None
    bar: bool = False
    steps: tuple[tuple[float | None, str], ...] = ()


Steps = tuple[tuple[float | None, str], ...]
"""Thresholds: the value from which a colour holds; the first has no value."""


def steps_of(steps: Steps) -> dash.ThresholdsConfig:
    """Make absolute thresholds."""
    made = [d.Threshold(value=value, color=color) for value, color in steps]
    return dash.ThresholdsConfig().mode(d.ThresholdsMode.ABSOLUTE).steps(made)


def _target(query: Query, ref: str, *, instant: bool, exemplar: bool = False, fmt: str = "time_series") -> Dataquery:
    made = Dataquery().ref_id(ref).expr(query.expr).datasource(DATASOURCE).format(PromQueryFormat(fmt))
    made = made.legend_format(query.legend or "__auto")
    return made.instant() if instant else made.range().exemplar(exemplar)


def _common(panel: Any, *words: str, size: tuple[int, int]) -> Any:
    (title, question, empty, unit), (width, height) = words, size
    panel.title(title).description(question).datasource(DATASOURCE).unit(unit).no_value(empty)
    return panel.span(width).height(height)


def _color(mode: str, fixed: str | None = None) -> dash.FieldColor:
    made = dash.FieldColor().mode(d.FieldColorModeId(mode))
    return made.fixed_color(fixed) if fixed else made


def _word_colors(panel: Any, words: Sequence[str]) -> None:
    for word in words:
        value = {"mode": "fixed", "fixedColor": WORD_COLORS[word]}
        panel.override_by_name(word, [d.DynamicConfigValue(id_val="color", value=value)])


def _down(title: str, uid: str) -> dash.DashboardLink:
    url = f"/d/{uid}?${{__url_time_range}}&${{__all_variables}}"
    return dash.DashboardLink(title).type(d.DashboardLinkType.LINK).url(url)


def stat_panel(
    title: str, question: str, query: str, unit: str, empty: str, *, width: int = 6, height: int = 4,
    steps: Steps = ((None, CALM),), decimals: int | None = None, trend: str | None = None, legend: str = "",
    name_only: bool = False, link: tuple[str, str] | None = None,
) -> stat.Panel:  # fmt: skip
    """One number over the picked range; with `trend` (a reducer) a curve over it, and the number is its reduction."""
    panel = _common(stat.Panel(), title, question, empty, unit, size=(width, height))
    panel.with_target(_target(Query(query, legend), "A", instant=trend is None))
    panel.reduce_options(common.ReduceDataOptions().calcs([trend or "lastNotNull"]).values(False))
    panel.graph_mode(c.BigValueGraphMode.AREA if trend else c.BigValueGraphMode.NONE)
    panel.color_mode(c.BigValueColorMode.VALUE).justify_mode(c.BigValueJustifyMode.AUTO)
    panel.text_mode(c.BigValueTextMode.NAME if name_only else c.BigValueTextMode.VALUE)
    panel.orientation(c.VizOrientation.AUTO).thresholds(steps_of(steps)).color_scheme(_color("thresholds"))
    panel.wide_layout(False)
    if decimals is not None:
        panel.decimals(decimals)
    if link:
        panel.links([_down(*link)])
    return panel  # type: ignore[no-any-return]


def graph(
    title: str, question: str, queries: Sequence[Query], unit: str, empty: str, *, width: int = 12, height: int = 8,
    stack: bool = False, bars: bool = False, exemplar: bool = False, words: Sequence[str] = (),
    calcs: Sequence[str] = (), log: bool = False, decimals: int | None = None,
    top: float | None = None, steps: bool = False, link: tuple[str, str] | None = None,
) -> timeseries.Panel:  # fmt: skip
    """Curves over time. `bars` for rare events, `stack` where the sum means something, `steps` for states."""
    panel = _common(timeseries.Panel(), title, question, empty, unit, size=(width, height))
    for number, query in enumerate(queries):
        panel.with_target(_target(query, chr(ord("A") + number), instant=False, exemplar=exemplar))
    panel.draw_style(c.GraphDrawStyle.BARS if bars else c.GraphDrawStyle.LINE).line_width(1 if bars or stack else 2)
    panel.fill_opacity(70 if bars else 35 if stack else 0)
    if not log:
        panel.min(0)
    panel.gradient_mode(c.GraphGradientMode.NONE).show_points(c.VisibilityMode.AUTO).point_size(5)
    panel.line_interpolation(c.LineInterpolation.STEP_AFTER if steps else c.LineInterpolation.LINEAR)
    panel.span_nulls(False).color_scheme(_color("palette-classic"))
    if bars:
        # A window of one minute and one scrape holds the growth of one minute: neighbours share no event.
        panel.interval("1m").axis_soft_max(1)
    if stack:
        panel.stacking(common.StackingConfig().mode(c.StackingMode.NORMAL).group("A"))
    if log:
        panel.scale_distribution(common.ScaleDistributionConfig().type(c.ScaleDistribution.LOG).log(10))
    if decimals is not None:
        panel.decimals(decimals)
    if top is not None:
        panel.axis_soft_max(top)
    legend = common.VizLegendOptions().show_legend(True).placement(c.LegendPlacement.BOTTOM)
    panel.legend(legend.display_mode(c.LegendDisplayMode.LIST).calcs(list(calcs)))
    tooltip = common.VizTooltipOptions().mode(c.TooltipDisplayMode.MULTI).sort(c.SortOrder.DESCENDING)
    panel.tooltip(tooltip)
    _word_colors(panel, words)
    if link:
        panel.links([_down(*link)])
    return panel  # type: ignore[no-any-return]


def quantiles(
    title: str, question: str, queries: Sequence[Query], unit: str, empty: str, *, width: int = 12, height: int = 8,
    words: Sequence[str] = ("p50", "p95"), log: bool = False,
) -> timeseries.Panel:  # fmt: skip
    """Quantiles over time with exemplars: points, joined where they are neighbours, for there are gaps."""
    panel = graph(
        title, question, queries, unit, empty, width=width, height=height, exemplar=True, words=words, log=log,
        calcs=["mean"],
    )  # fmt: skip
    return panel.span_nulls(900000).show_points(c.VisibilityMode.ALWAYS)


def ranking(  # noqa: PLR0917  in the order of the other panels
    title: str, question: str, query: str, legend: str, unit: str, empty: str, *, width: int = 6, height: int = 8,
    words: Sequence[str] = (), decimals: int | None = None, top: float | None = None,
    steps: Steps | None = None,
) -> bargauge.Panel:  # fmt: skip
    """Totals over the picked range beside each other, the largest first; blue, or coloured by `steps`."""
    panel = _common(bargauge.Panel(), title, question, empty, unit, size=(width, height))
    panel.with_target(_target(Query(f"sort_desc({query})", legend), "A", instant=True))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    panel.orientation(c.VizOrientation.HORIZONTAL).display_mode(c.BarGaugeDisplayMode.GRADIENT)
    panel.show_unfilled(True).value_mode(c.BarGaugeValueMode.COLOR).min(0)
    panel.name_placement(c.BarGaugeNamePlacement.LEFT).sizing(c.BarGaugeSizing.AUTO)
    panel.min_viz_height(12).max_viz_height(28).thresholds(steps_of(steps or ((None, "blue"),)))
    panel.color_scheme(_color("thresholds"))
    if decimals is not None:
        panel.decimals(decimals)
    if top is not None:
        panel.max(top)
    _word_colors(panel, words)
    return panel  # type: ignore[no-any-return]


def heat(
    title: str, question: str, query: str, unit: str, empty: str, *, width: int = 12, height: int = 9
) -> heatmap.Panel:
    """Distribution over time, one row a bucket of the histogram."""
    panel = _common(heatmap.Panel(), title, question, empty, unit, size=(width, height))
    panel.with_target(_target(Query(query, "{{le}}"), "A", instant=False, exemplar=True, fmt="heatmap"))
    panel.calculate(False).show_color_scale(True).show_legend().cell_gap(1)
    panel.y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(c.AxisPlacement.LEFT))
    color = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64).exponent(0.5)
    panel.color(color.reverse(False).fill("dark-orange"))
    panel.filter_values(heatmap.FilterValueRange().le(1e-9)).mode(c.TooltipDisplayMode.SINGLE)
    return panel  # type: ignore[no-any-return]


def rows_of(
    title: str, question: str, keys: Sequence[str], columns: Sequence[Column], empty: str, *, width: int = 24,
    height: int = 8,
) -> table.Panel:  # fmt: skip
    """One row for each combination of `keys`; every expression must be summed by exactly these."""
    panel = _common(table.Panel(), title, question, empty, "short", size=(width, height))
    renamed = {key: key.capitalize() for key in keys}
    for number, column in enumerate(columns):
        ref = chr(ord("A") + number)
        panel.with_target(_target(Query(column.expr), ref, instant=True, fmt="table"))
        renamed[f"Value #{ref}"] = column.title
        settings: list[tuple[str, object]] = [("unit", column.unit), ("noValue", "-")]
        if column.decimals is not None:
            settings.append(("decimals", column.decimals))
        if column.bar:
            options = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
            settings += [("custom.cellOptions", options), ("min", 0), ("color", {"mode": "continuous-BlPu"})]
        if column.steps:
            made = [{"value": value, "color": color} for value, color in column.steps]
            settings += [
                ("thresholds", {"mode": "absolute", "steps": made}),
                ("color", {"mode": "thresholds"}),
                ("custom.cellOptions", {"type": "color-text"}),
            ]
        panel.override_by_name(column.title, [d.DynamicConfigValue(id_val=key, value=value) for key, value in settings])
    panel.with_transformation(d.DataTransformerConfig(id_val="merge", options={}))
    order = {name: number for number, name in enumerate(renamed)}
    organize = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": renamed}
    panel.with_transformation(d.DataTransformerConfig(id_val="organize", options=organize))
    panel.show_header(True).cell_height(c.TableCellHeight.SM).min_width(90).thresholds(steps_of(((None, CALM),)))
    panel.sort_by([common.TableSortByFieldState().display_name(columns[0].title).desc(True)])
    return panel  # type: ignore[no-any-return]

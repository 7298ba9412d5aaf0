"""Builders for each kind of panel, from title, description and queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    heatmap,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard, prometheus
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from controller.dashboards.promql import Expr
from controller.metrics.prometheus_config import Intervals

SOURCE = options.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that the dashboard's variable `datasource` selects."""

Steps = Sequence[tuple[float | None, str]]
"""Thresholds: from each value on, its colour; the first value is None, for all below."""
Words = Mapping[int, tuple[str, str]]
"""Value → text and colour."""

GREEN: Steps = ((None, "green"),)


@dataclass(frozen=True, slots=True)
class Query:
    """A panel's query."""

    expr: Expr
    legend: str = ""
    """Legend of a series, such as `{{device}}`."""
    exemplars: bool = False
    """Whether to fetch exemplars, which name runs."""

    def __post_init__(self) -> None:
        self.expr.require(re.findall(r"{{(\w+)}}", self.legend))


@dataclass(frozen=True, slots=True)
class Size:
    """A panel's size: columns of 24, and units of 30 pixels."""

    width: int = 12
    height: int = 8


POINTS = 100
"""Points over time with which queries over the whole fleet take less than a second."""
POINTS_OF_RESULTS = 25
"""Points over time for queries over thousands of newest results."""

HALF = Size()
WIDE = Size(24)


def numbers(
    title: str, about: str, *queries: Query, steps: Steps = GREEN, width: int = 3
) -> dashboard.Panel:
    """Return a panel of large current values, one for each series."""
    named = any(query.legend for query in queries)
    text = options.BigValueTextMode.VALUE_AND_NAME if named else options.BigValueTextMode.VALUE
    look = stat.Panel().reduce_options(_newest()).text_mode(text)
    look.color_mode(options.BigValueColorMode.VALUE).graph_mode(options.BigValueGraphMode.NONE)
    panel = finished(look, title, about, queries[0].expr.unit, Size(width, 4))
    return coloured(_asking(panel, queries, now=True), steps)


def lines(
    title: str,
    about: str,
    *queries: Query,
    steps: Steps = GREEN,
    stacked: bool = False,
    live: bool = False,
    points: int = POINTS,
    size: Size = HALF,
) -> dashboard.Panel:
    """Return a chart of lines over time.

    stacked: as stacked areas. live: with the resolution of scrapes. points: most points; Prometheus
    evaluates the query at each.
    """
    look = _over_time().max_data_points(points)
    if live:
        look.interval(f"{Intervals().agent_s:g}s")
    if stacked:
        look.stacking(_stacked()).fill_opacity(40)
    if steps is not GREEN:
        style = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.LINE)
        look.thresholds_style(style)
    panel = finished(look, title, about, queries[0].expr.unit, size)
    _defaults(panel).thresholds = threshold_config(steps)
    return _asking(panel, queries)


def gauges(
    title: str,
    about: str,
    *queries: Query,
    steps: Steps = GREEN,
    full: float | None = None,
    size: Size = HALF,
) -> dashboard.Panel:
    """Return horizontal bars of current values, one for each series; full: the value of a full
    bar."""
    look = bargauge.Panel().reduce_options(_newest()).min(0)
    look.orientation(options.VizOrientation.HORIZONTAL)
    look.display_mode(options.BarGaugeDisplayMode.BASIC)
    if full is not None:
        look.max(full)
    panel = finished(look, title, about, queries[0].expr.unit, size)
    return coloured(_asking(panel, queries, now=True), steps)


def states(
    title: str, about: str, *queries: Query, words: Words, size: Size = HALF
) -> dashboard.Panel:
    """Return a state timeline for each series, coloured by value."""
    look = statetimeline.Panel().mappings([value_names(words)]).merge_values(True)
    look.show_value(options.VisibilityMode.NEVER).row_height(0.9).max_data_points(POINTS)
    panel = finished(look, title, about, queries[0].expr.unit, size)
    return _asking(panel, queries)


def spread(title: str, about: str, expr: Expr, unit: str) -> dashboard.Panel:
    """Return a heat map of a histogram's buckets over time; unit: of the observed values."""
    colours = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues")
    look = heatmap.Panel().color(colours.exponent(0.5).steps(64).fill("dark-blue"))
    look.y_axis(heatmap.YAxisConfig().unit(unit)).max_data_points(POINTS)
    panel = finished(look, title, about, expr.unit, Size())
    panel.targets = [_target(Query(expr, "{{le}}"), "A", form=PromQueryFormat.HEATMAP)]
    return panel


def finished(
    look: Builder[dashboard.Panel], title: str, about: str, unit: str, size: Size
) -> dashboard.Panel:
    """Return a panel with the settings that all panels share."""
    panel = look.build()
    panel.title, panel.description, panel.datasource = title, about, SOURCE
    panel.grid_pos = dashboard.GridPos(w=size.width, h=size.height)
    _defaults(panel).unit = unit
    return panel


def coloured(panel: dashboard.Panel, steps: Steps) -> dashboard.Panel:
    """Colour a panel's values by thresholds."""
    defaults = _defaults(panel)
    defaults.thresholds = threshold_config(steps)
    defaults.color = dashboard.FieldColor(mode=dashboard.FieldColorModeId.THRESHOLDS)
    return panel


def threshold_config(steps: Steps) -> dashboard.ThresholdsConfig:
    """Return thresholds in Grafana's format."""
    listed = [dashboard.Threshold(value, colour) for value, colour in steps]
    return dashboard.ThresholdsConfig(mode=dashboard.ThresholdsMode.ABSOLUTE, steps=listed)


def value_names(words: Words) -> dashboard.ValueMap:
    """Return texts and colours of values in Grafana's format."""
    named = {
        str(value): dashboard.ValueMappingResult(text=word, color=colour, index=value)
        for value, (word, colour) in words.items()
    }
    return dashboard.ValueMap(options=named)


def as_table(expr: Expr, ref: str) -> prometheus.Dataquery:
    """Return an instant query whose labels become columns."""
    return _target(Query(expr), ref, now=True, form=PromQueryFormat.TABLE)


def _asking(
    panel: dashboard.Panel, queries: Sequence[Query], *, now: bool = False
) -> dashboard.Panel:
    panel.targets = [
        _target(query, ref, now=now) for ref, query in zip(ascii_uppercase, queries, strict=False)
    ]
    return panel


def _target(
    query: Query,
    ref: str,
    *,
    now: bool = False,
    form: PromQueryFormat = PromQueryFormat.TIME_SERIES,
) -> prometheus.Dataquery:
    return prometheus.Dataquery(
        ref_id=ref,
        expr=query.expr.text,
        datasource=SOURCE,
        legend_format=query.legend or "__auto",
        instant=now,
        range_val=not now,
        exemplar=query.exemplars,
        format_val=form,
        editor_mode=prometheus.QueryEditorMode.CODE,
    )


def _over_time() -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(options.LegendDisplayMode.TABLE)
    legend.placement(options.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"]).show_legend(True)
    tooltip = common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI)
    look = timeseries.Panel().legend(legend).tooltip(tooltip.sort(options.SortOrder.DESCENDING))
    return look.show_points(options.VisibilityMode.AUTO).line_width(1)


def _stacked() -> common.StackingConfig:
    return common.StackingConfig().mode(options.StackingMode.NORMAL).group("A")


def _newest() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields("")


def _defaults(panel: dashboard.Panel) -> dashboard.FieldConfig:
    panel.field_config = panel.field_config or dashboard.FieldConfigSource()
    return panel.field_config.defaults

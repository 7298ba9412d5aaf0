"""Tables: columns from several queries, and ratios as a heat map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard

from controller.dashboards import thresholds
from controller.dashboards.links import DEVICE_LINK
from controller.dashboards.panels import (
    WIDE,
    Size,
    Steps,
    Words,
    as_table,
    coloured,
    finished,
    threshold_config,
    value_names,
)
from controller.dashboards.promql import ACCURACY, PSNR, Expr, Match, WrongQuery, joined, last
from controller.dashboards.ratios import Judged, quality
from controller.dashboards.units import DECIBELS, SHARE
from controller.metrics import names

BETTER: Steps = (
    (None, "transparent"),
    (0, "red"),
    (0.8, "orange"),
    (0.95, "transparent"),
    (1.05, "light-green"),
    (1.25, "green"),
)
"""Colours for "times better than the baseline"; within 5 % counts as equal.

Grafana gives the first colour to what is no number, too: row labels and empty cells.
"""

LOW: Steps = ((None, "text"), (1, "green"))
HIGH: Steps = ((None, "red"), (1, "text"))
"""The ends of an interval: only where both are on one side of 1, one of them has a colour."""

PLAIN: Steps = ((None, "text"),)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers: heading, query and format."""

    heading: str
    expr: Expr
    steps: Steps = PLAIN
    words: Words | None = None
    """Texts to show instead of numbers."""


def quality_columns(results: Callable[[Match], Expr]) -> tuple[Column, Column]:
    """Return the columns of the metric of each workload's quality target: shares, decibels.

    results: returns those in some metrics.
    """
    return (
        Column("accuracy", quality(results(ACCURACY), SHARE)),
        Column("PSNR", quality(results(PSNR), DECIBELS)),
    )


def columns(
    title: str, about: str, labels: Sequence[str], *filled: Column, size: Size = WIDE
) -> dashboard.Panel:
    """Return a table with a row for each combination of labels, and a column for each query.

    Every query must have exactly these labels: Grafana's `merge` joins rows that agree in the
    shared ones.
    """
    look = table.Panel().show_header(True).filterable(True)
    look.with_transformation(dashboard.DataTransformerConfig("merge", options={}))
    headings = {label: label for label in labels}
    for ref, column in zip(ascii_uppercase, filled, strict=False):
        if column.expr.labels != set(labels):
            raise WrongQuery(f"not exactly the labels {', '.join(labels)}: {column.expr.text}")
        headings[f"Value #{ref}" if len(filled) > 1 else "Value"] = column.heading
        look.override_by_name(column.heading, _shown(column))
    look.with_transformation(_organised(headings))
    _link_devices(look, labels)
    panel = finished(look, title, about, filled[0].expr.unit, size)
    panel.targets = [
        as_table(column.expr, ref) for ref, column in zip(ascii_uppercase, filled, strict=False)
    ]
    return panel


def works() -> dashboard.Panel:
    """Return a table that says in words what each work is."""
    about = "What each work computes: workload and scenario, and the knobs not at their defaults."
    return words_of("Works", about, last(names.WORK_INFO), names.WORK_INFO.labels, Size(24, 6))


def delegates(labels: Sequence[str], verdict: Expr, share: Expr) -> dashboard.Panel:
    """Return a table of the verdicts on delegates."""
    return columns(
        "Delegates",
        "What came of each delegate in its newest run on the present build of the device: works "
        "(it took the whole graph, or none was asked for), falls back, or fails. No speeds.",
        labels,
        Column("verdict", verdict, words=thresholds.CAPABILITY),
        Column("nodes taken", share),
    )


def words_of(
    title: str, about: str, expr: Expr, labels: Sequence[str], size: Size = WIDE
) -> dashboard.Panel:
    """Return a table of label values; the series' values are not shown."""
    expr.require(labels)
    look = table.Panel().show_header(True).filterable(True)
    hidden = [*sorted(expr.labels - set(labels)), "Value"]
    look.with_transformation(_organised({label: label for label in labels}, hidden))
    _link_devices(look, labels)
    panel = finished(look, title, about, expr.unit, size)
    panel.targets = [as_table(expr, "A")]
    return panel


UNSETTLED = "not resolved"
"""A ratio whose interval holds 1, or isn't known."""


def heat_map(
    title: str, about: str, ratios: Judged, rows: Sequence[str], across: Sequence[str]
) -> dashboard.Panel:
    """Return a table of ratios; its rows and columns are named by labels.

    Those that are more than chance are coloured. The others stand in a column of their own: what
    colours a cell is its number, which can't say how well it is known.
    """
    named = _in_columns(ratios, rows, across)
    matrix = {"rowField": "row", "columnField": "column", "valueField": "Value"}
    corner = f"{', '.join(rows)} \\ {', '.join(across)}"
    look = table.Panel().show_header(True).decimals(2)
    look.with_transformation(dashboard.DataTransformerConfig("groupingToMatrix", options=matrix))
    look.with_transformation(_organised({"row\\column": corner}))
    solid = options.TableCellBackgroundDisplayMode.BASIC
    look.cell_options(options.TableColoredBackgroundCellOptions(solid, apply_to_row=False))
    grey = [dashboard.DynamicConfigValue("custom.cellOptions", options.TableAutoCellOptions())]
    look.override_by_regexp(f"/ {UNSETTLED}$/", grey)
    panel = finished(look, title, about, named.unit, Size(24, 10))
    panel.targets = [as_table(named, "A")]
    return coloured(panel, BETTER)


def _in_columns(ratios: Judged, rows: Sequence[str], across: Sequence[str]) -> Expr:
    every, settled = ratios.every, ratios.settled
    apart = f'label_replace({every.text}, "known", "{UNSETTLED}", "", "")'
    others = replace(every, text=apart, labels=every.labels | {"known"})
    coloured_ones = joined(joined(settled, "row", *rows), "column", *across)
    grey_ones = joined(joined(others, "row", *rows), "column", *across, "known")
    same = ", ".join(sorted(every.labels))
    return replace(coloured_ones, text=f"({coloured_ones.text} or on ({same}) {grey_ones.text})")


def _organised(
    headings: Mapping[str, str], hidden: Sequence[str] = ()
) -> dashboard.DataTransformerConfig:
    """Return the transformation that sorts and names columns, and hides the time."""
    return dashboard.DataTransformerConfig(
        "organize",
        options={
            "excludeByName": dict.fromkeys(("Time", *hidden), True),
            "indexByName": {name: place for place, name in enumerate(headings)},
            "renameByName": {name: to for name, to in headings.items() if name != to},
        },
    )


def _shown(column: Column) -> list[dashboard.DynamicConfigValue]:
    properties: dict[str, object] = {"unit": column.expr.unit}
    if column.steps is not PLAIN or column.words:
        properties["thresholds"] = threshold_config(column.steps)
        properties["custom.cellOptions"] = options.TableColorTextCellOptions()
    if column.words:
        properties["mappings"] = [value_names(column.words)]
    return [dashboard.DynamicConfigValue(name, value) for name, value in properties.items()]


def _link_devices(look: table.Panel, labels: Sequence[str]) -> None:
    if "device" in labels:
        look.override_by_name("device", [dashboard.DynamicConfigValue("links", [DEVICE_LINK])])

"""Dashboards as rows of panels: layout, variables, annotations and links."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, Dashboard
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from controller.dashboards.links import TAG, menu
from controller.dashboards.panels import SOURCE
from controller.dashboards.promql import Expr, being, filtered, highest, with_info
from controller.dashboards.variables import Choice, source_variable
from controller.metrics import names

GRID = 24
"""Columns of Grafana's grid."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[dashboard.Panel]


@dataclass(frozen=True, slots=True)
class Annotation:
    """An event that is marked on every chart while its query is above 0."""

    name: str
    expr: Expr
    colour: str
    text: str

    def build(self) -> AnnotationQuery:
        """Return the annotation in the format of Grafana's Prometheus data source."""
        asked = Dataquery().ref_id("Anno").expr(self.expr.text).interval("10s").datasource(SOURCE)
        annotation = AnnotationQuery().name(self.name).datasource(SOURCE).enable(True)
        annotation.icon_color(self.colour).target(asked)
        return annotation.title_format(self.name).text_format(self.text)


def sweeps() -> Annotation:
    """Return the annotation for sweeps with open runs."""
    open_runs = filtered(highest(names.SWEEP_RUNS, "sweep"), ">", 0)
    return Annotation("Sweep", open_runs, "blue", "{{sweep}}")


def quarantines() -> Annotation:
    """Return the annotation for devices in quarantine."""
    held = with_info(being(names.DEVICE_STATE, 1, state="quarantined"), "name")
    return Annotation("Quarantine", held, "red", "{{name}}")


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard."""

    uid: str
    title: str
    about: str
    choices: Sequence[Choice]
    rows: Sequence[Row]
    annotations: Sequence[Annotation]
    since: str = "now-6h"
    refresh: str = "10s"

    def build(self, source_uid: str) -> Json:
        """Return the JSON that Grafana imports; source_uid: the default data source."""
        look = Dashboard(self.title).uid(self.uid).description(self.about).tags([TAG])
        look.time(self.since, "now").refresh(self.refresh).timezone("browser").editable()
        look.tooltip(dashboard.DashboardCursorSync.CROSSHAIR).link(menu())
        look.variables([source_variable(source_uid), *(choice.build() for choice in self.choices)])
        look.annotations([annotation.build() for annotation in self.annotations])
        built = look.build()
        built.panels = list(_laid_out(self.rows))
        encoded: Json = json.loads(json.dumps(built, cls=JSONEncoder))
        return encoded


def _laid_out(rows: Sequence[Row]) -> Iterator[dashboard.Panel | dashboard.RowPanel]:
    """Yield the panels with positions, left to right and top to bottom, and numbers."""
    y, number = 0, 1
    for row in rows:
        place = dashboard.GridPos(h=1, w=GRID, x=0, y=y)
        yield dashboard.RowPanel(title=row.title, id_val=number, grid_pos=place)
        x, y, number, tallest = 0, y + 1, number + 1, 0
        for panel in row.panels:
            size = panel.grid_pos or dashboard.GridPos()
            if x + size.w > GRID:
                x, y, tallest = 0, y + tallest, 0
            panel.grid_pos = dashboard.GridPos(h=size.h, w=size.w, x=x, y=y)
            panel.id_val = number
            x, number, tallest = x + size.w, number + 1, max(tallest, size.h)
            yield panel
        y += tallest

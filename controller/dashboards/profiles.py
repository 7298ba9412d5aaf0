"""Panels of profiles: time of a training step, and its distance from the machine's limits."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models import dashboard

from controller.dashboards import panels, promql, tables
from controller.dashboards.panels import Query
from controller.dashboards.promql import Expr, Wanted, last
from controller.metrics import names
from controller.metrics.names import Metric

LABELS = ("name", "device", "virtual", "workload", "stack", "precision", "work")
LEGEND = "{{primitive}} {{direction}} {{name}}{{virtual}} {{workload}} {{stack}} {{precision}}"
MOST = 30


def limits(chosen: Mapping[str, Wanted]) -> dashboard.Panel:
    """Return the panel of the newest profiles' distance from the machine's limits."""
    return tables.columns(
        "Profiles: how much is left",
        "Of each newest profile. Efficiency: what primitives and matrix products take alone, over "
        "what they took in the step. Headroom: seconds of a step above the machine's roofline.",
        LABELS,
        tables.Column("efficiency", _plain(names.PROFILE_EFFICIENCY, chosen)),
        tables.Column("headroom", _plain(names.PROFILE_HEADROOM, chosen)),
    )


def primitives(chosen: Mapping[str, Wanted]) -> dashboard.Panel:
    """Return in which primitives the newest profiles spend most; chosen: one work."""
    longest = promql.extreme("topk", MOST, last(names.PROFILE_PRIMITIVE, **chosen))
    about = f"Seconds of a step of one work in oneDNN, by primitive: the {MOST} longest."
    query = Query(promql.marked(longest), LEGEND)
    return panels.gauges("Profiles: top primitives: ${work:text}", about, query, size=panels.WIDE)


def _plain(metric: Metric, chosen: Mapping[str, Wanted]) -> Expr:
    return promql.with_info(last(metric, **chosen), "name", "virtual")

"""The choices at the top of a dashboard, filled from the labels of metrics."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from controller.dashboards.panels import SOURCE
from controller.dashboards.promql import (
    Expr,
    Wanted,
    WrongQuery,
    count,
    last,
    like,
    only,
    over,
    selector,
    with_info,
)
from controller.metrics import names
from controller.metrics.names import Metric

SOURCE_UID = "benchfarm-prometheus"
"""The data source that `push` and the provisioning files make, and that dashboards start with."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable: the values that a label of a metric has."""

    name: str
    title: str
    metric: Metric
    label: str
    where: tuple[tuple[str, Wanted], ...] = ()
    """Restricts the values; may name variables that come before."""
    many: bool = True
    """Any number of values may be chosen, and all are to begin with; else exactly one is."""
    among: Expr | None = None
    """Only values that these series have, where the metric alone can't tell."""
    text: str | None = None
    """The label of `among` that is shown instead of the values."""

    def __post_init__(self) -> None:
        if self.label not in self.metric.labels:
            raise WrongQuery(f"{self.metric.name} has no label {self.label}")

    @property
    def wanted(self) -> Wanted:
        """What a label must be to match what is chosen."""
        return like(f"${self.name}") if self.many else f"${self.name}"

    @property
    def query(self) -> str:
        """Grafana's own notation for the values of a label."""
        if self.among:
            shown = (self.text,) if self.text else ()
            return f"query_result({count(self.among, *shown, self.label).text})"
        series = selector(self.metric.name, self.metric, dict(self.where))
        return f"label_values({series}, {self.label})"

    def build(self) -> Builder[dashboard.VariableModel]:
        """Return it as a variable of a dashboard."""
        variable = QueryVariable(self.name).label(self.title).datasource(SOURCE)
        variable.query(self.query).definition(self.query).multi(self.many).include_all(self.many)
        if self.many:  # a list of all values can be too long for a URL
            variable.all_value(".*").current(
                dashboard.VariableOption(text=["All"], value=["$__all"])
            )
        if self.among:
            variable.regex(self._regex())
        variable.sort(dashboard.VariableSort.NATURAL_ASC)
        return variable.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)

    def _regex(self) -> str:
        """Return what Grafana takes of a series: its labels come in order, and so do these."""
        parts = {self.label: '([^"]+)'}
        if self.text:
            parts = {self.text: '(?<text>[^"]+)', self.label: '(?<value>[^"]+)'}
        asked = (f'{label}="{part}"' for label, part in sorted(parts.items()))
        return f"/{'.*'.join(asked)}/"


def source_variable(uid: str) -> Builder[dashboard.VariableModel]:
    """Return the choice of the Prometheus to ask; uid: of the one to begin with."""
    first = dashboard.VariableOption(text=uid, value=uid, selected=True)
    return DatasourceVariable("datasource").label("Prometheus").type("prometheus").current(first)


VIRTUAL = Choice("virtual", "Virtual devices", names.DEVICE_INFO, "virtual", many=False)
"""Real devices or virtual ones: what is simulated is never compared with what is real."""


def having_results(**where: Wanted) -> Expr:
    """Return what real devices have results of, or virtual ones."""
    return with_info(last(names.RESULT_TIME, **where), virtual=VIRTUAL.wanted)


# `result` has a series for each number of a result, its time one for all: a fifth to look through.
WORKLOAD = Choice("workload", "Workload", names.RESULT_TIME, "workload")
STACK = Choice("stack", "Stack", names.RESULT_TIME, "stack")
SCENARIO = Choice("scenario", "Scenario", names.RESULT_TIME, "scenario")
PRECISION = Choice("precision", "Precision", names.RESULT_TIME, "precision")


def work(name: str, title: str, results: Expr) -> Choice:
    """Return the choice of one work, among those that results are of, named by what it is."""
    known = only(last(names.WORK_INFO), over("max", results, "work"), "work")
    return Choice(name, title, names.WORK_INFO, "work", many=False, among=known, text="task")

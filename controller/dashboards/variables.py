"""A dashboard's variables, filled from the labels of metrics."""

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
)
from controller.metrics import names
from controller.metrics.names import Metric

SOURCE_UID = "benchfarm-prometheus"
"""Uid of the data source that `push` and the provisioning files create; the dashboards' default."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable with the values of a metric's label."""

    name: str
    title: str
    metric: Metric
    label: str
    where: tuple[tuple[str, Wanted], ...] = ()
    """Conditions on the values; may use earlier variables."""
    many: bool = True
    """Whether any number of values may be chosen (default: all), or exactly one."""
    among: Expr | None = None
    """Only values that these series have, if the metric alone doesn't restrict them."""
    text: str | None = None
    """The label of `among` that is shown instead of the values."""

    def __post_init__(self) -> None:
        if self.label not in self.metric.labels:
            raise WrongQuery(f"{self.metric.name} has no label {self.label}")

    @property
    def wanted(self) -> Wanted:
        """The condition that matches the chosen values."""
        return like(f"${self.name}") if self.many else f"${self.name}"

    @property
    def query(self) -> str:
        """Grafana's query for the values of a label."""
        if self.among:
            shown = (self.text,) if self.text else ()
            return f"query_result({count(self.among, *shown, self.label).text})"
        series = selector(self.metric.name, self.metric, dict(self.where))
        return f"label_values({series}, {self.label})"

    def build(self) -> Builder[dashboard.VariableModel]:
        """Return the variable in Grafana's format."""
        variable = QueryVariable(self.name).label(self.title).datasource(SOURCE)
        variable.query(self.query).definition(self.query).multi(self.many).include_all(self.many)
        if self.many:  # a list of all values may exceed a URL
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
    """Return the variable that selects the Prometheus; uid: the default."""
    first = dashboard.VariableOption(text=uid, value=uid, selected=True)
    return DatasourceVariable("datasource").label("Prometheus").type("prometheus").current(first)


VIRTUAL = Choice("virtual", "Virtual devices", names.DEVICE_INFO, "virtual", many=False)
"""Real or virtual devices, which are never compared with each other."""


def device_choice(metric: Metric, among: Expr) -> Choice:
    """Return the choice of devices, by name; among: their series, with labels device and name."""
    return Choice("device", "Device", metric, "device", among=among, text="name")


# `result` has a series for each metric, its time only one for all: a fifth of the series to read.
WORKLOAD = Choice("workload", "Workload", names.RESULT_TIME, "workload")
STACK = Choice("stack", "Stack", names.RESULT_TIME, "stack")
SCENARIO = Choice("scenario", "Scenario", names.RESULT_TIME, "scenario")
PRECISION = Choice("precision", "Precision", names.RESULT_TIME, "precision")


def work(name: str, title: str, results: Expr) -> Choice:
    """Return the choice of one work, among those that results are of, named by what it is."""
    known = only(last(names.WORK_INFO), over("max", results, "work"), "work")
    return Choice(name, title, names.WORK_INFO, "work", many=False, among=known, text="task")

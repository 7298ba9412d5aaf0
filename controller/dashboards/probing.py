"""Runs a dashboard's queries on a real Prometheus, as Grafana would."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.contracts.errors import UserError
from controller.dashboards.lint import without_macros
from controller.dashboards.queries import (
    VARIABLE,
    Question,
    Variable,
    fixed_values,
    questions_of,
    variables_of,
)
from controller.runtime.prometheus import Prometheus, Series

LOOK_BACK_S = 1800.0
"""Time range of queries over time, in seconds."""
STEP_S = 15.0
"""Least step between points: the longest scrape interval, which Grafana's data source is set to."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query."""

    question: Question
    promql: str
    """The query with its variables replaced."""
    series: int
    """Number of series with a value; 0 means no data."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Probe:
    """Queries one Prometheus; raises PrometheusUnavailable, UserError for an unknown variable."""

    prometheus: Prometheus
    look_back_s: float = LOOK_BACK_S
    least_step_s: float = STEP_S

    def dashboard(
        self, dashboard: Mapping[str, Any], chosen: Mapping[str, str] | None = None
    ) -> Iterator[QueryResult]:
        """Yield the result of every variable, panel and annotation of a dashboard.

        chosen: values of variables; other variables take all values, or the first one, and those
        without a query the value that was saved.
        """
        answers, values = self.variables(dashboard, chosen)
        yield from answers
        for question in questions_of(dashboard):
            yield self.ask(question, values)

    def variables(
        self, dashboard: Mapping[str, Any], chosen: Mapping[str, str] | None = None
    ) -> tuple[list[QueryResult], dict[str, str]]:
        """Return the results of a dashboard's variables, and a value for each variable."""
        answers, values = [], {**fixed_values(dashboard), **(chosen or {})}
        for variable in variables_of(dashboard):
            answer, found = self._values(variable, values)
            answers.append(answer)
            values.setdefault(variable.name, _default(variable, found))
        return answers, values

    def ask(self, question: Question, values: Mapping[str, str]) -> QueryResult:
        """Return the result of one query."""
        return self._ask(question, values)[0]

    def _values(
        self, variable: Variable, values: Mapping[str, str]
    ) -> tuple[QueryResult, list[str]]:
        if variable.of_series:
            return self._label_values(variable, values)
        answer, series = self._ask(variable.question, values)
        return answer, sorted({one["metric"].get(variable.label, "") for one in series} - {""})

    def _label_values(
        self, variable: Variable, values: Mapping[str, str]
    ) -> tuple[QueryResult, list[str]]:
        matching = _interpolated(variable.question.promql, values)
        began = time.monotonic()
        found = self.prometheus.get(f"label/{variable.label}/values", {"match[]": matching})
        seconds = time.monotonic() - began
        return QueryResult(variable.question, matching, len(found), seconds), found

    def _ask(
        self, question: Question, values: Mapping[str, str]
    ) -> tuple[QueryResult, list[Series]]:
        window = f"{max(60.0, 4 * STEP_S):.0f}s"
        promql = _interpolated(without_macros(question.promql, window), values)
        began = time.monotonic()
        if question.over_time:
            now = time.time()
            step = max(self.look_back_s / question.points, self.least_step_s)
            series = self.prometheus.query_range(promql, now - self.look_back_s, now, step)
        else:
            series = self.prometheus.query(promql)
        seconds = time.monotonic() - began
        told = [one for one in series if _has_number(one)]
        return QueryResult(question, promql, len(told), seconds), told


def _default(variable: Variable, found: list[str]) -> str:
    if variable.everything is not None:
        return variable.everything
    return found[0] if found else ""


def _interpolated(promql: str, values: Mapping[str, str]) -> str:
    """Replace variables by values, with regard to the quotes around them."""
    return VARIABLE.sub(lambda it: json.dumps(_value(it[1] or it[2], values))[1:-1], promql)


def _value(name: str, values: Mapping[str, str]) -> str:
    if name in values:
        return values[name]
    remedy = "Choose one in Grafana, and save the dashboard with it."
    raise UserError("run the dashboard's queries", f"the variable {name} has no value", remedy)


def _has_number(series: Series) -> bool:
    points = series["values"] if "values" in series else [series["value"]]
    return any(math.isfinite(float(value)) for _, value in points)

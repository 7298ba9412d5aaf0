"""What a real Prometheus answers to every question of a dashboard, as Grafana would ask it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.dashboards.lint import without_macros
from controller.dashboards.queries import VARIABLE, Question, Variable, questions_of, variables_of
from controller.runtime.prometheus import Prometheus, Series

LOOK_BACK_S = 1800.0
"""How far back questions over time go."""
STEP_S = 15.0
"""The least between two points: Grafana's data source is told the longest scrape interval."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What came back."""

    question: Question
    promql: str
    """As it was asked, with values in the place of variables."""
    series: int
    """Those with a number; 0 is no data."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks one Prometheus; its errors are PrometheusUnavailable."""

    prometheus: Prometheus
    look_back_s: float = LOOK_BACK_S
    least_step_s: float = STEP_S

    def dashboard(
        self, dashboard: Mapping[str, Any], chosen: Mapping[str, str] | None = None
    ) -> Iterator[QueryResult]:
        """Yield an answer to every variable, panel and annotation of a dashboard.

        chosen: values of variables; of the others all that they have, or the first.
        """
        answers, values = self.variables(dashboard, chosen)
        yield from answers
        for question in questions_of(dashboard):
            yield self.ask(question, values)

    def variables(
        self, dashboard: Mapping[str, Any], chosen: Mapping[str, str] | None = None
    ) -> tuple[list[QueryResult], dict[str, str]]:
        """Return the answers to the variables of a dashboard, and a value for each."""
        answers, values = [], dict(chosen or {})
        for variable in variables_of(dashboard):
            answer, found = self._values(variable, values)
            answers.append(answer)
            values.setdefault(variable.name, _default(variable, found))
        return answers, values

    def ask(self, question: Question, values: Mapping[str, str]) -> QueryResult:
        """Return the answer to one question."""
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
    """Put values in the place of variables, within the quotes they stand in."""
    return VARIABLE.sub(lambda it: json.dumps(values[it[1] or it[2]])[1:-1], promql)


def _has_number(series: Series) -> bool:
    points = series["values"] if "values" in series else [series["value"]]
    return any(math.isfinite(float(value)) for _, value in points)

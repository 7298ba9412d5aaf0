"""Checks that a dashboard queries only exported data: metrics, labels, variables, PromQL.

This parses the finished JSON with a PromQL parser of its own, so it also checks dashboards that
were edited by hand. A part of a query may use all labels of all metrics in it, and the labels it
creates; the functions of promql.py are stricter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import promql_parser
from promql_parser import (
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    MatrixSelector,
    ParenExpr,
    StringLiteral,
    SubqueryExpr,
    UnaryExpr,
    VectorSelector,
)

from controller.dashboards.alerts import alert_group
from controller.dashboards.queries import (
    Question,
    alert_questions,
    names_of_variables,
    questions_of,
    used_variables,
    variables_of,
)
from controller.dashboards.variables import SOURCE_UID
from controller.metrics.names import all_metrics

_MAKES_LABEL = ("label_replace", "label_join")


@dataclass(frozen=True, slots=True)
class LintFinding:
    """An error in a dashboard."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


def findings_in(dashboard: Mapping[str, Any]) -> Iterator[LintFinding]:
    """Yield the errors in the queries of a dashboard."""
    try:
        variables = list(variables_of(dashboard))
    except ValueError as error:
        yield LintFinding(dashboard["title"], str(error))
        return
    known = names_of_variables(dashboard)
    for question in [*(variable.question for variable in variables), *questions_of(dashboard)]:
        for name in sorted(used_variables(question.promql) - known):
            yield LintFinding(question.place, f"there is no variable {name}")
        yield from findings_about(question)


def findings_in_alerts() -> Iterator[LintFinding]:
    """Yield the errors in the queries of our alerts."""
    for question in alert_questions(alert_group(SOURCE_UID)):
        yield from findings_about(question)


def findings_about(question: Question) -> Iterator[LintFinding]:
    """Yield the errors in one query; the caller checks its variables."""
    try:
        root = promql_parser.parse(without_macros(question.promql))
    except ValueError as error:
        yield LintFinding(question.place, f"not PromQL: {error}: {question.promql}")
        return
    problems: list[str] = []
    labels = _examine(root, problems)
    yield from (LintFinding(question.place, problem) for problem in dict.fromkeys(problems))
    for label in sorted(set(question.labels) - labels):
        yield LintFinding(question.place, f"no metric in it has the label {label} that is shown")


def without_macros(promql: str, window: str = "5m") -> str:
    """Return a query with Grafana's own variables replaced by a window."""
    return re.sub(r"\$__(rate_interval|interval|range)\b", window, promql)


def _examine(node: Expr, problems: list[str]) -> frozenset[str]:
    """Return the labels that a part of a query can have; add what is wrong with it to `problems`.

    Each part is looked at once: the parser copies a part whenever it is asked for.
    """
    if isinstance(node, VectorSelector):
        problems.extend(_selector_problems(node))
        return _LABELS.get(node.name or "", frozenset())
    if isinstance(node, BinaryExpr):
        left, right = node.lhs, node.rhs
        of_left, of_right = _examine(left, problems), _examine(right, problems)
        if node.modifier:
            matching = node.modifier.matching.labels if node.modifier.matching else []
            brought = node.modifier.group_labels or []
            problems.extend(_unknown(matching, of_left, left))
            problems.extend(_unknown([*matching, *brought], of_right, right))
        return of_left | of_right
    if isinstance(node, AggregateExpr):
        under = _examine(node.expr, problems)
        if node.modifier:
            problems.extend(_unknown(node.modifier.labels, under, node.expr))
        return under
    if isinstance(node, Call):
        found = frozenset[str]().union(*(_examine(part, problems) for part in node.args))
        return found | _made_by(node)
    if isinstance(node, MatrixSelector):
        return _examine(node.vector_selector, problems)
    if isinstance(node, ParenExpr | UnaryExpr | SubqueryExpr):
        return _examine(node.expr, problems)
    return frozenset()


def _made_by(call: Call) -> frozenset[str]:
    if call.func.name not in _MAKES_LABEL:
        return frozenset()
    made = call.args[1]
    assert isinstance(made, StringLiteral)  # the parser has seen to it
    return frozenset({made.val})


def _selector_problems(selector: VectorSelector) -> Iterator[str]:
    labels = _LABELS.get(selector.name or "")
    if labels is None:
        yield f"there is no metric {selector.name}"
        return
    for matcher in selector.matchers.matchers:
        if matcher.name not in labels:
            yield f"{selector.name} has no label {matcher.name}"


def _unknown(labels: list[str], known: frozenset[str], under: Expr) -> Iterator[str]:
    for label in sorted(set(labels) - known):
        yield f"no metric in it has the label {label}: {under.prettify()}"


# `up` is Prometheus's own metric of every target.
_LABELS = {"up": frozenset({"job", "instance"})} | {
    series: frozenset((*metric.labels, *(["le"] if series.endswith("_bucket") else [])))
    for metric in all_metrics()
    for series in metric.series_names
}

"""A query that names what is not exported is found, wherever it stands."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from controller.dashboards.alerts import alert_group
from controller.dashboards.files import built_dashboards
from controller.dashboards.lint import findings_about, findings_in, findings_in_alerts
from controller.dashboards.queries import (
    Question,
    alert_questions,
    questions_of,
    variables_of,
)

DASHBOARDS = built_dashboards()
QUESTIONS = [
    *(question for dashboard in DASHBOARDS for question in questions_of(dashboard)),
    *(variable.question for dashboard in DASHBOARDS for variable in variables_of(dashboard)),
    *alert_questions(alert_group("x")),
]
LABEL = re.compile(r"(?<=[{(,] )\b[a-z]+\b(?=[,)])|\b[a-z]+(?==~?\")")
"""A label in a list, or in front of what it must match."""


def test_nothing_is_found_in_what_is_built() -> None:
    assert [finding for it in DASHBOARDS for finding in findings_in(it)] == []
    assert list(findings_in_alerts()) == []
    assert len(QUESTIONS) > 120


def test_every_metric_with_a_wrong_name_is_found() -> None:
    planted = 0
    for question in QUESTIONS:
        for name in re.finditer(r"benchfarm_\w+", question.promql):
            wrong = _planted(question, name)
            assert any("there is no metric" in it.problem for it in findings_about(wrong)), wrong
            planted += 1
    assert planted > 200


def test_every_label_with_a_wrong_name_is_found() -> None:
    planted = 0
    for question in QUESTIONS:
        for label in LABEL.finditer(question.promql):
            wrong = _planted(question, label)
            assert list(findings_about(wrong)), wrong
            planted += 1
    assert planted > 700


def test_every_wrong_label_in_a_legend_is_found() -> None:
    shown = [question for question in QUESTIONS if question.labels]
    assert len(shown) > 50
    for question in shown:
        wrong = replace(question, labels=(*question.labels[1:], "no_such_label"))
        assert [it.problem for it in findings_about(wrong)] == [
            "no metric in it has the label no_such_label that is shown"
        ]


@pytest.mark.parametrize(
    ("promql", "problem"),
    [
        ("sum(", "not PromQL: unclosed left parenthesis"),
        ("", "not PromQL"),
        ("benchfarm_agent_up{device='x'}", "benchfarm_agent_up has no label device"),
        ("benchfarm_runs", "there is no metric benchfarm_runs"),
        ("benchfarm_run_duration_seconds", "there is no metric benchfarm_run_duration_seconds"),
        ("sum by (le) (benchfarm_run_duration_seconds_sum)", "no metric in it has the label le"),
        (
            "benchfarm_device_battery_ratio * on (device) group_left (state) benchfarm_device_info",
            "no metric in it has the label state: benchfarm_device_info",
        ),
        ('{__name__="benchfarm_agent_up"}', "there is no metric"),
    ],
)
def test_findings_say_what_is_wrong(promql: str, problem: str) -> None:
    found = [str(finding) for finding in findings_about(Question("here", promql))]
    assert len(found) == 1
    assert found[0].startswith(f"here: {problem}")


def test_made_labels_count() -> None:
    made = 'sum by (row) (label_join(benchfarm_agent_up, "row", " ", "agent"))'
    assert list(findings_about(Question("here", made, labels=("row",)))) == []


def _fleet() -> dict[str, Any]:
    return deepcopy(DASHBOARDS[0])


def test_unknown_variable_is_found_in_panels_variables_and_annotations() -> None:
    fleet = _fleet()
    fleet["panels"][1]["targets"][0]["expr"] = 'benchfarm_agent_up{agent="$nobody"}'
    fleet["templating"]["list"][1]["query"] = 'label_values(benchfarm_agent_up{agent="$a"}, agent)'
    fleet["annotations"]["list"][0]["target"]["expr"] = 'benchfarm_agent_up{agent="${b:regex}"}'
    assert [str(finding) for finding in findings_in(fleet)] == [
        "Fleet overview / variable kind: there is no variable a",
        "Fleet overview / Agents up / A: there is no variable nobody",
        "Fleet overview / annotation Sweep: there is no variable b",
        "Fleet overview / annotation Sweep: no metric in it has the label sweep that is shown",
    ]


def test_query_of_a_variable_that_is_none_is_found() -> None:
    fleet = _fleet()
    fleet["templating"]["list"][1]["query"] = "metrics(benchfarm_.*)"
    (finding,) = findings_in(fleet)
    assert "variable kind: neither label_values nor query_result" in str(finding)


def test_folded_rows_are_looked_into() -> None:
    fleet = _fleet()
    panel = {**fleet["panels"][1], "targets": [{"refId": "A", "expr": "no_such_metric"}]}
    fleet["panels"] = [{"type": "row", "title": "folded", "panels": [panel]}]
    (finding,) = findings_in(fleet)
    assert finding.problem == "there is no metric no_such_metric"


def _planted(question: Question, place: re.Match[str]) -> Question:
    before, after = question.promql[: place.end()], question.promql[place.end() :]
    return replace(question, promql=f"{before}x{after}")

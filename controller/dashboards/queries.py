"""Every question a dashboard asks Prometheus, read back from its JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VARIABLE = re.compile(r"\$(?:{(\w+)[^}]*}|(\w+))")
"""`$name`, `${name}` or `${name:format}`."""

_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), *(?P<label>\w+)\)")
_QUERY_RESULT = re.compile(r"query_result\((?P<promql>.+)\)")
_VALUE = re.compile(r'(\w+)="\((?!\?<text>)')
"""The label in a variable's regular expression that gives its value."""


@dataclass(frozen=True, slots=True)
class Question:
    """One query, and where it is asked."""

    place: str
    """Such as `Fleet overview / Agents up / A`."""
    promql: str
    """With Grafana's variables still in it."""
    over_time: bool = False
    labels: tuple[str, ...] = ()
    """Labels that are used of the answer: in a legend, or as the values of a variable."""
    points: int = 1000
    """At most how many points over time are asked for."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable whose values Prometheus tells."""

    name: str
    question: Question
    label: str
    of_series: bool
    """The question is a selector, and every series there has been lately counts."""
    everything: str | None
    """What stands for all values, where all can be chosen; None where exactly one is."""


def questions_of(dashboard: Mapping[str, Any]) -> Iterator[Question]:
    """Yield what the panels and annotations of a dashboard ask."""
    title = dashboard["title"]
    for panel in panels_of(dashboard):
        for target in panel.get("targets", ()):
            yield Question(
                place=f"{title} / {panel['title']} / {target['refId']}",
                promql=target["expr"],
                over_time=not target.get("instant", False),
                labels=legend_labels(target.get("legendFormat", "")),
                points=int(panel.get("maxDataPoints", 1000)),
            )
    for annotation in dashboard["annotations"]["list"]:
        yield Question(
            place=f"{title} / annotation {annotation['name']}",
            promql=annotation["target"]["expr"],
            over_time=True,
            labels=legend_labels(annotation.get("textFormat", "")),
            points=100,  # as Grafana asks for annotations
        )


def panels_of(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every panel that is no heading; also those within folded rows."""
    for panel in dashboard["panels"]:
        yield from panel.get("panels", ()) if panel["type"] == "row" else (panel,)


def variables_of(dashboard: Mapping[str, Any]) -> Iterator[Variable]:
    """Yield the variables that are asked for, in order; raises ValueError for an unknown query."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        promql, label, of_series = _asked(variable)
        place = f"{dashboard['title']} / variable {variable['name']}"
        question = Question(place, promql, labels=(label,))
        everything = variable.get("allValue", ".*") if variable.get("includeAll") else None
        yield Variable(variable["name"], question, label, of_series, everything)


def alert_questions(group: Mapping[str, Any]) -> Iterator[Question]:
    """Yield what the rules of a group of alerts ask Prometheus; labels: those they tell of."""
    for rule in group["rules"]:
        told = re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
        for query in rule["data"]:
            if "expr" in query["model"]:
                yield Question(f"alert {rule['title']}", query["model"]["expr"], labels=tuple(told))


def names_of_variables(dashboard: Mapping[str, Any]) -> frozenset[str]:
    """Return the names that `$name` can stand for."""
    return frozenset(variable["name"] for variable in dashboard["templating"]["list"])


def used_variables(text: str) -> frozenset[str]:
    """Return the names of the variables in a text, without Grafana's own."""
    found = (braced or plain for braced, plain in VARIABLE.findall(text))
    return frozenset(name for name in found if not name.startswith("__"))


def legend_labels(legend: str) -> tuple[str, ...]:
    """Return the labels that a legend names."""
    return tuple(re.findall(r"{{\s*(\w+)\s*}}", legend))


def _asked(variable: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Return the PromQL of a variable, the label it takes, and whether it asks for label values."""
    query = str(variable["query"])
    if values := _LABEL_VALUES.fullmatch(query):
        return values["series"], values["label"], True
    regex = variable.get("regex", "")
    label = _VALUE.search(regex) or re.search(r"(\w+)", regex)
    if (result := _QUERY_RESULT.fullmatch(query)) and label:
        return result["promql"], label[1], False
    raise ValueError(f"variable {variable['name']}: neither label_values nor query_result: {query}")

"""The queries of a dashboard, read from its JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
    """One query and its place."""

    place: str
    """Such as `Fleet overview / Agents up / A`."""
    promql: str
    """The query with Grafana's variables."""
    over_time: bool = False
    labels: tuple[str, ...] = ()
    """Labels of the result that are used: in a legend, or as the values of a variable."""
    points: int = 1000
    """Most points over time that the panel requests."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable with values from Prometheus."""

    name: str
    question: Question
    label: str
    of_series: bool
    """Whether the query is a selector for all series of the recent past."""
    everything: str | None
    """Value that stands for all values, if all can be chosen; None if exactly one is."""


def questions_of(dashboard: Mapping[str, Any]) -> Iterator[Question]:
    """Yield the queries of a dashboard's panels and annotations."""
    title = dashboard["title"]
    for panel in panels_of(dashboard):
        for target in _with_promql(panel.get("targets", ()), panel):
            yield Question(
                place=f"{title} / {panel.get('title', '')} / {target.get('refId', '')}",
                promql=target["expr"],
                over_time=not target.get("instant", False),
                labels=legend_labels(target.get("legendFormat", "")),
                points=int(panel.get("maxDataPoints") or 1000),
            )
    for annotation in dashboard["annotations"]["list"]:
        for target in _with_promql([annotation.get("target") or {}], annotation):
            yield Question(
                place=f"{title} / annotation {annotation['name']}",
                promql=target["expr"],
                over_time=True,
                labels=legend_labels(annotation.get("textFormat", "")),
                points=100,  # as Grafana requests for annotations
            )


def _with_promql(
    targets: Iterable[Mapping[str, Any]], owner: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the targets with a query; others are computed, or of another data source."""
    return (one for one in targets if "expr" in one and _is_of_prometheus(one, owner))


def _is_of_prometheus(*from_inside: Mapping[str, Any]) -> bool:
    """Return whether the innermost data source that is named takes PromQL, as an unnamed one does.

    The types of others than Grafana's own, such as Amazon's, have its name in theirs.
    """
    source = next((it["datasource"] for it in from_inside if it.get("datasource")), None)
    return not isinstance(source, Mapping) or "prometheus" in str(source.get("type", "prometheus"))


def panels_of(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every panel except headings, including those in collapsed rows."""
    for panel in dashboard["panels"]:
        yield from panel.get("panels", ()) if panel.get("type") == "row" else (panel,)


def variables_of(dashboard: Mapping[str, Any]) -> Iterator[Variable]:
    """Yield the variables with queries in order; raises ValueError for an unknown query."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query" or not _is_of_prometheus(variable):
            continue
        promql, label, of_series = _asked(variable)
        place = f"{dashboard['title']} / variable {variable['name']}"
        question = Question(place, promql, labels=(label,))
        everything = _everything(variable) if variable.get("includeAll") else None
        yield Variable(variable["name"], question, label, of_series, everything)


def fixed_values(dashboard: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of the variables without PromQL, as they were saved, by name."""
    values = {}
    for variable in dashboard["templating"]["list"]:
        value = (variable.get("current") or {}).get("value")
        asks = variable["type"] == "query" and _is_of_prometheus(variable)
        if asks or value is None:
            continue
        several = value if isinstance(value, list) else [value]
        said = (_everything(variable) if one == "$__all" else str(one) for one in several)
        values[variable["name"]] = "|".join(said)
    return values


def _everything(variable: Mapping[str, Any]) -> str:
    return variable.get("allValue") or ".*"


def alert_questions(group: Mapping[str, Any]) -> Iterator[Question]:
    """Yield the queries of a group of alert rules; labels: those in their texts."""
    for rule in group["rules"]:
        told = re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
        for query in rule["data"]:
            if "expr" in query["model"]:
                yield Question(f"alert {rule['title']}", query["model"]["expr"], labels=tuple(told))


def names_of_variables(dashboard: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of a dashboard's variables."""
    return frozenset(variable["name"] for variable in dashboard["templating"]["list"])


def used_variables(text: str) -> frozenset[str]:
    """Return the names of the variables in a text, without Grafana's own."""
    found = (braced or plain for braced, plain in VARIABLE.findall(text))
    return frozenset(name for name in found if not name.startswith("__"))


def legend_labels(legend: str) -> tuple[str, ...]:
    """Return the labels in a legend."""
    return tuple(re.findall(r"{{\s*(\w+)\s*}}", legend))


def _asked(variable: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Return the PromQL of a variable, its label, and whether it asks for label values."""
    asked = variable.get("query", "")
    query = str(asked.get("query", "") if isinstance(asked, dict) else asked)
    if values := _LABEL_VALUES.fullmatch(query):
        return values["series"], values["label"], True
    regex = variable.get("regex") or ""
    label = _VALUE.search(regex) or re.search(r"(\w+)", regex)
    if (result := _QUERY_RESULT.fullmatch(query)) and label:
        return result["promql"], label[1], False
    raise ValueError(f"variable {variable['name']}: neither label_values nor query_result: {query}")

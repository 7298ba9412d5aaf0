"""Export of results to files. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from controller.contracts.base import Scalar, canonical_json, scalar_text
from controller.contracts.facts import declaration_of, declared_facts
from controller.contracts.records import StoredResult
from controller.reports.csv_text import csv_text

ENVIRONMENT = "environment."
"""What the name of a fact's column begins with, as its path in JSON."""
_COLUMNS = (
    "run_id",
    "sweep_id",
    "cell_key",
    "repeat",
    "attempt",
    "device",
    "device_name",
    "device_kind",
    "virtual",
    "workload",
    "stack",
    "scenario",
    "started_at",
    "counted",
    "validity",
    "tags",
)


def as_json(results: Sequence[StoredResult]) -> str:
    """Return complete results as one JSON array."""
    return json.dumps([result.model_dump(mode="json") for result in results], indent=2) + "\n"


def as_csv(results: Sequence[StoredResult]) -> str:
    """Return one line for each result and metric: identity, value, unit, knobs and environment.

    Each fact that any of the results has is a column; it is empty where a result lacks it.
    """
    facts = _facts(results)
    columns = (*_COLUMNS, "metric", "value", "unit", "samples", "knobs")
    rows = (row for result in results for row in _rows(result, facts))
    return csv_text((*columns, *(f"{ENVIRONMENT}{fact}" for fact in facts)), rows)


def _rows(result: StoredResult, facts: Sequence[str]) -> Iterator[list[object]]:
    """Yield one row for each metric of a result."""
    record = result.model_dump(mode="json", include=set(_COLUMNS))
    record["tags"] = " ".join(result.tags)
    environment = [_cell(result.environment.get(fact)) for fact in facts]
    for name, metric in result.metrics.items():
        samples = " ".join(map(repr, metric.samples))
        yield (
            [record[column] for column in _COLUMNS]
            + [name, metric.value, metric.unit.value, samples]
            + [canonical_json(result.knobs), *environment]
        )


def _facts(results: Sequence[StoredResult]) -> list[str]:
    """Return the facts of all environments: those that benchfarm declares, in their order."""
    order = {fact.name: place for place, fact in enumerate(declared_facts())}

    def place(name: str) -> tuple[int, str]:
        declared = declaration_of(name)
        return (order[declared.name] if declared else len(order)), name

    return sorted({name for result in results for name in result.environment}, key=place)


def _cell(fact: Scalar | tuple[Scalar, ...] | None) -> str:
    """Return a fact as one cell: a list as JSON, and nothing for one that could not be read."""
    if fact is None:
        return ""
    return canonical_json(fact) if isinstance(fact, tuple) else scalar_text(fact)

"""Export of results to files. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from controller.contracts.base import canonical_json
from controller.contracts.records import StoredResult

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
)


def as_json(results: Sequence[StoredResult]) -> str:
    """Return complete results as one JSON array."""
    return json.dumps([result.model_dump(mode="json") for result in results], indent=2) + "\n"


def as_csv(results: Sequence[StoredResult]) -> str:
    """Return one line for each result and metric: identity, value, unit and knobs."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow((*_COLUMNS, "metric", "value", "unit", "samples", "knobs"))
    for result in results:
        record = result.model_dump(mode="json")
        for name, metric in result.metrics.items():
            samples = " ".join(map(repr, metric.samples))
            writer.writerow(
                [record[column] for column in _COLUMNS]
                + [name, repr(metric.value), metric.unit.value, samples]
                + [canonical_json(result.knobs)]
            )
    return buffer.getvalue()

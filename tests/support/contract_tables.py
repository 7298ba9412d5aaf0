"""The table of results as it is made of contracts, one value after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from controller.contracts.base import canonical_json
from controller.contracts.outcome_filter import OutcomeFilter, PageRequest
from controller.contracts.records import StoredResult
from controller.reports.arrow import FLAGS, NUMBERS, SCHEMA, TEXTS
from controller.store.reading import SqliteReader


def contract_table(results: Iterable[StoredResult], *, samples: bool = True) -> pa.Table:
    """Return a row for each metric of results."""
    rows = [row for result in results for row in _rows_of(result, samples=samples)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows_of(result: StoredResult, *, samples: bool) -> Iterator[dict[str, Any]]:
    same = {
        **{name: str(getattr(result, name)) for name in TEXTS},
        **{name: getattr(result, name) for name in (*NUMBERS, *FLAGS)},
        "started_at": round(result.started_at * 1000),
        "reasons": list(result.reasons),
        "tags": list(result.tags),
        "knobs": canonical_json(result.knobs),
        "environment": canonical_json(result.environment),
    }
    for name, measured in sorted(result.metrics.items()):
        yield {
            **same,
            "metric": name,
            "value": measured.value,
            "unit": measured.unit.value,
            "samples": list(measured.samples) if samples else [],
        }


def stored_in_order(reader: SqliteReader, wanted: OutcomeFilter) -> list[StoredResult]:
    """Return all results that a filter keeps as contracts, in the order of storing."""
    found: list[StoredResult] = []
    asked: PageRequest | None = PageRequest(size=1000)
    while asked:
        page = reader.result_page(wanted, asked)
        found += page.results
        asked = PageRequest(size=1000, after=page.last) if page.last else None
    return found

"""Queries for the newest outcomes of each kind, and the choice among them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Select, func, null, or_, select

from controller.contracts.audit import AUDIT, audit_of
from controller.contracts.capability import DELEGATE_KNOBS
from controller.contracts.catalog import Catalog
from controller.contracts.records import PRECISION_KNOBS, REPEATS_KEPT, precision_of
from controller.contracts.run import AttemptState
from controller.contracts.work import work_of
from controller.store import tables
from controller.store.scanning import Row

TRIES_OF_CELL = 50
"""How many attempts of a cell on a device are enough to tell how long the next will take."""
TRIES = 2000
"""How many attempts are read for that, of all cells: as many as take a tenth of a second."""

_KNOBS = tables.cells.c.knobs
_AUDIT = _KNOBS[AUDIT].as_string()
_PRECISION = func.coalesce(*(_KNOBS[name].as_string() for name in PRECISION_KNOBS))


def results_by_cell() -> Select[Any]:
    """Return the query for the newest results of each device, cell and validity, by age.

    Of each the REPEATS_KEPT newest, as far as the sweep of the newest measured them.
    """
    outcomes, runs, cells = tables.outcomes, tables.runs, tables.cells
    by_age: dict[str, Any] = {
        "partition_by": (outcomes.c.device_id, runs.c.cell_key, outcomes.c.validity),
        "order_by": outcomes.c.number.desc(),
    }
    aged = (
        select(
            *(outcomes.c[name] for name in ("number", "device_id", "validity")),
            *(runs.c[name] for name in ("cell_key", "sweep_id")),
            *(cells.c[name] for name in ("workload", "stack", "scenario", "knobs", "profiled")),
            func.row_number().over(**by_age).label("place"),
            func.first_value(runs.c.sweep_id).over(**by_age).label("newest_sweep"),
        )
        .join_from(outcomes, runs, runs.c.run_id == outcomes.c.run_id)
        .join(cells)
        .where(
            *(outcomes.c.type == "result", outcomes.c.counted),
            *(cells.c.versus.is_(null()), _AUDIT.is_(null())),
        )
        .subquery()
    )
    kept = aged.c.place <= REPEATS_KEPT, aged.c.sweep_id == aged.c.newest_sweep
    return select(aged).where(*kept).order_by(aged.c.number)


def newest_numbers(results: Iterable[Row], catalog: Catalog) -> list[int]:
    """Return the numbers of the newest results of each kind, by age.

    Of each device, work, stack, number format, validity and mode, profiled or not: those of the
    newest one's sweep, of all its cells, since repeats of each may follow. By mode, since an
    accuracy has no speed and a performance no quality. results: by age.
    """
    by_cell: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in results:
        by_cell[row["device_id"], row["cell_key"], row["validity"]].append(row)
    by_kind: defaultdict[tuple[object, ...], list[list[Row]]] = defaultdict(list)
    for of_cell in by_cell.values():
        by_kind[_kind_of(of_cell[-1], catalog)].append(of_cell[-REPEATS_KEPT:])
    return sorted(number for cells in by_kind.values() for number in _of_newest_sweep(cells))


def _of_newest_sweep(cells: Iterable[Iterable[Row]]) -> list[int]:
    rows = [row for of_cell in cells for row in of_cell]
    sweep_id = max(rows, key=lambda row: int(row["number"]))["sweep_id"]
    return [row["number"] for row in rows if row["sweep_id"] == sweep_id]


def newest_among(
    results: Sequence[tuple[Row, list[Row]]], catalog: Catalog
) -> list[tuple[Row, list[Row]]]:
    """Return the newest results of each kind, and their repeats, with their measurements."""
    plain = (row for row, _ in results if row["counted"] and row["versus"] is None)
    rows = [row for row in plain if not audit_of(row["knobs"])]
    chosen = set(newest_numbers(rows, catalog))
    return [one for one in results if one[0]["number"] in chosen]


def _kind_of(row: Row, catalog: Catalog) -> tuple[object, ...]:
    knobs = row["knobs"]
    work = work_of(catalog, row["workload"], row["scenario"], row["stack"], knobs)
    said = (row["device_id"], row["stack"], row["validity"], bool(row["profiled"]))
    return *said, precision_of(knobs), knobs.get("mode"), work


def newest_tries(
    runs: Iterable[Row],
    attempts: Iterable[Row],
    kinds: Container[tuple[str, str, str]],
    until: float = math.inf,
) -> list[str]:
    """Return the runs of the newest attempts with a result; runs: with their cells.

    kinds: workload, stack and scenario of the cells they may be of. until: seconds since the epoch;
    none ended later. A row may be damaged.
    """
    cells = {
        run["run_id"]: run["cell_key"]
        for run in runs
        if (run["workload"], run["stack"], run["scenario"]) in kinds
    }
    done = [a for a in attempts if a["run_id"] in cells and is_done(a, until)]
    places: Counter[tuple[str, str]] = Counter()
    found: list[tuple[int, str]] = []
    for attempt in sorted(done, key=_ended_at, reverse=True):
        alike = (cells[attempt["run_id"]], attempt["device_id"])
        places[alike] += 1
        if places[alike] <= TRIES_OF_CELL:
            found.append((places[alike], attempt["run_id"]))
    # The newest of each cell and device go before the second newest of any.
    found.sort(key=itemgetter(0))
    return list(dict.fromkeys(run_id for _, run_id in found))[:TRIES]


def is_done(attempt: Row, until: float) -> bool:
    """Return whether an attempt had a result by a time, seconds since the epoch."""
    return attempt["state"] == AttemptState.SUCCEEDED and _ended_at(attempt) <= until


def _ended_at(attempt: Row) -> float:
    ended_at = attempt["ended_at"]
    return ended_at if isinstance(ended_at, float) else 0.0


def newest_asked(kind: str) -> Select[int]:
    """Return the query for the newest results, or failures, of cells that asked for a delegate.

    One for each device, workload, stack, delegate and number format; failures also for each blame
    and kind, since some don't concern the device.
    """
    outcomes, cells = tables.outcomes, tables.cells
    asked: list[ColumnElement[str]] = [_KNOBS[name].as_string() for name in DELEGATE_KNOBS]
    return (
        select(func.max(outcomes.c.number))
        .join_from(outcomes, tables.runs, tables.runs.c.run_id == outcomes.c.run_id)
        .join(cells)
        .where(
            outcomes.c.type == kind,
            outcomes.c.counted,
            cells.c.versus.is_(null()),
            _AUDIT.is_(null()),
            or_(*(knob.is_not(None) for knob in asked)),
        )
        .group_by(
            *(outcomes.c[name] for name in ("device_id", "workload", "stack", "blame", "kind")),
            *asked,
            _PRECISION,
        )
    )

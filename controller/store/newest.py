"""Queries for the numbers of the newest outcomes of each kind."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, func, null, or_, select

from controller.contracts.capability import DELEGATE_KNOBS
from controller.contracts.records import PRECISION_KNOBS
from controller.store import tables

_KNOBS = tables.cells.c.knobs
_PRECISION = func.coalesce(*(_KNOBS[name].as_string() for name in PRECISION_KNOBS))

NEWEST_RESULTS = (
    select(func.max(tables.outcomes.c.number))
    .join_from(tables.outcomes, tables.runs, tables.runs.c.run_id == tables.outcomes.c.run_id)
    .join(tables.cells)
    .where(
        tables.outcomes.c.type == "result",
        tables.outcomes.c.counted,
        tables.cells.c.versus.is_(null()),
    )
    .group_by(
        *(tables.outcomes.c[name] for name in ("device_id", "workload", "stack", "scenario")),
        _PRECISION,
        tables.outcomes.c.validity,
        tables.cells.c.profiled,
    )
)
"""For each device, workload, stack, scenario, number format, validity, profiled or not."""


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
            or_(*(knob.is_not(None) for knob in asked)),
        )
        .group_by(
            *(outcomes.c[name] for name in ("device_id", "workload", "stack", "blame", "kind")),
            *asked,
            _PRECISION,
        )
    )

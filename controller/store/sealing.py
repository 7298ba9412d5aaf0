"""Checksums of stored records, so that damage is found before anything is shown. Pure.

A checksum covers a record, however the tables divide it: that of a run covers its attempts, that of
an outcome its measurements and its origin. So no change of bytes in the file makes a record pass
for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from sqlalchemy import Float, Table

from controller.contracts.base import digest
from controller.contracts.run import Run
from controller.contracts.sweep import Cell
from controller.store import tables
from controller.store.flattening import HEX_DIGITS

ORIGIN = ("device_kind", "virtual", "sweep_id", "cell_key", "repeat", "knobs", "versus")
"""Columns of attempt and run that a result or failure shows."""

RUN = (*(n for n in (*Run.model_fields, *Cell.model_fields) if n not in ("cell", "attempts")),)
MEASUREMENT = ("value", "unit", "samples")

_UNSEALED = {
    # Facts about the device are read at an attempt's first save, and covered by its outcome.
    tables.attempts.name: {"device_kind", "virtual"},
}


def seal_of_row(table: Table, row: Mapping[str, Any]) -> str:
    """Return the checksum of a row alone, without the numbers that the store assigned."""
    counter = table.autoincrement_column
    left_out = {"checksum", *({counter.name} if counter is not None else ())}
    left_out |= _UNSEALED.get(table.name, set())
    return _seal(table, {c.name: row[c.name] for c in table.columns if c.name not in left_out})


def seal_of_run(row: Mapping[str, Any], attempts: Sequence[str]) -> str:
    """Return the checksum of a run: its own columns, its cell and its attempts' checksums."""
    said = {name: row[name] for name in (*RUN, "cell_key")}
    return _seal(tables.runs, {**said, "attempts": list(attempts)})


def seal_of_outcome(
    row: Mapping[str, Any], origin: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]
) -> str:
    """Return the checksum of an outcome: its columns, its origin and its measurements by name."""
    columns = (c.name for c in tables.outcomes.columns if c.name not in ("number", "checksum"))
    metrics = {m["name"]: _plain(tables.measurements, m, MEASUREMENT) for m in measured}
    said = {name: row[name] for name in columns}
    whole = {**said, **{name: origin[name] for name in ORIGIN}, "metrics": metrics}
    return _seal(tables.outcomes, whole)


def _seal(table: Table, said: Mapping[str, Any]) -> str:
    # None is left out, so that a column added by a later schema changes no checksum.
    known = {k: v for k, v in _plain(table, said, said).items() if v is not None}
    return digest(known, HEX_DIGITS)


def _plain(
    table: Table, row: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any]
) -> dict[str, Any]:
    """Return values of a row as the store returns them: reals are floats."""
    reals = _reals(table)
    return {n: _real(row[n]) if n in reals else _said(row[n]) for n in names}


def _said(value: Any) -> Any:  # noqa: ANN401 - of a damaged row, anything
    return {"sha256": sha256(value).hexdigest()} if isinstance(value, bytes) else value


@cache
def _reals(table: Table) -> frozenset[str]:
    return frozenset(c.name for c in table.columns if isinstance(c.type, Float))


def _real(value: Any) -> Any:  # noqa: ANN401 - of a damaged row, anything
    return float(value) + 0.0 if isinstance(value, int | float) else value  # SQLite has no -0.0

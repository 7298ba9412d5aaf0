"""Checksums of what is stored, and how many runs each sweep has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

Row = dict[str, Any]

# What each checksum covers, apart from a run's attempts and an outcome's origin and measurements.
COVERED = {
    "agents": (
        "agent_id incarnation version host online since exporter revoked clock_ahead_s boot_id"
    ),
    "devices": "device_id agent_id kind virtual labels facts host_cores online since life",
    "device_events": "device_id at state who why",
    "tokens": "name digest created_at revoked_at",
    "sweeps": "sweep_id name generation submitted_at document user runs",
    "attempts": (
        "run_id number device_id agent_id incarnation state leased_at expires_at ended_at late"
        " cooling"
    ),
    "runs": (
        "run_id sweep_id position repeat cell_key workload stack scenario knobs selector"
        " deadline_s created_at state versus profiled resumed_after queued_at"
    ),
    "outcomes": (
        "run_id attempt counted type device_id workload stack scenario validity blame kind"
        " message started_at recorded_at document"
    ),
}
ORIGIN = "device_kind virtual sweep_id cell_key repeat knobs versus"

JSONS = {"revoked", "labels", "facts", "host_cores", "life", "document", "knobs", "versus"}
BOOLEANS = {"online", "virtual", "late", "cooling", "counted", "profiled"}


def upgrade() -> None:
    """Add them, and compute them; what can't be read gets none, and so counts as damaged."""
    for table in COVERED:
        # Made anew, so that the columns stand before the constraints, as in a new store.
        with op.batch_alter_table(table, recreate="always") as changed:
            if table == "sweeps":
                changed.add_column(sa.Column("runs", sa.Integer(), nullable=True))
            changed.add_column(sa.Column("checksum", sa.String(), nullable=True))
    connection = op.get_bind()
    connection.exec_driver_sql(
        "UPDATE sweeps SET runs = (SELECT count(*) FROM runs WHERE runs.sweep_id = sweeps.sweep_id)"
    )
    for table in COVERED:  # attempts before their runs
        _keep(connection, table, _sealed(connection, table))


def _sealed(connection: sa.Connection, table: str) -> Iterator[tuple[int, Row, Row]]:
    if table == "runs":
        return _runs(connection)
    if table == "outcomes":
        return _outcomes(connection)
    return ((number, row, {}) for number, row in _rows(table))


def _runs(connection: sa.Connection) -> Iterator[tuple[int, Row, Row]]:
    tried = "SELECT checksum FROM attempts WHERE run_id = ? ORDER BY number"
    for number, row in _rows("runs"):
        seals = connection.exec_driver_sql(tried, (row["run_id"],)).scalars().all()
        yield number, row, {"attempts": list(seals)}


def _outcomes(connection: sa.Connection) -> Iterator[tuple[int, Row, Row]]:
    origin = (
        f"SELECT {_columns(ORIGIN)} FROM attempts JOIN runs USING (run_id)"
        " WHERE run_id = ? AND number = ?"
    )
    measured = (
        "SELECT name, value, unit, samples FROM measurements"
        " WHERE run_id = ? AND attempt = ? AND counted = ?"
    )
    for number, row in _rows("outcomes"):
        key = (row["run_id"], row["attempt"])
        found = connection.exec_driver_sql(origin, key).first()
        metrics = {
            name: {"value": value, "unit": unit, "samples": _json(samples)}
            for name, value, unit, samples in connection.exec_driver_sql(
                measured, (*key, row["counted"])
            )
        }
        if found is not None:
            yield (
                number,
                {**row, **dict(zip(ORIGIN.split(), found, strict=True))},
                {"metrics": metrics},
            )


def _rows(table: str) -> Iterator[tuple[int, Row]]:
    names = COVERED[table]
    found = op.get_bind().exec_driver_sql(f"SELECT rowid, {_columns(names)} FROM {table}")
    for row in found:
        yield row[0], dict(zip(names.split(), row[1:], strict=True))


def _columns(names: str) -> str:
    return ", ".join(f"[{name}]" for name in names.split())


def _keep(connection: sa.Connection, table: str, rows: Iterator[tuple[int, Row, Row]]) -> None:
    seals = [(_seal(row, more), number) for number, row, more in rows]
    if seals:
        connection.exec_driver_sql(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", seals)


def _seal(row: Mapping[str, Any], more: Mapping[str, Any]) -> str | None:
    try:
        whole = {**{name: _value(name, value) for name, value in row.items()}, **more}
        known = {name: value for name, value in whole.items() if value is not None}
        said = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - of any column
    if name in JSONS:
        return _json(value)
    return bool(value) if name in BOOLEANS and value is not None else value


def _json(value: Any) -> Any:  # noqa: ANN401 - of any column
    try:
        return None if value is None else json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return object()  # which has no JSON, and so the row no checksum

"""Cells are stored once; runs refer to them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

COLUMNS = ("workload", "stack", "scenario", "knobs", "selector", "versus", "profiled")


def upgrade() -> None:
    """Take the cells out of the runs: a run's checksum covers both, and stays what it was."""
    op.create_table(
        "cells",
        sa.Column("cell_key", sa.String(), primary_key=True),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("stack", sa.String(), nullable=False),
        sa.Column("scenario", sa.String(), nullable=False),
        sa.Column("knobs", sa.JSON(), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("versus", sa.JSON(), nullable=True),
        sa.Column("profiled", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("cell_key", name="pk_cells"),
    )
    _keep_cells(op.get_bind())
    op.drop_index("ix_runs_series", table_name="runs")
    with op.batch_alter_table("runs", recreate="always") as changed:
        for name in COLUMNS:
            changed.drop_column(name)
        changed.create_foreign_key("fk_runs_cells", "cells", ["cell_key"], ["cell_key"])


def _keep_cells(connection: sa.Connection) -> None:
    names = ", ".join(("cell_key", *COLUMNS))
    found = connection.exec_driver_sql(f"SELECT DISTINCT {names} FROM runs").all()
    # Where damage has made two of one cell, the one that its key is of goes first.
    ordered = sorted(found, key=lambda row: not _is_key(*row))
    if ordered:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        insert = f"INSERT OR IGNORE INTO cells ({names}) VALUES ({marks})"
        connection.exec_driver_sql(insert, [tuple(row) for row in ordered])


def _is_key(key: object, *said: Any) -> bool:  # noqa: ANN401 - of any column
    row = dict(zip(COLUMNS, said, strict=True))
    try:
        cell = {**row, "knobs": json.loads(row["knobs"])}
        if row["versus"] is not None:
            cell["versus"] = json.loads(row["versus"])
        if row["profiled"] is not None:
            cell["profiled"] = bool(row["profiled"])
        known = {name: value for name, value in cell.items() if value is not None}
        text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        return False
    return hashlib.sha256(text.encode()).hexdigest()[:16] == key

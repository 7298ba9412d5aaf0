"""The schema of the first release, 0.2.0."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"  # numbers before it were used before the first release
down_revision = None


def upgrade() -> None:
    """Create every table, each after those it refers to."""
    _make_fleet()
    _make_queue()
    _make_outcomes()


def _make_fleet() -> None:
    op.create_table(
        "agents",
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("incarnation", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("exporter", sa.String(), nullable=True),
        sa.Column("revoked", sa.JSON(), nullable=True),
        sa.Column("clock_ahead_s", sa.Float(), nullable=True),
        sa.Column("boot_id", sa.String(), nullable=True),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("agent_id", name="pk_agents"),
    )
    op.create_table(
        "devices",
        sa.Column("device_id", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("virtual", sa.Boolean(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("host_cores", sa.JSON(), nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("life", sa.JSON(), nullable=True),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.agent_id"], name="fk_devices_agents"),
        sa.PrimaryKeyConstraint("device_id", name="pk_devices"),
    )
    op.create_index("ix_devices_agent_id", "devices", ["agent_id"])
    op.create_table(
        "device_events",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.device_id"], name="fk_device_events_devices"
        ),
        sa.PrimaryKeyConstraint("number", name="pk_device_events"),
    )
    op.create_index("ix_device_events_device_id", "device_events", ["device_id"])
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_tokens"),
    )


def _make_queue() -> None:
    op.create_table(
        "sweeps",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("submitted_at", sa.Float(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("user", sa.String(), nullable=True),
        sa.Column("runs", sa.Integer(), nullable=True),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_sweeps"),
        sa.UniqueConstraint("sweep_id", name="uq_sweeps_sweep_id"),
    )
    op.create_index("ix_sweeps_name", "sweeps", ["name"])
    op.create_table(
        "cells",
        sa.Column("cell_key", sa.String(), nullable=False),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("stack", sa.String(), nullable=False),
        sa.Column("scenario", sa.String(), nullable=False),
        sa.Column("knobs", sa.JSON(), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("versus", sa.JSON(), nullable=True),
        sa.Column("profiled", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("cell_key", name="pk_cells"),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("cell_key", sa.String(), nullable=False),
        sa.Column("deadline_s", sa.Float(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("resumed_after", sa.Integer(), nullable=True),
        sa.Column("queued_at", sa.Float(), nullable=True),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["cell_key"], ["cells.cell_key"], name="fk_runs_cells"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.sweep_id"], name="fk_runs_sweeps"),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_index("ix_runs_cell_key", "runs", ["cell_key"])
    op.create_index("ix_runs_queue", "runs", ["sweep_id", "position"])
    op.create_index("ix_runs_state", "runs", ["state"])
    op.create_table(
        "unleased",
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("deadline_s", sa.Float(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("cells", sa.LargeBinary(), nullable=False),
        sa.Column("spans", sa.JSON(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.sweep_id"], name="fk_unleased_sweeps"),
        sa.PrimaryKeyConstraint("sweep_id", "created_at", name="pk_unleased"),
    )


def _make_outcomes() -> None:
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("device_id", sa.String(), nullable=False),
        sa.Column("device_kind", sa.String(), nullable=False),
        sa.Column("virtual", sa.Boolean(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("incarnation", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("leased_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("cooling", sa.Boolean(), nullable=True),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.agent_id"], name="fk_attempts_agents"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.device_id"], name="fk_attempts_devices"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_attempts_runs"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempts"),
    )
    op.create_index("ix_attempts_device_id", "attempts", ["device_id"])
    op.create_table(
        "outcomes",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("device_id", sa.String(), nullable=False),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("stack", sa.String(), nullable=False),
        sa.Column("scenario", sa.String(), nullable=False),
        sa.Column("validity", sa.String(), nullable=True),
        sa.Column("blame", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "attempt"],
            ["attempts.run_id", "attempts.number"],
            name="fk_outcomes_attempts",
        ),
        sa.PrimaryKeyConstraint("number", name="pk_outcomes"),
        sa.UniqueConstraint(
            "run_id", "attempt", "counted", name="uq_outcomes_run_id_attempt_counted"
        ),
    )
    op.create_index(
        "ix_outcomes_one_result",
        "outcomes",
        ["run_id"],
        unique=True,
        sqlite_where=sa.text("counted AND type = 'result'"),
    )
    op.create_index(
        "ix_outcomes_series",
        "outcomes",
        ["type", "counted", "validity", "device_id", "workload", "stack", "scenario", "number"],
    )
    op.create_table(
        "measurements",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("samples", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "attempt", "counted"],
            ["outcomes.run_id", "outcomes.attempt", "outcomes.counted"],
            name="fk_measurements_outcomes",
        ),
        sa.PrimaryKeyConstraint("run_id", "attempt", "counted", "name", name="pk_measurements"),
    )

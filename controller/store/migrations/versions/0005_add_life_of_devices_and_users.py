"""Devices have a life and a history; sweeps have users, who have tokens; runs can be resumed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add what is kept of them; nothing so far was quarantined, revoked or resumed."""
    for table, column, kind in (
        ("agents", "revoked", sa.JSON(none_as_null=True)),
        ("devices", "life", sa.JSON(none_as_null=True)),
        ("sweeps", "user", sa.String()),
        ("runs", "resumed_after", sa.Integer()),
    ):
        # Made anew, so that the column stands before the constraints, as in a new store.
        with op.batch_alter_table(table, recreate="always") as changed:
            changed.add_column(sa.Column(column, kind, nullable=True))
    op.create_table(
        "device_events",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
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
        sa.PrimaryKeyConstraint("name", name="pk_tokens"),
    )

"""Keys of outcomes, for lists."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Create the table and its index; the writer fills it when it opens the store."""
    op.create_table(
        "outcome_keys",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=True),
        sa.Column("type", sa.String(), nullable=True),
        sa.Column("device_id", sa.String(), nullable=True),
        sa.Column("cell_key", sa.String(), nullable=True),
        sa.Column("sweep_id", sa.String(), nullable=True),
        sa.Column("validity", sa.String(), nullable=True),
        sa.Column("virtual", sa.Boolean(), nullable=True),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["number"], ["outcomes.number"], name="fk_outcome_keys_outcomes"),
        sa.PrimaryKeyConstraint("number", name="pk_outcome_keys"),
    )
    op.create_index(
        "ix_outcome_keys_cells",
        "outcome_keys",
        ["counted", "type", "device_id", "cell_key", "number"],
    )

"""Runs that have never been leased share one record; those that have rows keep them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the table: what was queued before is leased, cancelled and resumed where it is."""
    op.create_table(
        "unleased",
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("deadline_s", sa.Float(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("cells", sa.LargeBinary(), nullable=False),
        sa.Column("spans", sa.JSON(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("sweep_id", "created_at", name="pk_unleased"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.sweep_id"], name="fk_unleased_sweeps"),
    )

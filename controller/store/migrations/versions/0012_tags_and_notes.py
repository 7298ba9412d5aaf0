"""Tags and notes of sweeps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the table; no sweep has any yet."""
    op.create_table(
        "sweep_annotations",
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("noted", sa.Integer(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["sweep_id"], ["sweeps.sweep_id"], name="fk_sweep_annotations_sweeps"
        ),
        sa.PrimaryKeyConstraint("sweep_id", name="pk_sweep_annotations"),
    )

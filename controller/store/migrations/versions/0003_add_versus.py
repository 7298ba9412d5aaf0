"""Paired comparisons: a run may have a side B."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add side B; no run so far has one."""
    # Made anew, so that the column stands before the constraints, as in a new store.
    with op.batch_alter_table("runs", recreate="always") as runs:
        runs.add_column(sa.Column("versus", sa.JSON(none_as_null=True), nullable=True))

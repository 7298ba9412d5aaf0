"""Profiles: a run may be profiled, too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add whether it is; no run so far was."""
    # Made anew, so that the column stands before the constraints, as in a new store.
    with op.batch_alter_table("runs", recreate="always") as runs:
        runs.add_column(sa.Column("profiled", sa.Boolean(), nullable=True))

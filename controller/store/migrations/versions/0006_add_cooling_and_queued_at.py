"""An attempt says whether it waits for its device to cool; a run, when it was queued again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add both; nothing is known of what was before."""
    for table, column, kind in (
        ("runs", "queued_at", sa.Float()),
        ("attempts", "cooling", sa.Boolean()),
    ):
        # Made anew, so that the column stands before the constraints, as in a new store.
        with op.batch_alter_table(table, recreate="always") as changed:
            changed.add_column(sa.Column(column, kind, nullable=True))

"""How far the clocks of agents are ahead is measured when they speak, and kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add it; of what was known before, it is unknown."""
    # Made anew, so that the column stands before the constraints, as in a new store.
    with op.batch_alter_table("agents", recreate="always") as changed:
        changed.add_column(sa.Column("clock_ahead_s", sa.Float(), nullable=True))

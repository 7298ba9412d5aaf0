"""Which boot of its host an agent belongs to is kept: it tells copies of one disk image apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add it; of what was known before, it is unknown."""
    # Made anew, so that the column stands before the constraints, as in a new store.
    with op.batch_alter_table("agents", recreate="always") as changed:
        changed.add_column(sa.Column("boot_id", sa.String(), nullable=True))

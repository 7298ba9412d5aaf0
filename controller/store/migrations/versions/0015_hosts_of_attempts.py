"""Hosts that train together: the partners of an attempt, and the address of each agent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add both columns; attempts of one host, and agents of earlier releases, have none."""
    op.add_column("agents", sa.Column("address", sa.String(), nullable=True))
    op.add_column("attempts", sa.Column("partners", sa.JSON(none_as_null=True), nullable=True))

"""Agents tell where Prometheus finds their metrics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add a column to `agents`."""
    with op.batch_alter_table("agents") as agents:
        agents.add_column(sa.Column("exporter", sa.String()))

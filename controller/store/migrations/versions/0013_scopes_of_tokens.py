"""Scopes of tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; a token without a scope is a submitter's, and its checksum stays."""
    with op.batch_alter_table("tokens", recreate="always") as tokens:
        column = sa.Column("scope", sa.String(), nullable=True)
        tokens.add_column(column, insert_after="revoked_at")

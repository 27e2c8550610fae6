"""Whose registered graphs are: all keys that registered them, not the first alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; the first keys are those that are known."""
    op.create_table(
        "graph_owners",
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("owner", "hash"),
    )
    op.execute(
        "INSERT INTO graph_owners (hash, owner, created_at) "
        "SELECT hash, owner, created_at FROM registrations WHERE owner IS NOT NULL"
    )

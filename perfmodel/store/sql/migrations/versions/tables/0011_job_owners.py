"""Whose jobs are: the keys that registered them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Make the table; whose the jobs are that are there already is not known."""
    op.create_table(
        "job_owners",
        sa.Column("ref", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("owner", "ref"),
    )

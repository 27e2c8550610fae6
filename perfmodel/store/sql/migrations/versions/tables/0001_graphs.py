"""Graphs, registrations and captures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables, where an earlier version has not done so without migrations."""
    op.create_table(
        "graphs",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("canonical", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "registrations",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("batch_size", sa.Integer, nullable=False),
        sa.Column("tokens_per_sample", sa.Integer),
        sa.Column("created_at", sa.String(32), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "captures",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("tokens_per_sample", sa.Integer),
        sa.Column("created_at", sa.String(32), nullable=False),
        if_not_exists=True,
    )

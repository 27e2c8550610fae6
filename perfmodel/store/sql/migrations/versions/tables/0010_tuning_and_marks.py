"""Journals of searches for settings; how far what came in was when a retraining was entered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "tuning_journals",
        sa.Column("study", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "retraining_marks",
        sa.Column("model", sa.String(200), primary_key=True),
        sa.Column("entered_at", sa.Double, nullable=False),
        sa.Column("observation", sa.BigInteger, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("alarm", sa.BigInteger, nullable=False),
        sa.Column("cron", sa.String(200), nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
    )

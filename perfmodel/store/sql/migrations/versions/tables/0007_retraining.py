"""Retrainings, and what they say while they run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_IS_OPEN = "state IN ('waiting', 'running')"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "retrainings",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("trigger", sa.String(16), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("caller", sa.String(200), nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("fraction", sa.Double, nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("version", sa.String(200)),
        sa.Column("decision", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_index("ix_retrainings_state_id", "retrainings", ["state", "id"])
    op.create_index("ix_retrainings_model_id", "retrainings", ["model", "id"])
    op.create_index(
        "uq_retrainings_open_model",
        "retrainings",
        ["model"],
        unique=True,
        sqlite_where=sa.text(_IS_OPEN),
        postgresql_where=sa.text(_IS_OPEN),
    )
    op.create_table(
        "retraining_lines",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("retraining", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
    )
    op.create_index("ix_retraining_lines_retraining_id", "retraining_lines", ["retraining", "id"])

"""What was asked last, and how versions answer that beside the one that serves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TABLES = ("shadow_answers", "shadow_runs", "asked_questions")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "asked_questions",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("asked_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "shadow_runs",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("problem", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    _create_answers()


def _create_answers() -> None:
    op.create_table(
        "shadow_answers",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("against", sa.String(200), nullable=False),
        sa.Column("question", sa.String(64), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("device", sa.String(200), nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("family", sa.String(64), nullable=False),
        sa.Column("placement_kind", sa.String(32), nullable=False),
        sa.Column("job_family", sa.String(64), nullable=False),
        sa.Column("batch_size", sa.Integer, nullable=False),
        sa.Column("accumulation_steps", sa.Integer, nullable=False),
        sa.Column("placement", sa.Text, nullable=False),
        sa.Column("named_placement", sa.Text, nullable=False),
        sa.Column("serving_s", sa.Double),
        sa.Column("shadow_s", sa.Double),
        sa.Column("answered_ratio", sa.Double),
        sa.Column("serving_problem", sa.Text),
        sa.Column("shadow_problem", sa.Text),
        sa.Column("compared_at", sa.String(32), nullable=False),
        sa.UniqueConstraint("model", "against", "question", name="uq_shadow_answers_question"),
    )

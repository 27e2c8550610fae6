"""Jobs, observations, prices, operations, and how often they were changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    _create_jobs()
    _create_observations()
    op.create_table(
        "prices",
        sa.Column("accelerator", sa.String(200), primary_key=True),
        sa.Column("per_hour", sa.Double, nullable=False),
        sa.Column("currency", sa.String(8), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "operations",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("progress", sa.Double, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("problem", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "revisions",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("ref", sa.String(64), nullable=False, unique=True),
        sa.Column("family", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_index("ix_jobs_family", "jobs", ["family"])


def _create_observations() -> None:
    op.create_table(
        "observations",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("family", sa.String(64), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("job_ref", sa.String(64), nullable=False),
        sa.Column("placement", sa.Text, nullable=False),
        sa.Column("batch_size", sa.Integer, nullable=False),
        sa.Column("accumulation_steps", sa.Integer, nullable=False),
        sa.Column("step_time_s", sa.Double, nullable=False),
        sa.Column("sync_time_s", sa.Double),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("received_at", sa.String(32), nullable=False),
        sa.UniqueConstraint("family", "key", name="uq_observations_family_key"),
    )
    op.create_index("ix_observations_job_ref", "observations", ["job_ref"])
    op.create_index("ix_observations_revision", "observations", ["revision"])
    op.create_index("ix_observations_family_state_id", "observations", ["family", "state", "id"])

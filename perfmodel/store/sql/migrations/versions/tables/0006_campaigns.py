"""Campaigns: their tasks, and what the reference workload took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TABLES = ("campaign_references", "campaign_tasks", "campaigns")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "campaigns",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("budget_s", sa.Double),
        sa.Column("spent_s", sa.Double, nullable=False),
        sa.Column("caller", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    _create_tasks()
    op.create_table(
        "campaign_references",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("campaign", sa.String(64), nullable=False),
        sa.Column("machine", sa.String(300), nullable=False),
        sa.Column("step_time_s", sa.Double, nullable=False),
        sa.Column("drift", sa.Double),
        sa.Column("good", sa.Boolean, nullable=False),
        sa.Column("measured_at", sa.String(32), nullable=False),
    )
    op.create_index(
        "ix_campaign_references_campaign_machine_id",
        "campaign_references",
        ["campaign", "machine", "id"],
    )


def _create_tasks() -> None:
    op.create_table(
        "campaign_tasks",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("campaign", sa.String(64), nullable=False),
        sa.Column("accelerator", sa.String(200), nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("turn", sa.Double, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("machine", sa.String(300)),
        sa.Column("elapsed_s", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("checked", sa.Boolean, nullable=False),
        sa.Column("doubt", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_index(
        "ix_campaign_tasks_campaign_state_turn", "campaign_tasks", ["campaign", "state", "turn"]
    )
    op.create_index("ix_campaign_tasks_state_turn", "campaign_tasks", ["state", "turn"])

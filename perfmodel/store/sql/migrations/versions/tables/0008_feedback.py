"""Observations beside what was answered: residuals, alarms, and who looks for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TABLES = ("drift_keepers", "alarms", "residuals")


def upgrade() -> None:
    """Add the column, and create the tables; one keeper's place is there from the start."""
    with op.batch_alter_table("observations") as table:
        table.add_column(sa.Column("software", sa.Text))
    _create_residuals()
    _create_alarms()
    keepers = op.create_table(
        "drift_keepers",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    place = {
        "name": "drift",
        "state": "waiting",
        "owner": "",
        "attempts": 0,
        "lease_until": 0.0,
        "updated_at": "",
    }
    op.bulk_insert(keepers, [place])


def _create_residuals() -> None:
    op.create_table(
        "residuals",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("observation", sa.BigInteger, nullable=False, unique=True),
        sa.Column("accelerator", sa.String(200), nullable=False),
        sa.Column("software", sa.Text, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("operators", sa.String(32), nullable=False),
        sa.Column("label", sa.String(300), nullable=False),
        sa.Column("model_version", sa.String(200), nullable=False),
        sa.Column("predicted_s", sa.Double),
        sa.Column("low_s", sa.Double),
        sa.Column("high_s", sa.Double),
        sa.Column("model_s", sa.Double),
        sa.Column("now_version", sa.String(200), nullable=False),
        sa.Column("now_s", sa.Double),
        sa.Column("reason", sa.Text),
        sa.Column("compared_at", sa.String(32), nullable=False),
    )


def _create_alarms() -> None:
    op.create_table(
        "alarms",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("value", sa.String(300), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("shift", sa.Double, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("since_observation", sa.BigInteger, nullable=False),
        sa.Column("opened_observation", sa.BigInteger, nullable=False),
        sa.Column("since", sa.String(32), nullable=False),
        sa.Column("opened_at", sa.String(32), nullable=False),
        sa.Column("ended_at", sa.String(32)),
        sa.Column("ended_because", sa.Text),
        sa.Column("acknowledged_by", sa.String(64)),
        sa.Column("acknowledged_at", sa.String(32)),
        sa.Column("note", sa.Text),
        sa.Column("also", sa.Text, nullable=False),
        sa.Column("remedies", sa.Text, nullable=False),
        sa.Column("doubts", sa.Text, nullable=False),
        sa.Column("told", sa.String(16)),
    )
    op.create_index("ix_alarms_state_id", "alarms", ["state", "id"])

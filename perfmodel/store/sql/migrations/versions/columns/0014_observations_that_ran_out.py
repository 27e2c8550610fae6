"""Finds what ran out of memory among many steps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_RAN_OUT = "step_time_s > 1e300"


def upgrade() -> None:
    """Add the index of the few rows that ran out of memory."""
    op.create_index(
        "ix_observations_ran_out",
        "observations",
        ["family", "reporter", "state", "id"],
        sqlite_where=sa.text(_RAN_OUT),
        postgresql_where=sa.text(_RAN_OUT),
    )

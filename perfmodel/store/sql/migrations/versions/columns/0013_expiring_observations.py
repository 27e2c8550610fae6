"""When single observations come to count no longer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_INDEX = "ix_observations_expires_at"


def upgrade() -> None:
    """Add the column; those that are there already count for good."""
    op.add_column("observations", sa.Column("expires_at", sa.String(32)))
    op.create_index(_INDEX, "observations", ["expires_at"])

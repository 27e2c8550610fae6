"""What answers need of a graph, beside it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table; what is missing in it is worked out when a graph is asked about."""
    op.create_table(
        "graph_facts",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )

"""Whose registered graphs are: the keys that registered them first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column; whose the graphs are that are there already is not known."""
    op.add_column("registrations", sa.Column("owner", sa.String(64)))

"""Who reported an observation; keys name those of one reporter."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_OLD, _NEW = "uq_observations_family_key", "uq_observations_family_reporter_key"
_INDICES = {
    "ix_observations_family_reporter_state_id": ["family", "reporter", "state", "id"],
    "ix_observations_reporter_state_id": ["reporter", "state", "id"],
    "ix_observations_received_at": ["received_at"],
}


def upgrade() -> None:
    """Add the column; who reported what is there already is not known."""
    op.drop_index("ix_observations_family_state_id", "observations")
    with op.batch_alter_table("observations") as table:
        reporter = sa.Column("reporter", sa.String(64), nullable=False, server_default="")
        table.add_column(reporter)
        table.drop_constraint(_OLD, type_="unique")
        table.create_unique_constraint(_NEW, ["family", "reporter", "key"])
    for name, columns in _INDICES.items():
        op.create_index(name, "observations", columns)

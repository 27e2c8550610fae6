"""Operations that can be taken over, facts of graphs, accelerators, aliases, keys and audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REGISTERED = "hash, mode, batch_size, tokens_per_sample, created_at"


def upgrade() -> None:
    """Create the tables; registrations are numbered in the order in which they came."""
    op.rename_table("registrations", "registrations_before")
    _create_registrations()
    op.execute(
        f"INSERT INTO registrations ({_REGISTERED}) SELECT {_REGISTERED} "
        "FROM registrations_before ORDER BY created_at, hash"
    )
    op.drop_table("registrations_before")
    # Nothing has ever kept an operation in the table as it was.
    op.drop_table("operations")
    _create_operations()
    _create_accelerators()
    _create_keys()


def _create_registrations() -> None:
    op.create_table(
        "registrations",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("batch_size", sa.Integer, nullable=False),
        sa.Column("tokens_per_sample", sa.Integer),
        sa.Column("node_count", sa.Integer),
        sa.Column("parameter_count", sa.BigInteger),
        sa.Column("flops", sa.Double),
        sa.Column("source", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
    )


def _create_operations() -> None:
    op.create_table(
        "operations",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("caller", sa.String(64), nullable=False),
        sa.Column("request", sa.LargeBinary),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("result", sa.LargeBinary),
        sa.Column("problem", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_index("ix_operations_state_id", "operations", ["state", "id"])


def _create_accelerators() -> None:
    op.create_table(
        "accelerators",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "aliases",
        sa.Column("alias", sa.String(200), primary_key=True),
        sa.Column("accelerator", sa.String(200), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_index("ix_aliases_accelerator", "aliases", ["accelerator"])


def _create_keys() -> None:
    op.create_table(
        "keys",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("key_id", sa.String(32), nullable=False, unique=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("scopes", sa.String(200), nullable=False),
        sa.Column("rate_per_s", sa.Double),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("revoked_at", sa.String(32)),
    )
    op.create_table(
        "audit",
        sa.Column("id", _ROW_NUMBER, primary_key=True, autoincrement=True),
        sa.Column("content", sa.Text, nullable=False),
    )

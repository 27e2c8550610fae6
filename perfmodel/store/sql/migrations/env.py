"""What Alembic runs around the migrations: the transaction is that of the caller."""

from __future__ import annotations

from alembic import context

from perfmodel.store.sql.tables import METADATA

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True)
context.run_migrations()

"""Bring a database to the newest schema."""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from perfmodel.store.sql.connections import Connections

logger = logging.getLogger(__name__)

#: The newest migration; a test holds it to the scripts.
HEAD = "0014"

#: Any number that no other program locks: workers that start together migrate one by one.
_LOCK = 7_265_731

#: Seconds that a migration may take.
_LIMIT_S = 600.0

_SCRIPTS = Path(__file__).parent / "migrations"


def migrate(connections: Connections) -> None:
    """Bring a database to the newest schema; nothing is written where it has that already.

    Raises
    ------
    StoreError
        The database cannot be reached or written, or is newer than this program.
    """
    with connections.reading() as connection:
        if revision_of(connection) == HEAD:
            return
    with connections.writing(limit_s=_LIMIT_S) as connection:
        if not connections.is_sqlite:
            # Who starts beside others waits for the one that migrates.
            limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
            for limit in limits:
                connection.execute(text(f"SET LOCAL {limit} = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        found = revision_of(connection)
        if found != HEAD:
            upgrade(connection)
            if found is not None:
                logger.info(
                    "the database was brought from schema %s to %s: what was written for the first "
                    "does not start on it any more",
                    found,
                    HEAD,
                )


def revision_of(connection: Connection) -> str | None:
    """Return the revision of a database's schema; None where it was never migrated."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(
        text("SELECT version_num FROM alembic_version")
    ).scalar_one_or_none()
    return revision


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to a revision inside an open transaction."""
    # It lists its plugins, which nobody has asked for.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
    # Deferred: it takes long to import and is needed once in the life of a database.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    from perfmodel.errors import StoreError

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("recursive_version_locations", "true")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, revision)
    except CommandError as error:
        raise StoreError(
            f"The database cannot be brought to this version: {error}. Was it written by a newer "
            "one? Start that, or give another database."
        ) from error

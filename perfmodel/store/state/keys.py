"""What is kept of the keys of callers, and what administrators did, for all hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import insert, select, update

from perfmodel.store.sql.shared_store import SharedStore
from perfmodel.store.sql.tables import AUDIT, KEYS

#: Name of the counter that each change of the keys raises.
REVISION = "keys"


class KeyRows(SharedStore):
    """Keeps keys, by the names of their columns; none is ever removed.

    ``digest`` is the hash of the key itself, which is kept nowhere; ``scopes`` are words.
    """

    def all(self) -> list[dict[str, Any]]:
        """Return every key, the oldest first, revoked ones included."""
        columns = [column for column in KEYS.c if column is not KEYS.c.id]
        rows = self._rows(select(*columns).order_by(KEYS.c.id))
        return [{**row._mapping, "scopes": row.scopes.split()} for row in rows]

    def add(self, key: Mapping[str, Any]) -> None:
        """Keep a key."""
        with self._changing(REVISION) as connection:
            connection.execute(insert(KEYS).values(**{**key, "scopes": " ".join(key["scopes"])}))

    def revoke(self, key_id: str, revoked_at: str) -> bool:
        """Make a key worthless; one that is so already stays as it is. False without it."""
        mine = KEYS.c.key_id == key_id
        with self._changing(REVISION) as connection:
            connection.execute(
                update(KEYS).where(mine, KEYS.c.revoked_at.is_(None)).values(revoked_at=revoked_at)
            )
            return connection.execute(select(KEYS.c.id).where(mine)).first() is not None


class AuditStore(SharedStore):
    """Keeps what administrators did; nothing is ever changed."""

    def append(self, content: str) -> None:
        """Keep what was done, as JSON; it is on disk when this returns."""
        self._write(insert(AUDIT).values(content=content))

    def newest(self, limit: int) -> Sequence[str]:
        """Return what was done last, the newest first."""
        query = select(AUDIT.c.content).order_by(AUDIT.c.id.desc()).limit(limit)
        return self._column(query)

"""The lease of the one process that compares observations and looks for drift."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Select, select

from perfmodel.store.sql.leases import LeasedStore
from perfmodel.store.sql.shared_store import record_from
from perfmodel.store.sql.tables import DRIFT_KEEPERS

_KEEPER = DRIFT_KEEPERS.c
#: Its place is never given up, however many processes were lost on it.
_MOST_ATTEMPTS = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeping:
    """A time as the keeper; what is written after it was lost finds another attempt."""

    name: str
    owner: str
    attempts: int


class KeeperLease(LeasedStore):
    """Gives the place of the keeper to one process at a time."""

    work = DRIFT_KEEPERS

    def take(self, owner: str, *, lease_s: float) -> Keeping | None:
        """Become the keeper; None where somebody is."""

        def free(connection: Connection) -> Select[tuple[int]]:
            due = self._may_be_taken(connection, most_attempts=_MOST_ATTEMPTS)
            return select(_KEEPER.id).where(due)

        row = self._take(owner, free, lease_s=lease_s)
        return None if row is None else record_from(Keeping, row)

    @classmethod
    def holds(cls, connection: Connection, keeping: Keeping) -> bool:
        """Tell within a transaction whether somebody still is the keeper."""
        query = select(_KEEPER.id).where(cls._is_held(keeping))
        return connection.execute(query).first() is not None

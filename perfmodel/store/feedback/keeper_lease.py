"""The lease of the one process that compares observations and looks for drift."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Select, select

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.leases import RUNNING, LeaseTable
from perfmodel.store.sql.tables import DRIFT_KEEPERS

_KEEPER = DRIFT_KEEPERS.c
#: Its place is never given up, however many processes were lost on it.
_MOST_ATTEMPTS = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeping:
    """A time as the keeper; what is written after it was lost finds another attempt."""

    name: str
    owner: str
    attempt: int


class KeeperLease:
    """Gives the place of the keeper to one process at a time."""

    def __init__(self, connections: Connections) -> None:
        self._leases = LeaseTable(connections, DRIFT_KEEPERS)

    def take(self, owner: str, *, lease_s: float) -> Keeping | None:
        """Become the keeper; None where somebody is."""

        def free(connection: Connection) -> Select[tuple[int]]:
            due = self._leases.may_be_taken(connection, most_attempts=_MOST_ATTEMPTS)
            return select(_KEEPER.id).where(due)

        columns = (_KEEPER.name, _KEEPER.attempts)
        row = self._leases.take(owner, free, lease_s=lease_s, columns=columns)
        return row and Keeping(name=row.name, owner=owner, attempt=row.attempts)

    def renew(self, keeping: Keeping, *, lease_s: float) -> bool:
        """Stay the keeper; False where somebody else is by now."""
        return self._leases.renew(keeping.owner, [keeping.name], lease_s=lease_s) > 0

    def give_back(self, keeping: Keeping) -> None:
        """Let somebody else be the keeper at once."""
        self._leases.put_back(keeping)

    def holds(self, connection: Connection, keeping: Keeping) -> bool:
        """Tell within a transaction whether somebody still is the keeper."""
        query = select(_KEEPER.id).where(
            _KEEPER.name == keeping.name,
            _KEEPER.state == RUNNING,
            _KEEPER.attempts == keeping.attempt,
        )
        return connection.execute(query).first() is not None

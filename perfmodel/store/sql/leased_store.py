"""What every store begins with whose rows are work that one process at a time does."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from sqlalchemy import Table, update

from perfmodel.store.sql.connections import Connections, now
from perfmodel.store.sql.leases import Held, LeaseTable
from perfmodel.store.sql.shared_store import SharedStore


class LeasedStore(SharedStore):
    """Reads and writes a table of leases; each store says for itself what is due, and how it ends.

    Attributes
    ----------
    work : Table
        With the columns of :class:`.LeaseTable`.
    """

    work: ClassVar[Table]

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._leases = LeaseTable(connections, self.work)

    def renew(self, owner: str, names: Collection[str], *, lease_s: float) -> bool:
        """Say that a worker still lives; False where one of them is not its own any more."""
        return self._leases.renew(owner, names, lease_s=lease_s) == len(names)

    def put_back(self, held: Held, *, wait_s: float = 0.0, counts: bool = False) -> bool:
        """Let something wait again; False where somebody else has it by now.

        Parameters
        ----------
        wait_s : float
            Time for which nobody tries again, seconds.
        counts : bool
            Whether this was an attempt; not, where the reason is none of its own.
        """
        return self._leases.put_back(held, wait_s=wait_s, counts=counts)

    def _give_up(self, most_attempts: int, *, state: str, **values: object) -> int:
        """End what lost its worker so often; return how many rows those were."""
        with self._connections.writing() as connection:
            lost = self._leases.was_lost(connection, most_attempts=most_attempts)
            changed = connection.execute(
                update(self.work).where(lost).values(state=state, updated_at=now(), **values)
            )
        return int(changed.rowcount)

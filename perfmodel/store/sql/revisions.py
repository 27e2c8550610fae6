"""Counters of changes, by which copies in memory are known to be old; and who follows them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

from sqlalchemy import Connection, select

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.polling import PollingThread
from perfmodel.store.sql.shared_store import insert_into
from perfmodel.store.sql.tables import REVISIONS


def raise_revision(connection: Connection, name: str) -> int:
    """Count a change.

    Until the transaction ends no other can count one of that name, so that revisions are in the
    order in which changes become visible.

    Returns
    -------
    int
        The revision of this transaction, >= 1.
    """
    counted = (
        insert_into(connection, REVISIONS)
        .values(name=name, value=1)
        .on_conflict_do_update(index_elements=["name"], set_={"value": REVISIONS.c.value + 1})
        .returning(REVISIONS.c.value)
    )
    return int(connection.execute(counted).scalar_one())


def read_revisions(connection: Connection) -> dict[str, int]:
    """Return how often each thing was changed; what never was is not named."""
    return {row.name: int(row.value) for row in connection.execute(select(REVISIONS))}


@final
class RevisionWatch(PollingThread):
    """Looks at the counters of changes from time to time and tells who wants to know."""

    def __init__(self, connections: Connections, *, poll_s: float = 0.5) -> None:
        super().__init__("revisions", every_s=poll_s, complaint="changes by others cannot be seen")
        self._connections = connections
        self._listeners: dict[str, list[Callable[[], object]]] = {}
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def on_change(self, name: str, tell: Callable[[], object]) -> None:
        """Call somebody, in the thread that looks, after something was changed.

        Whether it was changed since the process began is not known at first, so that the first
        look tells everybody.

        Parameters
        ----------
        tell : callable
            If it raises :class:`~perfmodel.errors.StoreError` it is told again.
        """
        self._listeners.setdefault(name, []).append(tell)

    def poll(self) -> None:
        """Look now, and tell who is to be told."""
        with self._lock:
            with self._connections.reading() as connection:
                found = read_revisions(connection)
            for name, listeners in list(self._listeners.items()):
                newest = found.get(name, 0)
                if self._seen.get(name) != newest:
                    for tell in listeners:
                        tell()
                    self._seen[name] = newest

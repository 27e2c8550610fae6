"""Counters of changes, by which copies in memory are known to be old."""

from __future__ import annotations

from sqlalchemy import Connection, select

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


def read_revision(connection: Connection, name: str) -> int:
    """Return how often something was changed."""
    found = connection.execute(select(REVISIONS.c.value).where(REVISIONS.c.name == name))
    return int(found.scalar_one_or_none() or 0)

"""Registered jobs, under the hash of their content."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial

from sqlalchemy import select

from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import Page, SharedStore, insert_new, record_from
from perfmodel.store.sql.tables import JOBS, OWNERS


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredJob:
    """A job as it is kept.

    Parameters
    ----------
    ref : str
        Hash of its content.
    family : str
        What jobs share that differ in their batch alone.
    content : str
        The job as canonical JSON.
    created_at : str
        When it was registered first: UTC, ISO 8601. Left empty by who registers one.
    """

    ref: str
    family: str
    content: str
    created_at: str = ""


class JobStore(SharedStore):
    """Keeps jobs."""

    def register(self, job: StoredJob, *, owner: str = "") -> tuple[StoredJob, bool]:
        """Keep a job; one that is there already stays as it is.

        Parameters
        ----------
        owner : str
            The key that registers it; ``""`` is nobody.

        Returns
        -------
        stored : StoredJob
            With the time at which it was registered first.
        created : bool
            Whether that was now.
        """
        known = self.find(job.ref)
        if known is not None and (not owner or self.is_of(job.ref, owner)):
            return known, False
        with self._connections.writing() as connection:
            row = {**asdict(job), "created_at": now()}
            created = bool(insert_new(connection, JOBS, [row], "ref"))
            if owner:
                owned = {"ref": job.ref, "owner": owner, "created_at": now()}
                insert_new(connection, OWNERS, [owned], "owner", "ref")
            stored = connection.execute(select(JOBS).where(JOBS.c.ref == job.ref)).one()
        return _stored(stored), created

    def find(self, ref: str) -> StoredJob | None:
        """Return a job by its name, or None."""
        return self._find(select(JOBS).where(JOBS.c.ref == ref), _stored)

    def is_of(self, ref: str, owner: str) -> bool:
        """Tell whether a key registered a job."""
        query = select(OWNERS.c.ref).where(OWNERS.c.owner == owner, OWNERS.c.ref == ref)
        return self._has(query)

    def page(
        self, *, owner: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[StoredJob]:
        """Return some jobs, newest first: those that a key registered, or all."""
        query = select(JOBS)
        if owner is not None:
            own = select(OWNERS.c.ref).where(OWNERS.c.owner == owner)
            query = query.where(JOBS.c.ref.in_(own))
        return self._page(query, JOBS.c.id, _stored, cursor=cursor, limit=limit)


_stored = partial(record_from, StoredJob)

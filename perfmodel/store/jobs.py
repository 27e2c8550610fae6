"""Registered jobs, under the hash of their content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, Row, select
from sqlalchemy.dialects import postgresql, sqlite

from perfmodel.store.connections import Connections, now
from perfmodel.store.pages import Page, read_cursor, write_cursor
from perfmodel.store.tables import JOBS


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


class JobStore:
    """Keeps jobs; may be shared by threads and processes.

    Parameters
    ----------
    connections : Connections
        To a database of the newest schema.

    Raises
    ------
    StoreError
        In every method: the database cannot be read or written.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def register(self, job: StoredJob) -> tuple[StoredJob, bool]:
        """Keep a job; one that is there already stays as it is.

        Returns
        -------
        stored : StoredJob
            With the time at which it was registered first.
        created : bool
            Whether that was now.
        """
        known = self.find(job.ref)
        if known is not None:
            return known, False
        with self._connections.writing() as connection:
            created = job.ref in insert_jobs(connection, [job])
            row = connection.execute(select(JOBS).where(JOBS.c.ref == job.ref)).one()
        return _stored(row), created

    def find(self, ref: str) -> StoredJob | None:
        """Return a job by its name, or None."""
        with self._connections.reading() as connection:
            row = connection.execute(select(JOBS).where(JOBS.c.ref == ref)).one_or_none()
        return None if row is None else _stored(row)

    def page(self, *, cursor: str | None = None, limit: int = 100) -> Page[StoredJob]:
        """Return some jobs, newest first.

        Parameters
        ----------
        cursor : str or None
            ``next_cursor`` of the page before.
        limit : int
            Jobs of a page at most, >= 1.

        Raises
        ------
        InvalidInputError
            Not a cursor.
        """
        query = select(JOBS).order_by(JOBS.c.id.desc()).limit(limit + 1)
        before = read_cursor(cursor)
        if before is not None:
            query = query.where(JOBS.c.id < before)
        with self._connections.reading() as connection:
            rows = connection.execute(query).all()
        return Page(
            items=tuple(_stored(row) for row in rows[:limit]),
            next_cursor=write_cursor(rows[limit - 1].id) if len(rows) > limit else None,
        )


def insert_jobs(connection: Connection, jobs: Iterable[StoredJob]) -> set[str]:
    """Keep the jobs that are not there yet; return their names."""
    rows = [
        {"ref": job.ref, "family": job.family, "content": job.content, "created_at": now()}
        for job in jobs
    ]
    if not rows:
        return set()
    into = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = into(JOBS).on_conflict_do_nothing(index_elements=["ref"]).returning(JOBS.c.ref)
    return set(connection.execute(statement, rows).scalars())


def _stored(row: Row[tuple[object, ...]]) -> StoredJob:
    return StoredJob(ref=row.ref, family=row.family, content=row.content, created_at=row.created_at)

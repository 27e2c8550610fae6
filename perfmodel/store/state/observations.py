"""Measured steps of jobs, as they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, func, select

from perfmodel.store.sql.connections import Connections, now
from perfmodel.store.sql.revisions import raise_revision, read_revision
from perfmodel.store.sql.shared_store import Page, SharedStore, insert_into
from perfmodel.store.sql.tables import JOBS, OBSERVATIONS
from perfmodel.store.state.jobs import StoredJob, insert_jobs

#: Name of the counter that each transaction with new observations raises.
REVISION = "observations"

#: Of so many newest observations of a family those are chosen that count for its answers.
_NEWEST = 4_096
#: Jobs that are known to be on disk.
_MOST_REMEMBERED = 100_000


class ObservationState(StrEnum):
    """Whether an observation counts."""

    ACCEPTED = "accepted"
    QUARANTINED = "quarantined"


class Outcome(StrEnum):
    """What became of an observation that was sent."""

    #: It is on disk.
    ADDED = "added"
    #: It was there before: the same key, the same content.
    KNOWN = "known"
    #: The key belongs to an observation of other content, which stays.
    CONFLICT = "conflict"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredObservation:
    """A measured step as it is kept.

    Parameters
    ----------
    job : StoredJob
        The job that was measured; read back, it has only ``ref`` and ``family``.
    key : str
        Names the observation within the family of its job, at most 200 characters.
    content_hash : str
        Tells an observation that is sent again from another of the same key.
    placement : str
        As JSON.
    reason : str or None
        Why it is quarantined.
    received_at : str
        UTC, ISO 8601; empty before it is kept.
    """

    job: StoredJob
    key: str
    content_hash: str
    placement: str
    batch_size: int
    accumulation_steps: int
    step_time_s: float
    sync_time_s: float | None
    state: ObservationState = ObservationState.ACCEPTED
    reason: str | None = None
    received_at: str = ""


class ObservationStore(SharedStore):
    """Keeps observations."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._kept_jobs: set[str] = set()

    def add(self, observations: Sequence[StoredObservation]) -> list[Outcome]:
        """Keep observations and their jobs in one transaction.

        Returns
        -------
        list of Outcome
            One for each. When this returns they are on disk.
        """
        if not observations:
            return []
        jobs = {seen.job.ref: seen.job for seen in observations}
        new_jobs = [job for ref, job in jobs.items() if ref not in self._kept_jobs]
        with self._connections.writing() as connection:
            # First: it is the lock that makes transactions of several hosts wait for each other.
            revision = raise_revision(connection, REVISION)
            insert_jobs(connection, new_jobs)
            added = _insert(connection, observations, revision)
            content = _content(connection, observations, added)
        self._remember(new_jobs)
        return _outcomes(observations, added, content)

    def _remember(self, jobs: Iterable[StoredJob]) -> None:
        """Note jobs that are on disk: they are never removed, and need not be written again."""
        if len(self._kept_jobs) > _MOST_REMEMBERED:
            self._kept_jobs = set()
        self._kept_jobs.update(job.ref for job in jobs)

    def page(
        self,
        *,
        family: str | None = None,
        state: ObservationState | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[StoredObservation]:
        """Return some observations, newest first."""
        query = select(OBSERVATIONS)
        if family is not None:
            query = query.where(OBSERVATIONS.c.family == family)
        if state is not None:
            query = query.where(OBSERVATIONS.c.state == state.value)
        return self._page(query, OBSERVATIONS.c.id, _stored, cursor=cursor, limit=limit)

    def recent(
        self, family: str, *, most: int = 256, of_one_cell: int = 3
    ) -> tuple[StoredObservation, ...]:
        """Return the accepted observations that count for a family of jobs, oldest first.

        A job that reports each of its steps must not crowd out what it reached elsewhere: of one
        cell (placement, batch, accumulation) only the newest few are returned.

        Parameters
        ----------
        most : int
            In all.
        of_one_cell : int
            Of one cell.
        """
        table = OBSERVATIONS.c
        newest = (
            select(OBSERVATIONS)
            .where(table.family == family, table.state == ObservationState.ACCEPTED.value)
            .order_by(table.id.desc())
            .limit(_NEWEST)
            .subquery()
        )
        cell = (newest.c.placement, newest.c.batch_size, newest.c.accumulation_steps)
        position = func.row_number().over(partition_by=cell, order_by=newest.c.id.desc())
        numbered = select(newest, position.label("position")).subquery()
        query = (
            select(numbered)
            .where(numbered.c.position <= of_one_cell)
            .order_by(numbered.c.id.desc())
            .limit(most)
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query).all()
        return tuple(_stored(row) for row in reversed(rows))

    def newest(self, most: int, *, after: int = 0) -> tuple[tuple[StoredObservation, ...], int]:
        """Return the accepted observations of all jobs that were kept last, oldest first.

        Parameters
        ----------
        after : int
            Only those that were kept later than what an earlier call returned: its second value.

        Returns
        -------
        tuple of tuple of StoredObservation and int
            With the content of their jobs; and where the next call may go on.
        """
        table = OBSERVATIONS.c
        query = (
            select(OBSERVATIONS, JOBS.c.content.label("content"))
            .join(JOBS, table.job_ref == JOBS.c.ref)
            .where(table.id > after, table.state == ObservationState.ACCEPTED.value)
            .order_by(table.id.desc())
            .limit(most)
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query).all()
        last = rows[0].id if rows else after
        return tuple(_stored(row, row.content) for row in reversed(rows)), last

    def revision(self) -> int:
        """Return the revision of the newest observations."""
        with self._connections.reading() as connection:
            return read_revision(connection, REVISION)

    def changed_since(self, revision: int) -> tuple[int, frozenset[str]]:
        """Return the newest revision, and the families that got observations after an older one."""
        later = OBSERVATIONS.c.revision > revision
        with self._connections.reading() as connection:
            # The counter first: what is added in between is then found twice rather than never.
            newest = read_revision(connection, REVISION)
            if newest == revision:
                return newest, frozenset()
            found = connection.execute(select(OBSERVATIONS.c.family).where(later).distinct())
            return newest, frozenset(found.scalars())


_Key = tuple[str, str]


def _insert(
    connection: Connection, observations: Sequence[StoredObservation], revision: int
) -> set[_Key]:
    statement = (
        insert_into(connection, OBSERVATIONS)
        .on_conflict_do_nothing(index_elements=["family", "key"])
        .returning(OBSERVATIONS.c.family, OBSERVATIONS.c.key)
    )
    received_at = now()
    # Of two with the same key the first is kept.
    first = {(seen.job.family, seen.key): seen for seen in reversed(observations)}
    rows = [_row(seen, revision, received_at) for seen in reversed(first.values())]
    return {(row.family, row.key) for row in connection.execute(statement, rows)}


def _row(seen: StoredObservation, revision: int, received_at: str) -> dict[str, Any]:
    return {
        "family": seen.job.family,
        "key": seen.key,
        "content_hash": seen.content_hash,
        "job_ref": seen.job.ref,
        "placement": seen.placement,
        "batch_size": seen.batch_size,
        "accumulation_steps": seen.accumulation_steps,
        "step_time_s": seen.step_time_s,
        "sync_time_s": seen.sync_time_s,
        "state": seen.state.value,
        "reason": seen.reason,
        "revision": revision,
        "received_at": received_at,
    }


def _content(
    connection: Connection, observations: Sequence[StoredObservation], added: set[_Key]
) -> dict[_Key, str]:
    """Return the content hashes that stand under the keys that were taken before."""
    taken: dict[str, list[str]] = {}
    for family, key in {(seen.job.family, seen.key) for seen in observations} - added:
        taken.setdefault(family, []).append(key)
    table = OBSERVATIONS.c
    return {
        (family, row.key): row.content_hash
        for family, keys in taken.items()
        for row in connection.execute(
            select(table.key, table.content_hash).where(table.family == family, table.key.in_(keys))
        )
    }


def _outcomes(
    observations: Sequence[StoredObservation], added: set[_Key], content: dict[_Key, str]
) -> list[Outcome]:
    outcomes = []
    stands = dict(content)
    for seen in observations:
        key = (seen.job.family, seen.key)
        if key in added and key not in stands:
            stands[key] = seen.content_hash
            outcomes.append(Outcome.ADDED)
        elif stands[key] == seen.content_hash:
            outcomes.append(Outcome.KNOWN)
        else:
            outcomes.append(Outcome.CONFLICT)
    return outcomes


def _stored(row: Row[Any], content: str = "") -> StoredObservation:
    return StoredObservation(
        job=StoredJob(ref=row.job_ref, family=row.family, content=content),
        key=row.key,
        content_hash=row.content_hash,
        placement=row.placement,
        batch_size=row.batch_size,
        accumulation_steps=row.accumulation_steps,
        step_time_s=row.step_time_s,
        sync_time_s=row.sync_time_s,
        state=ObservationState(row.state),
        reason=row.reason,
        received_at=row.received_at,
    )

"""Measured steps of jobs, as they are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Row,
    Update,
    delete,
    func,
    or_,
    select,
    update,
)

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.leases import time_of
from perfmodel.store.sql.shared_store import (
    Page,
    SharedStore,
    insert_new,
    raise_revision,
    read_revisions,
    record_from,
    row_of,
)
from perfmodel.store.sql.tables import JOBS, OBSERVATIONS, RESIDUALS
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_records import (
    EVERY_OBSERVATION,
    HAS_RUN_OUT,
    IS_MEASURED,
    ObservationFilter,
    ObservationState,
    Outcome,
    StoredObservation,
)

#: Name of the counter that each transaction with new observations raises.
REVISION = "observations"
#: Name of the counter of transactions by which some of them came to count no longer, or again.
TAKEN_BACK = "observations-taken-back"

#: Jobs that are known to be on disk.
_MOST_REMEMBERED = 100_000
#: Observations that one transaction removes or moves.
_AT_ONCE = 5_000
#: Steps of a job that count, and what of it ran out of memory: an answer reads each of them once.
MOST_OF_A_JOB, MOST_RAN_OUT = 2_048, 256
#: Of the newest observations, in all, those that count are chosen; each reporter has an equal
#: share of them, so that none hides what others said by saying much.
_LOOKED_AT = 8_192
#: Reporters that are looked at: as many as there is time for.
_REPORTERS = 1_024

_Conditions = Sequence[ColumnElement[bool]]
#: Numbers of rows with their cells.
_Rows = Sequence[Any]


class Changes(NamedTuple):
    """What happened to the observations.

    Parameters
    ----------
    revision : int
        How often some were added.
    taken_back : int
        How often some were removed, excluded or taken in again.
    families : frozenset of str
        Whose jobs got some, after the revision that was asked about.
    """

    revision: int
    taken_back: int
    families: frozenset[str] = frozenset()


class ObservationStore(SharedStore):
    """Keeps observations.

    Parameters
    ----------
    keep_s : float
        Age from which an observation counts no longer; 0: never.
    """

    def __init__(self, connections: Connections, *, keep_s: float = 0.0) -> None:
        super().__init__(connections)
        self._keep_s = keep_s
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
        keys = [(seen.reporter, seen.job.family, seen.key) for seen in observations]
        # Of two with the same key the first is kept.
        first: dict[_Key, StoredObservation] = {}
        for key, seen in zip(keys, observations, strict=True):
            first.setdefault(key, seen)
        with self._connections.writing() as connection:
            # First: it is the lock that makes transactions of several hosts wait for each other.
            revision = raise_revision(connection, REVISION)
            # Hosts may disagree about the time, and each removes what is too old.
            received_at = time_of(connection)
            new_jobs = [
                {**asdict(job), "created_at": received_at}
                for ref, job in jobs.items()
                if ref not in self._kept_jobs
            ]
            insert_new(connection, JOBS, new_jobs, "ref")
            rows = [_row(seen, revision, received_at) for seen in first.values()]
            added = set(insert_new(connection, OBSERVATIONS, rows, "reporter", "family", "key"))
            stands = {key: first[key].content_hash for key in added}
            if len(added) < len(first):
                stands |= _content(connection, first.keys() - added)
        # Jobs are never removed, and those that are on disk need not be written again.
        if len(self._kept_jobs) > _MOST_REMEMBERED:
            self._kept_jobs = set()
        self._kept_jobs.update(jobs)
        outcomes = []
        for key, seen in zip(keys, observations, strict=True):
            if key in added:
                added.remove(key)
                outcomes.append(Outcome.ADDED)
            else:
                is_same = stands[key] == seen.content_hash
                outcomes.append(Outcome.KNOWN if is_same else Outcome.CONFLICT)
        return outcomes

    def page(
        self,
        which: ObservationFilter = EVERY_OBSERVATION,
        *,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[StoredObservation]:
        """Return some observations, newest first."""
        query = select(OBSERVATIONS).where(*which.conditions())
        return self._page(query, OBSERVATIONS.c.id, stored_observation, cursor=cursor, limit=limit)

    def counting(
        self,
        family: str | None,
        *,
        most: int = MOST_OF_A_JOB,
        of_one_cell: int = 5,
        before_revision: int | None = None,
    ) -> tuple[StoredObservation, ...]:
        """Return the observations that count, oldest first: the same in every process.

        A job that reports each of its steps must not crowd out what it reached elsewhere: of one
        cell (placement, batch, accumulation) only the newest few count. A reporter of many cells
        must not crowd out the others: the newest cell of each counts first, then the second of
        each, and so on while there is room. Of what ran out of memory the smallest batch comes
        first, since larger ones say no more, and one row of a cell says all. It takes no room of
        steps, nor do they of it.

        Parameters
        ----------
        family : str or None
            Of jobs, without their content, which whoever asks knows; None: of all jobs, with it,
            and steps alone: what ran out of memory says nothing of other jobs.
        most : int
            Of steps in all; of those that ran out of memory no more than :data:`MOST_RAN_OUT`.
        of_one_cell : int
            Steps of one cell and reporter.
        before_revision : int or None
            Those that counted before this transaction; None: all.
        """
        table = OBSERVATIONS.c
        alike = [] if family is None else [table.family == family]
        counts = [table.state == ObservationState.ACCEPTED, *alike]
        if before_revision is not None:
            counts.append(table.revision < before_revision)
        with self._connections.reading() as connection:
            at = time_of(connection)
            if self._keep_s:
                counts.append(table.received_at >= _later(at, -self._keep_s))
            reporters = _reporters(connection, alike)
            measured = _newest(connection, reporters, [*counts, IS_MEASURED], at)
            chosen = _by_turns([_of_cells(rows, of_one_cell) for rows in measured], most)
            if family is not None:
                ran_out = _newest(connection, reporters, [*counts, HAS_RUN_OUT], at)
                small_first = [sorted(rows, key=attrgetter("batch_size")) for rows in ran_out]
                room = min(most, MOST_RAN_OUT)
                chosen += _by_turns([_of_cells(rows, 1) for rows in small_first], room)
            query = (
                select(OBSERVATIONS, JOBS.c.content.label("content"))
                .join(JOBS, table.job_ref == JOBS.c.ref)
                .where(table.id.in_(chosen))
                .order_by(table.id)
            )
            rows = connection.execute(query).all() if chosen else []
        return tuple(stored_observation(row, "" if family else row.content) for row in rows)

    def remove(self, which: ObservationFilter) -> int:
        """Remove observations; return how many. Those that are added meanwhile stay."""
        return self._change(which, delete(OBSERVATIONS))

    def remove_expired(self) -> int:
        """Remove those that are too old to count, or said how long they would; return how many."""
        with self._connections.reading() as connection:
            at = time_of(connection)
        expired = self.remove(ObservationFilter(expired_at=at))
        if self._keep_s:
            expired += self.remove(ObservationFilter(before=_later(at, -self._keep_s)))
        return expired

    def move(
        self,
        which: ObservationFilter,
        to: ObservationState,
        *,
        out_of: Collection[ObservationState],
    ) -> int:
        """Give observations that are in some states another; return how many."""
        moved = update(OBSERVATIONS).where(OBSERVATIONS.c.state.in_(out_of))
        return self._change(which, moved.values(state=to))

    def _change(self, which: ObservationFilter, change: Delete | Update) -> int:
        """Make a change to all that are meant, some in each transaction."""
        table, meant = OBSERVATIONS.c, which.conditions()
        if change.whereclause is not None:
            meant.append(change.whereclause)
        with self._connections.reading() as connection:
            last = connection.execute(select(func.max(table.id)).where(*meant)).scalar_one()
        if last is None:
            return 0
        some = select(table.id).where(*meant, table.id <= last).limit(_AT_ONCE)
        changed, count = 0, _AT_ONCE
        while count == _AT_ONCE:
            with self._changing(TAKEN_BACK) as connection:
                changing = change.where(table.id.in_(some)).returning(table.id)
                numbers = connection.execute(changing).scalars().all()
                if isinstance(change, Delete):
                    _remove_residuals(connection, numbers)
                count = len(numbers)
            changed += count
        return changed

    def changes(self) -> Changes:
        """Return how often something happened."""
        return self.changes_since(None)

    def changes_since(self, revision: int | None) -> Changes:
        """Return what happened, and the families that got observations after a revision.

        Parameters
        ----------
        revision : int or None
            None: nobody asks for the families.
        """
        with self._connections.reading() as connection:
            # The counters first: what is added in between is then found twice rather than never.
            counted = read_revisions(connection)
            found = Changes(counted.get(REVISION, 0), counted.get(TAKEN_BACK, 0))
            if revision is None or found.revision == revision:
                return found
            later = OBSERVATIONS.c.revision > revision
            families = connection.execute(select(OBSERVATIONS.c.family).where(later).distinct())
            return found._replace(families=frozenset(families.scalars()))


def _newest(
    connection: Connection, reporters: Sequence[str], counts: _Conditions, at: str
) -> Iterator[_Rows]:
    """Yield the newest rows of each reporter that still count, with their cells.

    The oldest of them is looked up before: a planner that has to stop after so many may rather walk
    through those of all.
    """
    table = OBSERVATIONS.c
    share = _LOOKED_AT // max(len(reporters), 1)
    lasting = or_(table.expires_at.is_(None), table.expires_at > at)
    for reporter in reporters:
        own = (table.reporter == reporter, *counts)
        numbers = select(table.id).where(*own).order_by(table.id.desc())
        oldest = connection.execute(numbers.limit(1).offset(share - 1)).scalar_one_or_none()
        query = select(
            table.id, table.family, table.placement, table.batch_size, table.accumulation_steps
        ).where(table.id >= (oldest or 0), lasting, *own)
        yield connection.execute(query.order_by(table.id.desc())).all()


def _of_cells(rows: _Rows, most: int) -> Iterable[list[int]]:
    """Return the first rows of each cell, in the order in which the cells come."""
    cells: dict[tuple[object, ...], list[int]] = {}
    for row in rows:
        found = cells.setdefault(tuple(row[1:]), [])
        if len(found) < most:
            found.append(row.id)
    return cells.values()


def _by_turns(of_reporters: Iterable[Iterable[list[int]]], most: int) -> list[int]:
    """Return so many rows: those of the first cell of each reporter, then of the second, ..."""
    turns = [(turn, -rows[0], rows) for one in of_reporters for turn, rows in enumerate(one)]
    return list(islice(chain.from_iterable(rows for *_, rows in sorted(turns)), most))


def _reporters(connection: Connection, alike: _Conditions) -> Sequence[str]:
    """Return who reported, by name: a step through an index each, not a look at every row."""
    table = OBSERVATIONS.c
    first = select(func.min(table.reporter).label("reporter")).where(*alike)
    found = first.cte("reporters", recursive=True)
    following = select(func.min(table.reporter)).where(*alike, table.reporter > found.c.reporter)
    found = found.union_all(
        select(following.correlate(found).scalar_subquery()).where(found.c.reporter.is_not(None))
    )
    query = select(found.c.reporter).where(found.c.reporter.is_not(None)).limit(_REPORTERS)
    return connection.execute(query).scalars().all()


def _remove_residuals(connection: Connection, observations: Sequence[int]) -> None:
    """Remove what was compared with some observations together with them."""
    residual = RESIDUALS.c.observation
    for start in range(0, len(observations), _AT_ONCE):
        some = observations[start : start + _AT_ONCE]
        connection.execute(delete(RESIDUALS).where(residual.in_(some)))


#: Reporter, family and key.
_Key = tuple[str, str, str]


def _row(seen: StoredObservation, revision: int, received_at: str) -> dict[str, Any]:
    software = orjson.dumps(dict(seen.software), option=orjson.OPT_SORT_KEYS).decode()
    row = row_of(seen)
    del row["job"], row["expires_in_s"]
    return row | {
        "family": seen.job.family,
        "job_ref": seen.job.ref,
        "revision": revision,
        "received_at": received_at,
        "software": software if seen.software else None,
        "expires_at": None if seen.expires_in_s is None else _later(received_at, seen.expires_in_s),
    }


def _later(moment: str, seconds: float) -> str:
    """Return a moment so much later, as it is kept."""
    found = datetime.fromisoformat(moment) + timedelta(seconds=seconds)
    return found.isoformat(timespec="milliseconds")


def _content(connection: Connection, taken: Iterable[_Key]) -> dict[_Key, str]:
    """Return the content hashes that stand under keys that were taken before."""
    keys_of: dict[tuple[str, str], list[str]] = {}
    for reporter, family, key in taken:
        keys_of.setdefault((reporter, family), []).append(key)
    table = OBSERVATIONS.c
    found = {}
    for (reporter, family), keys in keys_of.items():
        of_both = (table.reporter == reporter, table.family == family, table.key.in_(keys))
        for row in connection.execute(select(table.key, table.content_hash).where(*of_both)):
            found[reporter, family, row.key] = row.content_hash
    return found


def stored_observation(row: Row[Any], content: str = "") -> StoredObservation:
    """Return an observation from a row of its table."""
    return record_from(
        StoredObservation,
        row,
        job=StoredJob(ref=row.job_ref, family=row.family, content=content),
        software=tuple(sorted(orjson.loads(row.software).items())) if row.software else (),
        expires_in_s=None,
    )

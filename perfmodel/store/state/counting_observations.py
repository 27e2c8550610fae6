"""Which stored observations count: the newest of each cell, in fair shares of those who reported.

The choice is a function of what is stored, whatever came when: every process makes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select

from perfmodel.store.sql.tables import JOBS, OBSERVATIONS
from perfmodel.store.state.observation_records import ObservationState

#: Of the newest observations, in all, those that count are chosen; each reporter has an equal
#: share of them, so that none hides what others said by saying much.
_LOOKED_AT = 8_192
#: Reporters that are looked at: as many as there is time for.
_REPORTERS = 1_024
#: Of one cell (placement, batch, accumulation) and reporter.
OF_ONE_CELL = 5

_Conditions = Sequence[ColumnElement[bool]]


class _Cell(NamedTuple):
    """A cell of one reporter: the numbers of its newest rows, and how many cells are newer."""

    turn: int
    rows: list[int]


def read_counting(
    connection: Connection,
    *,
    family: str | None,
    since: str | None,
    at: str,
    most: int,
    of_one_cell: int = OF_ONE_CELL,
    before_revision: int | None = None,
) -> Sequence[Row[Any]]:
    """Return the accepted observations that count, oldest first.

    A job that reports each of its steps must not crowd out what it reached elsewhere: of one cell
    only the newest few count. A reporter of many cells must not crowd out the others: the newest
    cell of each counts first, then the second of each, and so on while there is room.

    Parameters
    ----------
    family : str or None
        Of jobs; None: of all.
    since : str or None
        Those that were received then or later.
    at : str
        Now: those that were to count no longer by then are left out.
    most : int
        In all.
    of_one_cell : int
        Of one cell and reporter.
    before_revision : int or None
        Those that counted before this transaction; None: all.

    Returns
    -------
    sequence of Row
        Of observations, with the ``content`` of their jobs.
    """
    table = OBSERVATIONS.c
    alike = [] if family is None else [table.family == family]
    counts = [table.state == ObservationState.ACCEPTED, *alike]
    if since is not None:
        counts.append(table.received_at >= since)
    if before_revision is not None:
        counts.append(table.revision < before_revision)
    reporters = _reporters(connection, alike)
    cells = [
        cell
        for reporter in reporters
        for cell in _newest(
            connection, reporter, counts, at, _LOOKED_AT // len(reporters), of_one_cell
        )
    ]
    cells.sort(key=lambda cell: (cell.turn, -cell.rows[0]))
    chosen = list(islice(chain.from_iterable(cell.rows for cell in cells), most))
    query = (
        select(OBSERVATIONS, JOBS.c.content.label("content"))
        .join(JOBS, table.job_ref == JOBS.c.ref)
        .where(table.id.in_(chosen))
        .order_by(table.id)
    )
    return connection.execute(query).all() if chosen else []


def _newest(
    connection: Connection,
    reporter: str,
    counts: _Conditions,
    at: str,
    most: int,
    of_one_cell: int,
) -> Iterable[_Cell]:
    """Return the cells that somebody reported last and still count, the newest first.

    The oldest of their rows is looked up before, in an index alone: a planner that has to stop
    after so many may rather walk through those of all.
    """
    table = OBSERVATIONS.c
    own = (table.reporter == reporter, *counts)
    numbers = select(table.id).where(*own).order_by(table.id.desc())
    oldest = connection.execute(numbers.limit(1).offset(most - 1)).scalar_one_or_none()
    lasting = or_(table.expires_at.is_(None), table.expires_at > at)
    query = select(
        table.id, table.family, table.placement, table.batch_size, table.accumulation_steps
    ).where(table.id >= (oldest or 0), lasting, *own)
    cells: dict[tuple[object, ...], list[int]] = {}
    for row in connection.execute(query.order_by(table.id.desc())):
        rows = cells.setdefault(tuple(row[1:]), [])
        if len(rows) < of_one_cell:
            rows.append(row.id)
    return (_Cell(turn, rows) for turn, rows in enumerate(cells.values()))


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

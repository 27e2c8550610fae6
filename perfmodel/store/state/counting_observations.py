"""Which stored observations count: the newest of each cell, in fair shares of those who reported.

The choice is a function of what is stored, whatever came when: every process makes the same.
"""

from __future__ import annotations

from sqlalchemy import CTE, ColumnElement, Select, func, select

from perfmodel.store.sql.tables import JOBS, OBSERVATIONS
from perfmodel.store.state.observation_records import ObservationState

#: Of the newest observations, in all, those that count are chosen; each reporter has an equal
#: share of them, so that none hides what others said by saying much.
_LOOKED_AT = 16_384
#: Of one cell (placement, batch, accumulation) and reporter.
OF_ONE_CELL = 5


def counting(
    *, family: str | None, since: str | None, most: int, of_one_cell: int = OF_ONE_CELL
) -> Select[tuple[object, ...]]:
    """Return a query for the accepted observations that count, oldest first.

    A job that reports each of its steps must not crowd out what it reached elsewhere: of one cell
    only the newest few count. A reporter of many cells must not crowd out the others: the newest
    cell of each counts first, then the second of each, and so on while there is room.

    Parameters
    ----------
    family : str or None
        Of jobs; None: of all.
    since : str or None
        Those that were received then or later.
    most : int
        In all.
    of_one_cell : int
        Of one cell and reporter.

    Returns
    -------
    Select
        Rows of observations, with the ``content`` of their jobs.
    """
    table = OBSERVATIONS.c
    alike = [] if family is None else [table.family == family]
    counts = [table.state == ObservationState.ACCEPTED, *alike]
    if since is not None:
        counts.append(table.received_at >= since)
    shares = _shares(alike, counts)
    cell = (
        table.reporter, table.family, table.placement, table.batch_size, table.accumulation_steps,
    )  # fmt: skip
    numbered = (
        select(
            table.id,
            table.reporter,
            func.row_number().over(partition_by=cell, order_by=table.id.desc()).label("place"),
            func.max(table.id).over(partition_by=cell).label("newest"),
        )
        .join(shares, table.reporter == shares.c.reporter)
        .where(table.id >= shares.c.oldest, *counts)
        .subquery("numbered")
    )
    turn = func.dense_rank().over(
        partition_by=numbered.c.reporter, order_by=numbered.c.newest.desc()
    )
    ranked = (
        select(numbered.c.id, numbered.c.newest, turn.label("turn"))
        .where(numbered.c.place <= of_one_cell)
        .subquery("ranked")
    )
    chosen = (
        select(ranked.c.id)
        .order_by(ranked.c.turn, ranked.c.newest.desc(), ranked.c.id.desc())
        .limit(most)
    )
    return (
        select(OBSERVATIONS, JOBS.c.content.label("content"))
        .join(JOBS, table.job_ref == JOBS.c.ref)
        .where(table.id.in_(chosen))
        .order_by(table.id)
    )


def _shares(alike: list[ColumnElement[bool]], counts: list[ColumnElement[bool]]) -> CTE:
    """Return the reporters, each with the oldest of its observations that are looked at."""
    table = OBSERVATIONS.c
    reporters = _reporters(alike)
    number = select(func.count(reporters.c.reporter)).scalar_subquery()
    oldest = (
        select(table.id)
        .where(table.reporter == reporters.c.reporter, *counts)
        .order_by(table.id.desc())
        .limit(1)
        .offset(_LOOKED_AT // number)
        .correlate(reporters)
        .scalar_subquery()
    )
    shares = select(reporters.c.reporter, func.coalesce(oldest, 0).label("oldest")).where(
        reporters.c.reporter.is_not(None)
    )
    # Worked out once for each reporter, not for each row.
    return shares.cte("shares").prefix_with("MATERIALIZED")


def _reporters(alike: list[ColumnElement[bool]]) -> CTE:
    """Return everybody who reported, by a step through an index each."""
    table = OBSERVATIONS.c
    first = select(func.min(table.reporter).label("reporter")).where(*alike)
    found = first.cte("reporters", recursive=True)
    following = select(func.min(table.reporter)).where(*alike, table.reporter > found.c.reporter)
    return found.union_all(
        select(following.correlate(found).scalar_subquery()).where(found.c.reporter.is_not(None))
    )

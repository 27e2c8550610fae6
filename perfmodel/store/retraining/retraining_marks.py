"""How far what came in was when the last retraining of a model was entered, and what came since."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, func, insert, select, update

from perfmodel.store.campaigns.campaign_records import TaskState
from perfmodel.store.feedback.alarm_records import Alarm, AlarmState
from perfmodel.store.sql.leases import clock
from perfmodel.store.sql.shared_store import record_from
from perfmodel.store.sql.tables import (
    ALARMS,
    CAMPAIGN_TASKS,
    OBSERVATIONS,
    RETRAINING_MARKS,
    RETRAININGS,
)
from perfmodel.store.state.observation_records import IS_MEASURED, ObservationState

#: What an alarm advises for which a model is learned anew.
_REMEDY = "retrain"
_OPEN = ("waiting", "running")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How far everything was when the last retraining of a model was entered.

    Parameters
    ----------
    entered_at : float
        POSIX seconds of the database; 0 before the first.
    observation, alarm : int
        Numbers of the newest ones then.
    records : int
        Finished tasks of campaigns.
    cron, due_at : str, float
        An expression, and the next time that it states, POSIX seconds; empty and 0 without any.
    """

    entered_at: float = 0.0
    observation: int = 0
    records: int = 0
    alarm: int = 0
    cron: str = ""
    due_at: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrivals:
    """What came in since a mark.

    Parameters
    ----------
    time_s : float
        POSIX seconds of the database.
    observations : int
        Accepted steps, counted no further than was asked for.
    records : int
        Finished tasks of campaigns, all that there are.
    alarm : Alarm or None
        The first that stands, advises a retraining, and that nobody has acknowledged.
    is_open : bool
        Whether a retraining of the model waits or runs.
    """

    time_s: float
    observations: int
    records: int
    alarm: Alarm | None
    is_open: bool


def read_mark(connection: Connection, model: str, *, locked: bool = False) -> Mark | None:
    """Return the mark of a model, locked until the transaction ends if that is wanted."""
    query = select(RETRAINING_MARKS).where(RETRAINING_MARKS.c.model == model)
    row = connection.execute(query.with_for_update() if locked else query).first()
    return None if row is None else record_from(Mark, row)


def write_mark(connection: Connection, model: str, mark: Mark) -> None:
    """Keep the mark of a model."""
    table, values = RETRAINING_MARKS, asdict(mark)
    changed = connection.execute(update(table).where(table.c.model == model).values(**values))
    if not changed.rowcount:
        connection.execute(insert(table).values(model=model, **values))


def mark_of_now(connection: Connection, mark: Mark | None) -> Mark:
    """Return the mark that is left by a retraining which is entered now."""
    before = mark or Mark()
    return Mark(
        entered_at=_time(connection),
        observation=connection.execute(select(func.max(OBSERVATIONS.c.id))).scalar() or 0,
        records=_records(connection),
        alarm=connection.execute(select(func.max(ALARMS.c.id))).scalar() or 0,
        cron=before.cron,
        due_at=before.due_at,
    )


def arrivals_since(
    connection: Connection, model: str, mark: Mark, *, most_observations: int
) -> Arrivals:
    """Return what came in since a mark.

    Parameters
    ----------
    most_observations : int
        Observations beyond which it does not matter how many there are.
    """
    retrainings = RETRAININGS.c
    open_one = select(retrainings.id).where(
        retrainings.model == model, retrainings.state.in_(_OPEN)
    )
    return Arrivals(
        time_s=_time(connection),
        observations=_accepted(connection, mark.observation, most_observations),
        records=_records(connection),
        alarm=_alarm(connection, mark.alarm),
        is_open=connection.execute(open_one.limit(1)).first() is not None,
    )


def _time(connection: Connection) -> float:
    return float(connection.execute(select(clock(connection))).scalar_one())


def _accepted(connection: Connection, after: int, most: int) -> int:
    table = OBSERVATIONS.c
    accepted = table.state == ObservationState.ACCEPTED.value
    newer = select(table.id).where(table.id > after, accepted, IS_MEASURED)
    counted = select(func.count()).select_from(newer.limit(most).subquery())
    return int(connection.execute(counted).scalar_one()) if most else 0


def _records(connection: Connection) -> int:
    done = CAMPAIGN_TASKS.c.state == TaskState.DONE.value
    return int(connection.execute(select(func.count()).where(done)).scalar_one())


def _alarm(connection: Connection, after: int) -> Alarm | None:
    table = ALARMS.c
    query = select(ALARMS).where(
        table.state == AlarmState.OPEN.value, table.id > after, table.acknowledged_at.is_(None)
    )
    alarms = (record_from(Alarm, row) for row in connection.execute(query.order_by(table.id)))
    advising = (one for one in alarms if any(r.action == _REMEDY for r in one.remedies))
    return next(advising, None)

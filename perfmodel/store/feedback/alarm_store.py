"""Alarms, as they are kept: opened and ended by one keeper at a time, acknowledged by anybody."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import and_, insert, or_, select, update

from perfmodel.store.feedback.alarm_records import Alarm, AlarmState
from perfmodel.store.feedback.keeper_lease import KeeperLease, Keeping
from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import Page, SharedStore, record_from, row_of
from perfmodel.store.sql.tables import ALARMS

#: Name of the counter that every change of an alarm raises.
REVISION = "alarms"

_ALARM = ALARMS.c
read_alarm = partial(record_from, Alarm)


class AlarmStore(SharedStore):
    """Keeps alarms."""

    def open_alarms(self) -> tuple[Alarm, ...]:
        """Return the alarms that stand, oldest first, each with what to do about it."""
        query = select(ALARMS).where(_ALARM.state == AlarmState.OPEN.value).order_by(_ALARM.id)
        return tuple(map(read_alarm, self._rows(query)))

    def page(
        self, *, state: AlarmState | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[Alarm]:
        """Return some alarms, newest first."""
        query = select(ALARMS)
        if state is not None:
            query = query.where(_ALARM.state == state.value)
        return self._page(query, _ALARM.id, read_alarm, cursor=cursor, limit=limit)

    def write(self, keeping: Keeping, alarms: Sequence[Alarm]) -> bool:
        """Keep alarms as they are now; False where somebody else is the keeper by now.

        Who acknowledged one, and what was told of it, stays as it is.
        """
        with self._changing(REVISION) as connection:
            if not KeeperLease.holds(connection, keeping):
                return False
            for alarm in alarms:
                row = row_of(alarm)
                own = {name: value for name, value in row.items() if name not in _OF_OTHERS}
                changed = connection.execute(
                    update(ALARMS).where(_ALARM.name == alarm.name).values(**own)
                )
                if not changed.rowcount:
                    connection.execute(insert(ALARMS).values(**row))
        return True

    def acknowledge(self, name: str | None, *, by: str, note: str | None = None) -> int:
        """Note that somebody knows of an alarm, or of all open ones; return of how many."""
        meant = _ALARM.state == AlarmState.OPEN.value if name is None else _ALARM.name == name
        with self._changing(REVISION) as connection:
            changed = connection.execute(
                update(ALARMS)
                .where(meant)
                .values(acknowledged_by=by, acknowledged_at=now(), note=note)
            )
        return int(changed.rowcount)

    def to_tell(self) -> tuple[Alarm, ...]:
        """Return alarms whose state was not told yet, oldest first.

        One that ended before anybody was told of it is no news.
        """
        opened, ended = AlarmState.OPEN.value, AlarmState.ENDED.value
        untold = or_(
            and_(_ALARM.told.is_(None), _ALARM.state == opened),
            and_(_ALARM.told == opened, _ALARM.state == ended),
            and_(_ALARM.told == ended, _ALARM.state == opened),
        )
        return tuple(map(read_alarm, self._rows(select(ALARMS).where(untold).order_by(_ALARM.id))))

    def take_to_tell(self, alarm: Alarm) -> bool:
        """Note that the state of an alarm is told now; False where another process has done so.

        Before it is told: a change is told at most once, whoever dies in between.
        """
        untold = or_(_ALARM.told.is_(None), _ALARM.told != alarm.state.value)
        mine = (_ALARM.name == alarm.name, _ALARM.state == alarm.state.value, untold)
        return self._write(update(ALARMS).where(*mine).values(told=alarm.state.value)) > 0


_OF_OTHERS = ("acknowledged_by", "acknowledged_at", "note", "told")

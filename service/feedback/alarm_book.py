"""The fold of all residuals, and the alarms of it that are kept."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfmodel.feedback.drift_fold import DriftFold, RaisedAlarm
from perfmodel.feedback.remedies import remedies_of
from perfmodel.feedback.residuals import Group, Residual, groups_of, scale_of
from perfmodel.store.feedback import Alarm, AlarmState, AlarmStore, Doubt, StoredResidual
from perfmodel.store.feedback.keeper_lease import Keeping
from perfmodel.store.feedback.residual_store import ResidualStore
from perfmodel.store.sql.connections import now

#: Residuals that are read at a time.
_AT_ONCE = 2_000
#: Residuals whose jobs are remembered, for alarms to name.
_REMEMBERED = 8_192
#: Jobs on accelerators that one alarm doubts.
_MOST_DOUBTS = 32
_FINE = "The newest residuals of it are as small as answers say."
_TAKEN_BACK = "What it rested on was taken back."


class AlarmBook:
    """Folds residuals as they come, and keeps the alarms that they raise and end.

    What is kept is a function of the residuals: folding them again, after a restart or because some
    were taken back, gives the same alarms the same names.
    """

    def __init__(self, residuals: ResidualStore, alarms: AlarmStore) -> None:
        self._residuals = residuals
        self._alarms = alarms
        self._begin()

    def _begin(self) -> None:
        self._fold = DriftFold()
        self._known: OrderedDict[int, StoredResidual] = OrderedDict()
        #: The newest observation that was folded.
        self.newest = 0

    def fold(self, keeping: Keeping) -> bool:
        """Take residuals that are new; False where somebody else is the keeper by now."""
        changed = self._take()
        kept = {(one.kind, one.value): one for one in self._alarms.open_alarms()}
        return not changed or self._alarms.write(
            keeping, [self._alarm(one, kept.get(one.group)) for one in changed]
        )

    def fold_again(self, keeping: Keeping) -> bool:
        """Take all residuals from the first; alarms that do not follow from them any more end."""
        self._begin()
        changed = self._take()
        kept = {(one.kind, one.value): one for one in self._alarms.open_alarms()}
        written = [self._alarm(one, kept.get(one.group)) for one in changed]
        names = {one.name for one in written}
        gone = [
            replace(one, state=AlarmState.ENDED, ended_at=now(), ended_because=_TAKEN_BACK)
            for one in kept.values()
            if one.name not in names
        ]
        return self._alarms.write(keeping, [*written, *gone])

    def _take(self) -> list[RaisedAlarm]:
        changed: dict[int, RaisedAlarm] = {}
        while some := self._residuals.after(self.newest, limit=_AT_ONCE):
            self.newest = some[-1].observation
            self._remember(some)
            changed |= {id(one): one for one in self._fold.add_all(readable_residuals(some))}
        return list(changed.values())

    def _remember(self, some: Sequence[StoredResidual]) -> None:
        self._known.update((one.observation, one) for one in some)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def _alarm(self, raised: RaisedAlarm, kept: Alarm | None) -> Alarm:
        """Return an alarm as it is kept; one of its group that stands goes on under its name."""
        cause, ended = raised.cause, raised.ended
        name = _name(raised.group, raised.opened)
        # One that has ended is that which stands where they were opened by the same residual.
        if kept is not None and (ended is None or kept.opened_observation == raised.opened.number):
            name = kept.name
        return Alarm(
            name=name,
            kind=cause.group.kind,
            value=cause.group.value,
            state=AlarmState.OPEN if ended is None else AlarmState.ENDED,
            shift=cause.shift,
            count=len(cause.residuals),
            since_observation=cause.residuals[0].number,
            opened_observation=raised.opened.number,
            since=cause.residuals[0].at,
            opened_at=raised.opened.at,
            ended_at=None if ended is None else ended.at,
            ended_because=None if ended is None else _FINE,
            also=tuple(f"{group.kind} {group.value}" for group in cause.also),
            remedies=remedies_of(cause.group),
            doubts=self._doubts(cause.residuals),
        )

    def _doubts(self, residuals: Iterable[Residual]) -> tuple[Doubt, ...]:
        known = [self._known.get(one.number) for one in reversed(tuple(residuals))]
        doubts = dict.fromkeys(
            Doubt(job=one.job, batch_size=one.batch_size, accelerator=one.accelerator)
            for one in known
            if one is not None
        )
        return tuple(doubts)[:_MOST_DOUBTS]


def _name(group: Group, opened: Residual) -> str:
    content = f"{group.kind} {group.value} {opened.number}".encode()
    return hashlib.sha256(content).hexdigest()[:16]


def readable_residuals(some: Iterable[StoredResidual]) -> list[Residual]:
    """Return residuals that have an answer as detectors take them."""
    return [
        Residual(
            number=one.observation,
            at=one.received_at,
            log_ratio=math.log(one.measured_s / one.predicted_s),
            scale=scale_of(one.low_s, one.high_s),
            job=one.family,
            groups=groups_of(
                accelerator=one.accelerator,
                software=one.software,
                mode=one.mode,
                operators=one.operators,
                reporter=one.reporter,
            ),
        )
        for one in some
        if one.predicted_s and one.low_s and one.high_s
    ]

"""Residuals in their order, folded into alarms: the same residuals give the same alarms."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from perfmodel.errors import MissingExtraError
from perfmodel.feedback.causes import LEAST_SHIFT, Cause, cause_of
from perfmodel.feedback.residuals import Group, Residual
from perfmodel.lru import LruCache

#: Scores that a detector starts from: the promise, that there is no residual. Without it a group
#: that was off from its first observation would be its own normal.
PROMISED = 30
#: Settings of the Page-Hinkley test, in standard deviations of one residual: changes of the mean
#: by less than the first are let pass, and so much of what exceeds it is an alarm.
TOLERATED, THRESHOLD = 0.5, 12.0


class Detector(Protocol):
    """A change detector of ``river.drift``."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value showed a change."""

    def update(self, x: float) -> object:
        """Take the next value."""


def new_detector() -> Detector:
    """Return a detector that knows the promise alone.

    Raises
    ------
    MissingExtraError
        The library that holds it is absent.
    """
    try:
        from river.drift import PageHinkley
    except ModuleNotFoundError as error:
        raise MissingExtraError("Looking for drift", extra="retrain") from error
    found: Detector = PageHinkley(
        min_instances=PROMISED, delta=TOLERATED, threshold=THRESHOLD, alpha=1.0
    )
    for _ in range(PROMISED):
        found.update(0.0)
    return found


#: Residuals in which causes are looked for.
WINDOW = 4_096
#: Groups whose detectors are kept.
_MOST_GROUPS = 4_096
#: Residuals of a group that have to be fine before its alarm ends, and their mean score then.
FINE_COUNT, FINE_SCORE = 24, 0.5
#: Causes that one residual may bring to light.
_MOST_AT_ONCE = 3


@dataclass(kw_only=True, eq=False)
class RaisedAlarm:
    """An alarm as the fold knows it.

    Parameters
    ----------
    cause : Cause
        As it was when the alarm was opened.
    ended : Residual or None
        With which everything was fine again.
    newest : deque of Residual
        Of the group, since the alarm was opened.
    """

    cause: Cause
    opened: Residual
    ended: Residual | None = None
    newest: deque[Residual] = field(default_factory=lambda: deque(maxlen=FINE_COUNT))

    @property
    def group(self) -> Group:
        """What is alarming."""
        return self.cause.group

    def is_fine(self) -> bool:
        """Tell whether the newest residuals are what was promised."""
        if len(self.newest) < FINE_COUNT:
            return False
        middle = statistics.median(one.log_ratio for one in self.newest)
        mean = statistics.fmean(one.score for one in self.newest)
        return abs(middle) < LEAST_SHIFT and abs(mean) < FINE_SCORE


class DriftFold:
    """Takes residuals in the order of their observations, and raises and ends alarms.

    What an open alarm explains is no news of other groups.

    Parameters
    ----------
    make : callable
        Makes the detector of a group.
    """

    def __init__(self, make: Callable[[], Detector] = new_detector) -> None:
        self._make = make
        self._detectors: LruCache[Group, Detector] = LruCache(_MOST_GROUPS)
        self._window: deque[Residual] = deque(maxlen=WINDOW)
        #: Alarms that stand, by what is alarming.
        self.open: dict[Group, RaisedAlarm] = {}

    def add_all(self, residuals: Iterable[Residual]) -> list[RaisedAlarm]:
        """Take residuals; return the alarms that they raised or ended, each once."""
        changed: dict[int, RaisedAlarm] = {}
        for residual in residuals:
            changed |= {id(one): one for one in self.add(residual)}
        return list(changed.values())

    def add(self, residual: Residual) -> list[RaisedAlarm]:
        """Take one residual; return the alarms that it raised or ended."""
        explaining = [self.open[group] for group in residual.groups if group in self.open]
        if explaining:
            return [alarm for alarm in explaining if self._is_ended(alarm, residual)]
        self._window.append(residual)
        alarmed = self._watch(residual)
        return self._raise(alarmed, residual) if alarmed else []

    def _is_ended(self, alarm: RaisedAlarm, residual: Residual) -> bool:
        alarm.newest.append(residual)
        if not alarm.is_fine():
            return False
        alarm.ended = residual
        del self.open[alarm.group]
        return True

    def _watch(self, residual: Residual) -> list[Group]:
        """Let the detectors of its groups see a residual; return those that saw a change."""
        alarmed = []
        for group in residual.groups:
            detector = self._detectors.get(group) or self._make()
            detector.update(residual.score)
            if detector.drift_detected:
                alarmed.append(group)
                detector = self._make()
            self._detectors.put(group, detector)
        return alarmed

    def _raise(self, alarmed: list[Group], residual: Residual) -> list[RaisedAlarm]:
        raised: list[RaisedAlarm] = []
        for group in alarmed[:_MOST_AT_ONCE]:
            cause = cause_of(tuple(self._window), group)
            if cause is not None and cause.group not in self.open:
                alarm = RaisedAlarm(cause=cause, opened=residual)
                self.open[cause.group] = alarm
                raised.append(alarm)
                self._forget_explained(cause)
        return raised

    def _forget_explained(self, cause: Cause) -> None:
        """Let detectors that saw what is explained now see the rest alone."""
        since = cause.residuals[0].number
        left = [one for one in self._window if cause.group not in one.groups or one.number < since]
        touched = {group for one in cause.residuals for group in one.groups}
        self._window = deque(left, maxlen=WINDOW)
        for group in touched:
            detector = self._make()
            for one in left:
                if group in one.groups:
                    detector.update(one.score)
            self._detectors.put(group, detector)

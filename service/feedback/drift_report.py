"""What ``GET /v1/drift`` says: alarms, groups, reporters, and how residuals went over time."""

from __future__ import annotations

import importlib.util
import threading
import time
from typing import Any

from perfmodel.feedback.summaries import group_summaries, points_over_time, reporter_summaries
from perfmodel.store.feedback import AlarmState, StoredResidual
from service.dispatch.dispatcher import Dispatcher

#: Observations that groups, reporters and points are made of, the newest.
NEWEST = 5_000
#: Alarms that are told at most, and for how long what was summed up is told again, seconds.
MOST_ALARMS = 1_000
_YOUNG_S = 2.0


class DriftReport:
    """Sums up residuals; what was summed up just now is not summed up again.

    Parameters
    ----------
    looks : bool
        Whether observations are compared here at all.
    """

    def __init__(self, dispatcher: Dispatcher, *, looks: bool) -> None:
        self._dispatcher = dispatcher
        self._state = dispatcher.state
        self._looks = looks
        self._lock = threading.Lock()
        self._summed: dict[str, Any] = {}
        self._until_s = 0.0

    async def answer(self, *, ended: int) -> dict[str, Any]:
        """Return how things stand, with so many alarms that have ended."""
        return await self._dispatcher.threads.run(self._answer, ended)

    def _answer(self, ended: int) -> dict[str, Any]:
        return {
            "model": self._dispatcher.models.serving.version,
            **self._summary(),
            "alarms": self._alarms(ended),
            "problems": self._problems(),
        }

    def _alarms(self, ended: int) -> list[dict[str, Any]]:
        alarms = self._state.alarms
        found = [*alarms.page(state=AlarmState.OPEN, limit=MOST_ALARMS).items]
        if ended:
            found += alarms.page(state=AlarmState.ENDED, limit=ended).items
        return [dict(one.to_dict()) for one in found]

    def _summary(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() > self._until_s:
                self._summed = self._sum_up()
                self._until_s = time.monotonic() + _YOUNG_S
            return self._summed

    def _sum_up(self) -> dict[str, Any]:
        found = [one for one in self._state.residuals.newest(NEWEST) if _is_answered(one)]
        counts = self._state.residuals.counts()
        return {
            "compared": counts.compared,
            "left_out": counts.left_out,
            "waiting": counts.waiting,
            "groups": group_summaries(found),
            "reporters": reporter_summaries(found),
            "points": points_over_time(found),
        }

    def _problems(self) -> list[str]:
        problems = []
        if not self._looks:
            problems.append("PERFMODEL_DRIFT_POLL_S is 0: observations are not compared here.")
        if importlib.util.find_spec("river") is None:
            problems.append(
                "No alarm is raised: the detectors need pip install 'perfmodel[retrain]'."
            )
        return problems


def _is_answered(one: StoredResidual) -> bool:
    return one.predicted_s is not None

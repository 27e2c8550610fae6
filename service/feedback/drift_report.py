"""What ``GET /v1/drift`` says: alarms, groups, reporters, and how residuals went over time."""

from __future__ import annotations

import importlib.util
import threading
import time
from typing import Any

from perfmodel.feedback.drift_state import alarm_state, residual_state
from service.dispatch.dispatcher import Dispatcher

#: For how long what was summed up is told again, seconds.
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
            **self._summary(),
            "model": self._dispatcher.models.serving.version,
            "alarms": alarm_state(self._state.alarms, ended=ended),
            "problems": self._problems(),
        }

    def _summary(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() > self._until_s:
                self._summed = residual_state(self._state.residuals)
                self._until_s = time.monotonic() + _YOUNG_S
            return self._summed

    def _problems(self) -> list[str]:
        problems = []
        if not self._looks:
            problems.append("PERFMODEL_DRIFT_POLL_S is 0: observations are not compared here.")
        if importlib.util.find_spec("river") is None:
            problems.append(
                "No alarm is raised: the detectors need pip install 'perfmodel[retrain]'."
            )
        return problems

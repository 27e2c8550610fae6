"""Drift as a service looks for it: every arrival beside what was answered before it was known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from loop_replay.arrivals import Arrival

from perfmodel.feedback.drift_fold import DriftFold, RaisedAlarm
from perfmodel.feedback.operator_mix import operator_class, operator_mix
from perfmodel.feedback.residuals import Group, Residual, groups_of, scale_of
from perfmodel.predictors.prediction import Prediction

#: Who reports everything: nobody is suspected of lying here.
_REPORTER = "cluster"


@dataclass(eq=False)
class Watch:
    """Raises and ends alarms as arrivals come in.

    Attributes
    ----------
    alarms : list of RaisedAlarm
        In the order in which they were raised; ``opened.number`` and ``ended.number`` are
        positions of arrivals.
    """

    alarms: list[RaisedAlarm] = field(default_factory=list)
    _fold: DriftFold = field(default_factory=DriftFold)

    def look(self, at: int, arrival: Arrival, answer: Prediction) -> list[Group]:
        """Take an arrival in; return what alarms were raised about."""
        changed = self._fold.add(_residual(at, arrival, answer))
        raised = [alarm for alarm in changed if alarm.ended is None]
        self.alarms += raised
        return [alarm.group for alarm in raised]


def _residual(at: int, arrival: Arrival, answer: Prediction) -> Residual:
    step = arrival.sample.step
    return Residual(
        number=at,
        at="",
        log_ratio=math.log(arrival.measured_s / answer.time_s),
        scale=scale_of(answer.low_s, answer.high_s),
        job=arrival.family,
        groups=groups_of(
            accelerator=arrival.device,
            software={"torch": step.software.get("torch", "")},
            mode=step.mode.value,
            operators=operator_class(operator_mix(step.sketch)),
            reporter=_REPORTER,
        ),
    )

"""Measurements that are made up, in the place of those in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job
from perfmodel.profilers.overlap import Begin
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.worker import Failure, Success

Measure = Callable[[Job, AcceleratorSpec, MeasureSettings], Success | Failure]


@dataclass(frozen=True)
class _WhenAsked:
    measure: Measure
    job: Job
    accelerator: AcceleratorSpec
    settings: MeasureSettings

    def outcome(self) -> Success | Failure:
        """Measure."""
        return self.measure(self.job, self.accelerator, self.settings)

    def end(self) -> None:
        """End nothing."""


def when_asked(measure: Measure) -> Begin:
    """Return what begins a measurement that is taken when its outcome is asked for."""
    return partial(_WhenAsked, measure)

"""What observed steps of a job say about its other placements.

Steps on one accelerator say how long the job computes; the placement is then worked out anew from
that. Steps on several tell computing and communication apart, and both are corrected. Where other
jobs were observed on the same accelerators, their steps are weighed together with those of the
job; of a job that was not observed itself they say what the machine is like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.companions import Companions
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.placed import PlacedStep
from perfmodel.estimator.resolve import Kind, ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.estimator.weighed_steps import (
    OBSERVED_JOB,
    host_s,
    machine_word,
    step_cells,
    weighed_cells,
    window_share,
)
from perfmodel.graph.job_reference import job_family
from perfmodel.placement.calibration.calibration import CalibratedSteps, Calibration, calibrate
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.step_parts import StepParts
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis

if TYPE_CHECKING:
    from perfmodel.estimator.facade import Estimator

FloatArray = npt.NDArray[np.float64]

#: Half width of a 90 % interval in standard deviations.
DEVIATIONS = 1.645


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """A job with what its observed steps, and those of other jobs, say.

    Parameters
    ----------
    calibration : Calibration or None
        None where neither the job nor, on the machine it is meant for, another was observed.
    observations : tuple of Observation
        Of the job itself.
    family : str
        Of the job.
    companions : Companions or None
        Observed steps of other jobs, which :meth:`on` weighs.
    """

    calibration: Calibration | None
    observations: tuple[Observation, ...]
    family: str = ""
    companions: Companions | None = None
    _on: dict[str, tuple[ObservedSteps | None, Self | None]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        estimator: Estimator,
        prepared: PreparedJob,
        observations: Sequence[Observation],
        companions: Companions | None = None,
    ) -> Self:
        """Calibrate a job.

        Parameters
        ----------
        observations : sequence of Observation
            Of the job; those that name another one join the companions.
        companions : Companions or None
            Observed steps of any jobs; those of this one do not count.

        Raises
        ------
        InvalidInputError
            An observation that cannot be answered, with a pointer to it.
        """
        family = job_family(prepared.job)
        own, of_others, rows = [], [], []
        for i, seen in enumerate(observations):
            pointer = f"/observations/{i}"
            if seen.job is not None and job_family(seen.job) != family:
                # Said here what is wrong with it: later it would be passed over.
                if seen.job.job_type is None:
                    weighed_cells(estimator, seen.job, seen, "", pointer)
                of_others.append(seen)
                continue
            cells = weighed_cells(estimator, prepared.job, seen, OBSERVED_JOB, pointer)
            own.append(replace(seen, job=None))
            rows.append(ObservedSteps.of_one(cells, seen.step_time_s, seen.sync_time_s))
        if of_others:
            companions = (companions or Companions(estimator, ())).with_others(of_others)
        return cls(
            calibration=calibrate(ObservedSteps.join(*rows), fitted_prior()) if rows else None,
            observations=tuple(own),
            family=family,
            companions=companions or None,
        )

    def on(self, machine: str | ResolvedPlacement) -> Self | None:
        """Return what counts on a machine; None where nothing does.

        Parameters
        ----------
        machine : str or ResolvedPlacement
            From :func:`.weighed_steps.machine_word`, or where it runs.
        """
        word = machine if isinstance(machine, str) else machine_word(machine)
        if self.companions is None:
            return self if self.calibration else None
        beside = self.companions.steps(word, self.family)
        known = self._on.get(word)
        if known is None or known[0] is not beside:
            known = self._on[word] = (beside, self._weighed_on(word, beside, self.companions))
        return known[1]

    def is_ready_on(self, placement: ResolvedPlacement) -> bool:
        """Return whether :meth:`on` would answer from memory."""
        if self.companions is None:
            return True
        word = machine_word(placement)
        if not self.companions.is_ready(word, self.family):
            return False
        beside, known = self.companions.steps(word, self.family), self._on.get(word)
        if beside is None and self.calibration is None:
            return True
        return known is not None and known[0] is beside

    def with_companions(self, companions: Companions) -> Self:
        """Return the same job beside others; what did not change is not weighed again."""
        return replace(self, companions=companions or None, _on=dict(self._on))

    def _weighed_on(
        self, machine: str, beside: ObservedSteps | None, companions: Companions
    ) -> Self | None:
        if self.calibration is None:
            shared = companions.calibration(machine, self.family)
            return None if shared is None else self._alone_with(shared)
        if beside is None:
            return self._alone_with(self.calibration)
        joined = ObservedSteps.join(self.calibration.observed, beside)
        return self._alone_with(calibrate(joined, fitted_prior()))

    def _alone_with(self, calibration: Calibration) -> Self:
        return replace(self, calibration=calibration, companions=None, _on={})

    @property
    def is_alone(self) -> bool:
        """Whether only steps on one accelerator were observed, of the job and of others."""
        if self.calibration is None or not self.observations:
            return False
        return bool(np.all(self.calibration.observed.cells.ranks == 1))

    def single(
        self,
        prepared: PreparedJob,
        kinds: Sequence[Kind],
        predictions: Sequence[StepPrediction],
    ) -> list[StepPrediction]:
        """Return the step on one accelerator of each kind as the observations let it appear.

        Parameters
        ----------
        predictions : sequence of StepPrediction
            Without them, one for each kind.
        """
        return [
            self._single(prepared, kind, prediction)
            for kind, prediction in zip(kinds, predictions, strict=True)
        ]

    def _single(
        self, prepared: PreparedJob, kind: Kind, prediction: StepPrediction
    ) -> StepPrediction:
        nothing = np.zeros(1)
        parts = StepParts(
            compute_s=np.array([prediction.time_s]), exposed_communication_s=nothing,
            input_stall_s=nothing, overhead_s=nothing, communication_s=nothing,
        )  # fmt: skip
        cells = StepCells.of_job(
            parts, batch_size=prepared.samples, ranks=1, hosts=1, largest_share=1,
            host_s=host_s(prepared), window_share=window_share(prepared), job=OBSERVED_JOB,
            machine=kind.held.name, fabric="",
        )  # fmt: skip
        assert self.calibration is not None
        found = self.calibration.apply(cells)
        low, high = found.interval(DEVIATIONS)
        return Prediction(
            time_s=float(found.parts.step_time_s[0]),
            low_s=float(low[0]),
            high_s=float(high[0]),
            coverage=prediction.coverage,
            basis=Basis.CALIBRATED,
            out_of_distribution=False,
            nearest=tuple(prediction.nearest),
            model_version=prediction.model_version,
            warnings=tuple(prediction.warnings),
        )

    def correct(
        self,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        placed: PlacedStep,
    ) -> PlacedStep:
        """Return a step as the observations let it appear.

        Parameters
        ----------
        placed : PlacedStep
            As predicted without them.
        """
        if self.calibration is None:
            return placed
        found = self.calibration.apply(step_cells(prepared, placement, placed))
        return _corrected(placed, found, of_itself=bool(self.observations))


def _corrected(placed: PlacedStep, found: CalibratedSteps, *, of_itself: bool) -> PlacedStep:
    factor = found.parts.step_time_s[0] / placed.parts.step_time_s[0]
    ends = placed.samples_per_second
    without = math.hypot(math.log(ends[1] / ends[2]) / 2, placed.half_width)
    rate = np.full(3, placed.samples_per_second[0] / factor)
    return replace(
        placed,
        parts=found.parts,
        samples_per_second=rate,
        # Links that were not observed stay as sure as they were.
        half_width=min(float(DEVIATIONS * found.log_sd[0]), without),
        # What others reached makes a prediction better, not an observed one.
        basis=Basis.CALIBRATED if of_itself else placed.basis,
        calibrated=of_itself,
    )

"""What observed steps of a job say about its other placements.

Steps on one accelerator say how long the job computes; the placement is then worked out anew from
that. Steps on several tell computing and communication apart, and both are corrected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.placed import PlacedStep
from perfmodel.estimator.plausible import least_step_s
from perfmodel.estimator.resolve import Kind, ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.calibration.calibration import CalibratedSteps, Calibration, calibrate
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.fitted import fitted
from perfmodel.placement.step_parts import StepParts
from perfmodel.placement.topology.groups import LinkClass
from perfmodel.placement.topology.topology import Network
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis

if TYPE_CHECKING:
    from perfmodel.estimator.facade import Estimator

FloatArray = npt.NDArray[np.float64]

#: What a host needs to issue one operator of an eager step, seconds.
_HOST_S_PER_OPERATOR = 1e-5
#: Word for the job in calibrations: an answer is about one.
OBSERVED_JOB = "observed"
#: Half width of a 90 % interval in standard deviations.
_DEVIATIONS = 1.645


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """A job with the calibration that its observed steps give.

    Parameters
    ----------
    calibration : Calibration
    observations : tuple of Observation
    """

    calibration: Calibration
    observations: tuple[Observation, ...]

    @classmethod
    def of(
        cls, estimator: Estimator, prepared: PreparedJob, observations: Sequence[Observation]
    ) -> ObservedJob:
        """Calibrate a job.

        Parameters
        ----------
        estimator : Estimator
        prepared : PreparedJob
        observations : sequence of Observation
            At least one.

        Raises
        ------
        InvalidInputError
            An observation that cannot be answered, with a pointer to it.
        """
        rows = [
            _predicted(estimator, prepared, seen, f"/observations/{i}")
            for i, seen in enumerate(observations)
        ]
        observed = ObservedSteps(
            cells=StepCells.join(rows),
            step_time_s=np.array([seen.step_time_s for seen in observations]),
            sync_time_s=np.array(
                [np.nan if s.sync_time_s is None else s.sync_time_s for s in observations]
            ),
        )
        calibration = calibrate(observed, _prior())
        return cls(calibration=calibration, observations=tuple(observations))

    @property
    def is_alone(self) -> bool:
        """Whether only steps on one accelerator were observed."""
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
        prepared : PreparedJob
        kinds : sequence of Kind
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
        found = self.calibration.apply(cells)
        low, high = found.interval(_DEVIATIONS)
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
        prepared : PreparedJob
        placement : ResolvedPlacement
        placed : PlacedStep
            As predicted without them.
        """
        found = self.calibration.apply(step_cells(prepared, placement, placed))
        return _corrected(placed, found)


def step_cells(
    prepared: PreparedJob, placement: ResolvedPlacement, placed: PlacedStep
) -> StepCells:
    """Return a predicted step as the one row that a calibration reads."""
    world = placement.world
    return StepCells.of_job(
        _first(placed.parts),
        batch_size=prepared.samples,
        ranks=placement.count,
        hosts=placement.fabric.host_count,
        largest_share=float(world.largest_share[0]),
        host_s=host_s(prepared),
        window_share=window_share(prepared),
        job=OBSERVED_JOB,
        machine="+".join(kind.held.name for kind in placement.kinds),
        fabric=fabric_word(LinkClass(int(world.intra_class[0])), placement.fabric.network),
    )


def host_s(prepared: PreparedJob) -> float:
    """Return what the host needs to issue the operators of a step."""
    return max(prepared.step.profile.node_count, 1.0) * _HOST_S_PER_OPERATOR


def window_share(prepared: PreparedJob) -> float:
    """Return the share of a step beside which gradients can be exchanged."""
    return max(prepared.step.profile.backward_share, 0.05)


def fabric_word(link: LinkClass, network: Network | None) -> str:
    """Return a word that placements over equal links share."""
    between = "" if network is None else network.name or f"{network.bandwidth_bytes_per_s:g}"
    return f"{link.name.lower()}|{between}"


@cache
def _prior() -> ResidualPrior:
    """Return what residuals are like, around what is predicted.

    The means that were learned are those of the machines of one publication, against predictions
    from their specifications; for any other machine the prediction itself is the best guess.
    """
    known = ResidualPrior.from_dict(fitted("calibration"))
    return replace(known, means={})


def _first(parts: StepParts) -> StepParts:
    return StepParts(
        compute_s=parts.compute_s[:1],
        exposed_communication_s=parts.exposed_communication_s[:1],
        input_stall_s=parts.input_stall_s[:1],
        overhead_s=parts.overhead_s[:1],
        communication_s=parts.communication_s[:1],
    )


def _corrected(placed: PlacedStep, found: CalibratedSteps) -> PlacedStep:
    factor = found.parts.step_time_s[0] / placed.parts.step_time_s[0]
    ends = placed.samples_per_second
    without = math.hypot(math.log(ends[1] / ends[2]) / 2, placed.half_width)
    rate = np.full(3, placed.samples_per_second[0] / factor)
    return replace(
        placed,
        parts=found.parts,
        samples_per_second=rate,
        # Links that were not observed stay as sure as they were.
        half_width=min(float(_DEVIATIONS * found.log_sd[0]), without),
        basis=Basis.CALIBRATED,
        calibrated=True,
    )


def _predicted(
    estimator: Estimator, prepared: PreparedJob, seen: Observation, pointer: str
) -> StepCells:
    """Return what would have been predicted for an observed step."""
    job = replace(
        prepared.job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps
    )
    try:
        like = prepared if job == prepared.job else estimator.prepare(job)
        placement = estimator.resolve(seen.placement, pointer=f"{pointer}/placement")
        predictions = estimator.predictions([(like, a) for a in placement.accelerators])
        placed = estimator.placed(like, placement, predictions)
    except InvalidInputError as error:
        if not str(error.pointer or "").startswith(pointer):
            error.pointer = pointer
        raise
    except PerfModelError as error:
        raise InvalidInputError(
            f"This observation cannot be weighed: {error}", pointer=pointer
        ) from error
    _check_plausible(like, placement, seen, pointer)
    return step_cells(like, placement, placed)


def _check_plausible(
    prepared: PreparedJob, placement: ResolvedPlacement, seen: Observation, pointer: str
) -> None:
    """Refuse a step that is faster than its arithmetic at the peaks allows."""
    least_s = least_step_s(prepared, placement)
    if seen.step_time_s < least_s:
        raise InvalidInputError(
            f"step_time_s is {seen.step_time_s:g} s, but the arithmetic of the step alone takes "
            f"{least_s:.3g} s at the peak of the accelerator. Is it in seconds, of a whole step, "
            "and of this job?",
            pointer=f"{pointer}/step_time_s",
        )

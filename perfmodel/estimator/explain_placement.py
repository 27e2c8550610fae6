"""What a placement and the observations of a job do to the time on one accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.observed import ObservedJob
from perfmodel.estimator.placed import PlacedStep
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.predictors.explanation import Stage

if TYPE_CHECKING:
    from perfmodel.estimator.facade import Estimator

#: What observed steps said: those of the job with those of others beside it, or others alone.
OBSERVATIONS, OBSERVATIONS_OF_OTHERS = "observations of this job", "observations of other jobs"


@dataclass(frozen=True, kw_only=True)
class PlacedChain:
    """From the predicted time on one accelerator to the step on all of them.

    Parameters
    ----------
    kind : int
        Position of the kind of accelerator whose step takes longest.
    single_s : float
        Step of one replica on one accelerator of it, as much of it as the job gets.
    stages : tuple of Stage
        After the prediction for this kind; the last is the step of the whole job.
    """

    kind: int
    single_s: float
    stages: tuple[Stage, ...]


def placed_chain(
    estimator: Estimator,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    observed: ObservedJob | None = None,
) -> PlacedChain:
    """Return what becomes of a prediction on a placement.

    Parameters
    ----------
    predictions : sequence of StepPrediction
        On one accelerator of each kind.
    """
    single = predictions
    if observed is not None and observed.is_alone:
        single = observed.single(prepared, placement.kinds, predictions)
    placed = estimator.placed(prepared, placement, single)
    alone = [one.time_s * slow.factor for one, slow in zip(single, placed.slowdowns, strict=True)]
    kind = alone.index(max(alone))
    seen = OBSERVATIONS if observed is None or observed.observations else OBSERVATIONS_OF_OTHERS
    stages = [Stage(name=seen, time_s=single[kind].time_s)]
    for name, factor in placed.slowdowns[kind].factors:
        stages.append(Stage(name=name, time_s=stages[-1].time_s * factor))
    single_s = stages[-1].time_s
    stages += _scaled(placement, prepared, placed)
    if observed is not None and not observed.is_alone:
        corrected = observed.correct(prepared, placement, placed).parts
        stages.append(Stage(name=seen, time_s=float(corrected.step_time_s[0])))
        single_s *= float(corrected.compute_s[0] / placed.parts.compute_s[0])
    return PlacedChain(kind=kind, single_s=single_s, stages=tuple(stages))


def _scaled(placement: ResolvedPlacement, prepared: PreparedJob, placed: PlacedStep) -> list[Stage]:
    parts = placed.parts
    split = placement.is_split or prepared.has_plan_engine
    computed_s = float(parts.compute_s[0])
    with_overhead_s = computed_s + float(parts.overhead_s[0])
    exposed_s = with_overhead_s + float(parts.exposed_communication_s[0])
    return [
        Stage(name="parallel plan" if split else "division of the batch", time_s=computed_s),
        Stage(name="stragglers and host", time_s=with_overhead_s),
        Stage(name="exposed communication", time_s=exposed_s),
        Stage(name="waiting for data", time_s=float(parts.step_time_s[0])),
    ]

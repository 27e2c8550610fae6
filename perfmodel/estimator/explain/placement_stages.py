"""What a placement and the observations of a job do to the time on one accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed import Observed
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cells
from perfmodel.estimator.placing.placed import CAPTURED
from perfmodel.estimator.placing.slowdowns import Slowdown
from perfmodel.placement.estimate import StepNumbers
from perfmodel.predictors.explanation import Stage

#: What observed steps said: those of the job with those of others beside it, or others alone.
OBSERVATIONS, OBSERVATIONS_OF_OTHERS = "observations of this job", "observations of other jobs"
#: What a job that is said to be a script takes beyond its step, where nothing was observed of it.
SCRIPT = "what scripts take besides"


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


def placed_chain(cell: Cells, observed: ObservedJob | None = None) -> PlacedChain:
    """Return what becomes of the predictions of a single cell.

    Parameters
    ----------
    observed : ObservedJob or None
        What counts on its accelerators.
    """
    (prepared,), (placement,) = cell.jobs, cell.placements
    single = [cell.predictions[0][spec.name] for spec in placement.accelerators]
    placed = CAPTURED.step(cell)
    slowdowns = placed.slowdowns or [Slowdown()] * len(single)
    alone = [one.time_s * slow.factor for one, slow in zip(single, slowdowns, strict=True)]
    kind = alone.index(max(alone))
    single_s, stages = single[kind].time_s, list[Stage]()
    for name, factor in slowdowns[kind].factors:
        single_s *= factor
        stages.append(Stage(name=name, time_s=single_s))
    parts = placed.parts
    stages += _scaled(placement, prepared, parts)
    if observed is not None or prepared.job.script:
        seen = _what_was_seen(prepared, observed)
        corrected = Observed([observed]).steps(cell).parts.at((0, 0))
        stages.append(Stage(name=seen, time_s=corrected.step_time_s))
        single_s *= corrected.compute_s / parts.compute_s
    return PlacedChain(kind=kind, single_s=single_s, stages=tuple(stages))


def _what_was_seen(prepared: PreparedJob, observed: ObservedJob | None) -> str:
    if observed is not None and observed.observations:
        return OBSERVATIONS
    return SCRIPT if prepared.job.script else OBSERVATIONS_OF_OTHERS


def _scaled(placement: ResolvedPlacement, prepared: PreparedJob, parts: StepNumbers) -> list[Stage]:
    split = placement.is_split or prepared.has_plan_engine
    with_overhead_s = parts.compute_s + parts.overhead_s
    exposed_s = with_overhead_s + parts.exposed_communication_s
    return [
        Stage(name="parallel plan" if split else "division of the batch", time_s=parts.compute_s),
        Stage(name="stragglers and host", time_s=with_overhead_s),
        Stage(name="exposed communication", time_s=exposed_s),
        Stage(name="waiting for data", time_s=parts.step_time_s),
    ]

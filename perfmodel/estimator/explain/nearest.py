"""Measured steps near a question: those of the job itself first, then those of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.client.answers import NearPoint
from perfmodel.errors import PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.short_form import write_short_form
from perfmodel.predictors.explanation import MOST_NEAR, MeasuredPoint

#: Source of points: observed steps of the job.
OBSERVATION = "observation"
#: What another kind of accelerator counts in a distance; as much as one with e times as many.
_OTHER_KIND = 1.0


def near_observations(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None,
) -> tuple[NearPoint, ...]:
    r"""Return the observed steps of a job that are nearest to a question.

    The distance is :math:`\sqrt{\ln^2(b/b') + \ln^2(n/n') + [k \ne k']}` with the samples of a
    replica and step, the accelerators and their kinds. Each is predicted as without observations.
    """
    if observed is None:
        return ()
    found = []
    for seen in dict.fromkeys(observed.observations):
        point = _point(core, prepared.job, placement, seen)
        if point is not None:
            found.append(point)
    found.sort(key=lambda point: (point.distance or 0.0, point.accelerator, point.measured_s))
    return tuple(found[:MOST_NEAR])


def near_points(job: Job, measured: Sequence[MeasuredPoint]) -> tuple[NearPoint, ...]:
    """Return the points of a model; those of the same job by its name."""
    return tuple(
        NearPoint(
            workload=f"{job.label} {point.workload}" if point.same_job else point.workload,
            accelerator=point.accelerator,
            distance=point.distance,
            measured_s=point.measured_s,
            predicted_s=point.predicted_s,
            measured_over_predicted=point.measured_over_predicted,
            source=point.source,
        )
        for point in measured
    )


def _point(core: Core, job: Job, asked: ResolvedPlacement, seen: Observation) -> NearPoint | None:
    """Return an observed step beside what is predicted of it; None where it cannot be now."""
    try:
        placement = core.resolve(seen.placement)
        prepared = core.prepare(job.at_batch(seen.batch_size, seen.accumulation_steps))
        predicted_s = answer_cell(core, prepared, placement).step_time_s
    except PerfModelError:
        return None
    kinds = [{kind.held.name for kind in place.kinds} for place in (asked, placement)]
    samples = math.log(prepared.samples / (job.batch_size * job.accumulation_steps))
    count = math.log(placement.count / asked.count)
    return NearPoint(
        workload=f"{job.label} {job.mode.value} batch {prepared.samples}",
        accelerator=write_short_form(seen.placement),
        distance=math.hypot(samples, count, _OTHER_KIND * (kinds[0] != kinds[1])),
        measured_s=seen.step_time_s,
        predicted_s=predicted_s,
        measured_over_predicted=seen.step_time_s / predicted_s,
        source=OBSERVATION,
    )

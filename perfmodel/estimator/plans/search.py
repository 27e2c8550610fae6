"""Search the parallel plans of a job on some hardware."""

from __future__ import annotations

from dataclasses import replace

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.plans.plan_room import CapturedRoom
from perfmodel.estimator.plans.plan_scale import PredictedScale
from perfmodel.estimator.single.plan_engine import transformer_training
from perfmodel.estimator.tables.estimates import NO_ROOM_WARNING
from perfmodel.estimator.tables.one_of_each import computing_s, on_one_of_each
from perfmodel.placement.plans.plan_search import PlanRanking, search_plans
from perfmodel.types import Mode


def search(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
    *,
    global_batch: int | None = None,
    most: int = 10,
) -> PlanRanking:
    """Search the parallel plans of a job, as :meth:`.facade.Estimator.search`."""
    job = prepared.job
    training = transformer_training(prepared) if job.mode is Mode.TRAINING else None
    if training is None:
        raise InvalidInputError(
            "Plans are searched for the training of a transformer, and none was recognised in "
            f"{job.label} ({job.mode.value}).",
            pointer="/job",
        )
    alone = on_one_of_each(core, prepared, placement, observed)
    single_s = max(computing_s(one) for one in alone)
    unobserved = on_one_of_each(core, core.prepare(replace(job, script=None)), placement)
    slower = single_s / max(computing_s(one) for one in unobserved)
    found = search_plans(
        training,
        placement.fabric,
        global_batch=global_batch or prepared.samples * placement.count,
        scale=PredictedScale(
            core=core, prepared=prepared, placement=placement, training=training, slower=slower
        ),
        room_of=CapturedRoom.of(core, prepared, placement, training),
        most=most,
    )
    return replace(
        found,
        model_version=core.model.version,
        warnings=tuple(
            dict.fromkeys(t for one in alone for t in one.warnings if t != NO_ROOM_WARNING)
        ),
    )

"""Search the parallel plans of a job on some hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.plans.plan_room import CapturedRoom
from perfmodel.estimator.single.plan_engine import transformer_training
from perfmodel.estimator.tables.estimates import NO_ROOM_WARNING
from perfmodel.estimator.tables.goodput import ReplicaSteps, at_some_batches
from perfmodel.estimator.tables.one_of_each import computing_s, on_one_of_each
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.plan_cells import PlanChoice
from perfmodel.placement.plan_steps.plan_step import PlanStep, plan_step
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice
from perfmodel.placement.plans.plan_search import PlanRanking, search_plans, single_scale
from perfmodel.placement.topology.topology import Plan
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
    scale: float | PredictedScale
    if prepared.has_plan_engine:
        usual = job_choice(job, Plan(data=1))
        scale = single_scale(training, placement.fabric, usual, single_s)
    else:
        unobserved = on_one_of_each(core, core.prepare(replace(job, script=None)), placement)
        slower = single_s / max(computing_s(one) for one in unobserved)
        scale = PredictedScale.of(core, prepared, placement, training, slower=slower)
    found = search_plans(
        training,
        placement.fabric,
        global_batch=global_batch or prepared.samples * placement.count,
        scale=scale,
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


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedScale:
    """The scale of plans by what is predicted of a job at some batches.

    Replicas that are not split take what single answers say of them; all others take what one
    accelerator takes, times what the equations make of the plan.

    Parameters
    ----------
    slower : float
        How much longer observed steps say that one accelerator takes.
    """

    training: TransformerTraining
    fabric: Fabric
    steps: ReplicaSteps
    slower: float = 1.0

    @classmethod
    def of(
        cls,
        core: Core,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        training: TransformerTraining,
        *,
        slower: float = 1.0,
    ) -> PredictedScale:
        """Predict the step at a few batches, each of which is captured once."""
        asked = at_some_batches(core, prepared)
        steps = ReplicaSteps.of(core, asked, placement)
        return cls(training=training, fabric=placement.fabric, steps=steps, slower=slower)

    def __call__(self, choices: Sequence[PlanChoice], steps: PlanStep) -> FloatArray:
        """Return the factor of each plan.

        Parameters
        ----------
        steps : PlanStep
            What the equations say of them.
        """
        usual = job_choice(self.steps.prepared.job, choices[0].plan).checkpointing
        alike = [replace(choice, checkpointing=usual) for choice in choices]
        alone = plan_step(self.training.alone(self.fabric, alike), self.training.constants)
        batch = np.array([choice.micro_batch for choice in choices])
        accumulation = np.array([choice.micro_batches for choice in choices])
        factor = self.steps.single_s(batch, accumulation) / alone.step_time_s
        whole = np.array([_is_whole(one) and one.checkpointing is usual for one in choices])
        stages = np.array([choice.plan.zero_stage for choice in choices])
        for stage in np.unique(stages[whole]).tolist():
            rows = np.flatnonzero(whole & (stages == stage))
            known = self.steps.replicated_s(batch[rows], accumulation[rows], zero_stage=stage)
            factor[rows] = known / steps.step_time_s[rows]
        return np.asarray(self.slower * factor)


def _is_whole(choice: PlanChoice) -> bool:
    plan = choice.plan
    return plan.tensor == plan.pipeline == plan.context == plan.expert == 1

"""How much longer plans take than their equations say, where these were fitted on other jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.tables.goodput import ReplicaSteps, at_some_batches
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.plan_cells import PlanChoice
from perfmodel.placement.plan_steps.plan_step import PlanStep, plan_step
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice


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

"""How much longer plans take than their equations say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.tables.goodput import ReplicaSteps, at_some_batches
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.plan_steps.plan_cells import PlanChoice
from perfmodel.placement.plan_steps.plan_step import PlanStep, plan_step
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedScale:
    """The scale of plans by what is predicted of a job at some batches.

    A plan takes what one accelerator takes, times what the equations make of the plan. Where these
    were fitted on other jobs, replicas that are not split take what single answers say of them.

    Parameters
    ----------
    slower : float
        How much longer observed steps say that one accelerator takes.
    """

    core: Core
    prepared: PreparedJob
    placement: ResolvedPlacement
    training: TransformerTraining
    slower: float = 1.0

    def __call__(self, choices: Sequence[PlanChoice], steps: PlanStep) -> FloatArray:
        """Return the factor of each plan; predicts at a few batches, each of which is captured.

        Parameters
        ----------
        steps : PlanStep
            What the equations say of them.
        """
        within = [choice.micro_batch for choice in choices]
        asked = at_some_batches(self.core, self.prepared, within)
        known = ReplicaSteps.of(self.core, asked, self.placement)
        usual = job_choice(self.prepared.job, choices[0].plan).checkpointing
        alike = [replace(choice, checkpointing=usual) for choice in choices]
        fabric = self.placement.fabric
        training = self.training.on(fabric.accelerators)
        alone = plan_step(training.alone(fabric, alike), training.constants)
        batch = np.array(within)
        accumulation = np.array([choice.micro_batches for choice in choices])
        factor = known.single_s(batch, accumulation) / alone.step_time_s
        # Replicas of language models that are not split are answered by the equations as well.
        predicted = not self.prepared.has_plan_engine
        whole = np.array(
            [predicted and _is_whole(one) and one.checkpointing is usual for one in choices]
        )
        stages = np.array([choice.plan.zero_stage for choice in choices])
        for stage in np.unique(stages[whole]).tolist():
            rows = np.flatnonzero(whole & (stages == stage))
            whole_s = known.replicated_s(batch[rows], accumulation[rows], zero_stage=stage)
            factor[rows] = whole_s / steps.step_time_s[rows]
        return np.asarray(self.slower * factor)


def _is_whole(choice: PlanChoice) -> bool:
    plan = choice.plan
    return plan.tensor == plan.pipeline == plan.context == plan.expert == 1

"""Answer for plans of one transformer on one set of accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.plan_steps.plan_cells import (
    Checkpointing,
    DeviceColumns,
    NumberBytes,
    PlanCells,
    PlanChoice,
    PlanColumns,
    PlanGroups,
    ShapeColumns,
)
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_step import PlanStep, plan_step
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Plan
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Precision

FloatArray = npt.NDArray[np.float64]

_MEGATRON = "zoo/megatron-gpt"
_FUSED_SINCE = 2022


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerTraining:
    """What is trained, whatever the plan.

    Parameters
    ----------
    fused_attention : bool
        Scores stay on the chip, as in PyTorch's scaled dot product attention.
    stack : Stack
        Software that carries it out.
    """

    shape: TransformerShape
    precision: Precision = Precision.AMP_BF16
    optimizer: str = "adamw"
    fused_attention: bool = True
    stack: Stack = Stack.TORCH

    @classmethod
    def of(cls, job: Job) -> TransformerTraining | None:
        """Return what a job trains; None where it is no transformer of known dimensions."""
        shape = transformer_shape(job)
        if shape is None:
            return None
        megatron = job.model == _MEGATRON
        return cls(
            shape=shape,
            precision=job.precision,
            optimizer=job.optimizer,
            fused_attention=not megatron,
            stack=Stack.MEGATRON if megatron else Stack.TORCH,
        )

    def on(self, accelerators: Sequence[AcceleratorSpec]) -> TransformerTraining:
        """Return what trains on some accelerators: TPUs compile whole steps.

        Megatron's kernel for scores in memory gave way to scores that stay on the chip with the
        accelerators of 2022.
        """
        if any(one.kind == "tpu" for one in accelerators):
            return replace(self, stack=Stack.XLA, fused_attention=True)
        if all((one.year or 0) >= _FUSED_SINCE for one in accelerators):
            return replace(self, fused_attention=True)
        return self

    @property
    def constants(self) -> PlanConstants:
        """What was fitted on published steps of its stack."""
        return PlanConstants.fitted(self.stack)

    def cells(self, fabric: Fabric, choices: Sequence[PlanChoice]) -> PlanCells:
        """Return the columns of some plans; of mixed accelerators the weakest counts."""
        groups = PlanGroups.of(fabric, [choice.plan for choice in choices])
        return self._cells(_weakest(fabric.accelerators, self.precision), groups, choices)

    def alone(self, fabric: Fabric, choices: Sequence[PlanChoice]) -> PlanCells:
        """Return the columns of the same micro-batches on one accelerator."""
        none = CommGroups.one_host(np.ones(len(choices)), LinkClass.NONE, 1e9)
        groups = PlanGroups(
            tensor=none, context=none, expert=none, pipeline=none, data=none, expert_data=none
        )
        single = [replace(choice, plan=Plan(data=1)) for choice in choices]
        return self._cells(_weakest(fabric.accelerators, self.precision), groups, single)

    def _cells(
        self, device: DeviceColumns, groups: PlanGroups, choices: Sequence[PlanChoice]
    ) -> PlanCells:
        count = len(choices)
        same = np.zeros(count, dtype=np.int64)
        return PlanCells(
            shape=ShapeColumns.of([self.shape]).take(same),
            plan=PlanColumns.of(choices),
            device=device.take(same),
            numbers=NumberBytes.of([self.precision], [self.optimizer]).take(same),
            groups=groups,
            fused_attention=np.full(count, float(self.fused_attention)),
        )


def job_choice(job: Job, plan: Plan) -> PlanChoice:
    """Return the plan of a placement with the batch of a job."""
    again = Checkpointing.SELECTIVE if job.selective_checkpointing else Checkpointing.NONE
    return PlanChoice(
        plan=plan,
        micro_batch=job.batch_size,
        micro_batches=job.accumulation_steps,
        checkpointing=Checkpointing.FULL if job.activation_checkpointing else again,
    )


def plan_answer(
    training: TransformerTraining,
    fabric: Fabric,
    choices: Sequence[PlanChoice],
    *,
    single_s: FloatArray | None = None,
    constants: PlanConstants | None = None,
) -> PlanStep:
    r"""Return the steps of some plans.

    Where the step of the same micro-batches on one accelerator is known, it sets the scale:
    :math:`single \cdot model(plan) / model(one)`, never below the arithmetic at the peak.

    Parameters
    ----------
    choices : sequence of PlanChoice
        Each for all accelerators of the fabric.
    single_s : ndarray or None
        Seconds on one accelerator, shape (choices,); None where the model does not fit one or
        nothing better than its dimensions is known.
    constants : PlanConstants or None
        The shipped ones where None.
    """
    training = training.on(fabric.accelerators)
    known = constants or training.constants
    steps = plan_step(training.cells(fabric, choices), known)
    if single_s is None:
        return steps
    alone = plan_step(training.alone(fabric, choices), known).step_time_s
    return scaled(steps, single_s / alone)


def scaled(steps: PlanStep, factor: npt.ArrayLike) -> PlanStep:
    """Return steps ``factor`` times as long; ratios between plans stay those of the model."""
    times = np.asarray(factor, dtype=np.float64)
    longer = steps.parts.each(lambda part: part * times)
    return replace(steps, parts=longer, bubble_s=steps.bubble_s * times)


def _weakest(accelerators: Sequence[AcceleratorSpec], precision: Precision) -> DeviceColumns:
    columns = DeviceColumns.of(accelerators, [precision] * len(accelerators))
    slowest = columns.take(np.array([int(np.argmin(columns.peak_flops))]))
    least = {one.name: getattr(columns, one.name).min(keepdims=True) for one in fields(columns)}
    return DeviceColumns(**{**least, "tflops_per_w": slowest.tflops_per_w})

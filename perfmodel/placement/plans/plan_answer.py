"""Answer for plans of one transformer on one set of accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job
from perfmodel.graph.training_options.mixed_precision import MixedPrecision
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.plan_steps.plan_cells import (
    Attention,
    Checkpointing,
    DeviceColumns,
    NumberBytes,
    PlanCells,
    PlanChoice,
    PlanColumns,
    PlanGroups,
    ShapeColumns,
)
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack, chosen
from perfmodel.placement.plan_steps.plan_step import PlanStep, plan_step
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Plan
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Precision

_MEGATRON = "zoo/megatron-gpt"
#: Software of a job that carries its plan out by Megatron's core, and by PyTorch itself.
_CORE_SOFTWARE = frozenset(("megatron", "nemo"))
_TORCH_SOFTWARE = frozenset(("torch", "torchtitan"))
_FUSED_SINCE = 2022


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerTraining:
    """What is trained, whatever the plan.

    Parameters
    ----------
    trained_share : float
        Part of the parameters that is trained, in (0, 1].
    fused_attention : bool
        Scores stay on the chip, as in PyTorch's scaled dot product attention.
    stack : Stack
        Software that carries it out.
    split_stack : Stack or None
        Software that does where a plan splits a replica; None for what is usual there.
    """

    shape: TransformerShape
    precision: Precision = Precision.AMP_BF16
    optimizer: str = "adamw"
    mixed_precision: MixedPrecision | None = None
    trained_share: float = 1.0
    fused_attention: bool = True
    stack: Stack = Stack.TORCH
    split_stack: Stack | None = None

    @classmethod
    def of(cls, job: Job) -> TransformerTraining | None:
        """Return what a job trains; None where it is no transformer of known dimensions."""
        shape = transformer_shape(job)
        if shape is None:
            return None
        stack, split_stack = Stack.MEGATRON if job.model == _MEGATRON else Stack.TORCH, None
        if not _CORE_SOFTWARE.isdisjoint(job.software):
            stack = Stack.MEGATRON_CORE
        elif stack is Stack.TORCH and not _TORCH_SOFTWARE.isdisjoint(job.software):
            split_stack = stack
        return cls(
            shape=shape,
            precision=job.arithmetic,
            optimizer=job.optimizer,
            mixed_precision=job.mixed_precision,
            fused_attention=stack is not Stack.MEGATRON,
            stack=stack,
            split_stack=split_stack,
        )

    def on(self, accelerators: Sequence[AcceleratorSpec]) -> TransformerTraining:
        """Return what trains on some accelerators: TPUs compile whole steps.

        On NVIDIA's since 2022 what Megatron became splits every language model of which nobody says
        that PyTorch does. On other accelerators of that time its scores stay on the chip too.
        """
        if any(one.kind == "tpu" for one in accelerators):
            return replace(self, stack=Stack.XLA, split_stack=None, fused_attention=True)
        if any((one.year or 0) < _FUSED_SINCE for one in accelerators):
            return self
        if any(one.vendor != "NVIDIA" for one in accelerators):
            return replace(self, fused_attention=True)
        own = Stack.MEGATRON_CORE if self.stack is Stack.MEGATRON else self.stack
        split = self.split_stack or Stack.MEGATRON_CORE
        return replace(self, stack=own, split_stack=split, fused_attention=True)

    @property
    def numbers(self) -> NumberBytes:
        """Bytes of one number of each kind, one row."""
        usual = NumberBytes.of([self.precision], [self.optimizer])
        return usual.trained(self.trained_share, self.mixed_precision)

    @property
    def constants(self) -> PlanConstants:
        """What was fitted on published steps of its stack."""
        return PlanConstants.fitted(self.stack)

    def constants_of(self, plan: PlanColumns) -> PlanConstants:
        """Return what was fitted on the software of each plan: columns where they differ."""
        split = are_split(plan)
        if self.split_stack is None or not split.any():
            return self.constants
        other = PlanConstants.fitted(self.split_stack)
        return other if split.all() else chosen(split, other, self.constants)

    def stack_of(self, plan: Plan) -> Stack:
        """Return the software that carries a plan out."""
        return self.split_stack or self.stack if are_split(plan) else self.stack

    def _attention(self, plan: PlanColumns) -> FloatArray:
        """Return the code of :class:`.plan_cells.Attention` of each plan."""
        own = Attention.BY_WARPS if self.fused_attention else Attention.WRITTEN
        if self.stack is Stack.MEGATRON_CORE:
            own = Attention.BY_WARP_GROUPS
        split = Attention.BY_WARP_GROUPS if self.split_stack is Stack.MEGATRON_CORE else own
        return np.where(are_split(plan), float(split), float(own))

    def cells(self, fabric: Fabric, choices: Sequence[PlanChoice]) -> PlanCells:
        """Return the columns of some plans; of mixed accelerators the weakest counts."""
        groups = PlanGroups.of(fabric, [choice.plan for choice in choices])
        return self._cells(_weakest(fabric.accelerators, self.precision), groups, choices)

    def alone(self, fabric: Fabric, choices: Sequence[PlanChoice]) -> PlanCells:
        """Return the columns of the same micro-batches on one accelerator."""
        none = CommGroups.one_host(np.ones(len(choices)), LinkClass.NONE, 1e9)
        groups = PlanGroups(**dict.fromkeys(PlanGroups.__slots__, none))
        single = [replace(choice, plan=Plan(data=1)) for choice in choices]
        return self._cells(_weakest(fabric.accelerators, self.precision), groups, single)

    def _cells(
        self, device: DeviceColumns, groups: PlanGroups, choices: Sequence[PlanChoice]
    ) -> PlanCells:
        same = np.zeros(len(choices), dtype=np.int64)
        plan = PlanColumns.of(choices)
        return PlanCells(
            shape=ShapeColumns.of([self.shape]).take(same),
            plan=plan,
            device=device.take(same),
            numbers=self.numbers.take(same),
            groups=groups,
            fused_attention=self._attention(plan),
        )


def are_split(plan: Plan | PlanColumns) -> Any:
    """Tell whether a plan splits a replica, or which plans of columns do."""
    return plan.tensor * plan.pipeline * plan.context * plan.expert > 1


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
) -> PlanStep:
    r"""Return the steps of some plans.

    Where the step of the same micro-batches on one accelerator is known, it sets the scale of what
    is computed: :math:`compute(plan) \cdot single / model(one)`. No step is below the arithmetic at
    the peak, and each model has the constants of its own software.

    Parameters
    ----------
    choices : sequence of PlanChoice
        Each for all accelerators of the fabric.
    single_s : ndarray or None
        Seconds on one accelerator, shape (choices,); None where the model does not fit one or
        nothing better than its dimensions is known.
    """
    training = training.on(fabric.accelerators)
    cells = training.cells(fabric, choices)
    steps = plan_step(cells, training.constants_of(cells.plan))
    if single_s is None:
        return steps
    alone = plan_step(training.alone(fabric, choices), training.constants).step_time_s
    return with_computing(steps, single_s / alone)


def scaled(steps: PlanStep, factor: npt.ArrayLike) -> PlanStep:
    """Return steps ``factor`` times as long; ratios between plans stay those of the model."""
    times = np.asarray(factor, dtype=np.float64)
    longer = steps.parts.each(lambda part: part * times)
    return replace(steps, parts=longer, bubble_s=steps.bubble_s * times)


def with_computing(steps: PlanStep, factor: npt.ArrayLike) -> PlanStep:
    """Return steps whose computing takes ``factor`` times as long; links are as fast as before.

    Of a shorter computation less communication hides, in proportion; of a longer one no more.
    """
    times, parts = np.asarray(factor, dtype=np.float64), steps.parts
    hidden = np.maximum(parts.communication_s - parts.exposed_communication_s, 0.0)
    shown = (1.0 - np.minimum(times, 1.0)) * hidden
    longer = replace(
        parts,
        compute_s=parts.compute_s * times,
        overhead_s=parts.overhead_s * times,
        input_stall_s=parts.input_stall_s * times,
        exposed_communication_s=parts.exposed_communication_s + shown,
    )
    return replace(steps, parts=longer, bubble_s=steps.bubble_s * times)


def _weakest(accelerators: Sequence[AcceleratorSpec], precision: Precision) -> DeviceColumns:
    columns = DeviceColumns.of(accelerators, [precision] * len(accelerators))
    slowest = columns.take(np.array([int(np.argmin(columns.peak_flops))]))
    least = {one.name: getattr(columns, one.name).min(keepdims=True) for one in fields(columns)}
    return DeviceColumns(**{**least, "tflops_per_w": slowest.tflops_per_w})

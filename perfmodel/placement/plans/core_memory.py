"""Memory of ranks under plans that Megatron's core carries out.

The program of a model as its hub has it writes what Megatron's fused kernels keep on the chip:
scores of attention where it has no kernel for them (sinks), both factors of gates and their
product, norms in fp32, copies of tokens for each expert. So what a rank keeps is counted by the
equations of :mod:`.plan_memory`, not from that program. With the distributed optimizer the
parameters that are updated, in fp32, are part of its state, which replicas share out. A parameter
takes, of d replicas, gradients in fp32::

    stage 0   2 + 4 + 12
    stage 1   2 + 4 + 12 / d

Around that stand runtime and allocator as around all steps (:mod:`.memory_demand`).

Left out: what is moved to the memory of the host, and what is recomputed besides attention and
whole layers.

Reference: NVIDIA, Megatron-LM, Distributed Optimizer, table of theoretical memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfmodel.placement.memory.memory_parts import MemoryParts
from perfmodel.placement.plan_steps.plan_cells import (
    NumberBytes,
    PlanChoice,
    PlanColumns,
    ShapeColumns,
)
from perfmodel.placement.plan_steps.plan_memory import plan_memory
from perfmodel.placement.plans.plan_answer import TransformerTraining


def core_memory_parts(training: TransformerTraining, choices: Sequence[PlanChoice]) -> MemoryParts:
    """Return the memory of the fullest rank of each plan.

    Parameters
    ----------
    choices : sequence of PlanChoice
        Whose plans state their replicas, and offload nothing.
    """
    same = np.zeros(len(choices), dtype=np.int64)
    found = plan_memory(
        ShapeColumns.of([training.shape]).take(same),
        PlanColumns.of(choices),
        _with_masters_in_state(training.numbers).take(same),
        np.ones(len(choices)),
    )
    nothing = np.zeros(len(choices))
    return MemoryParts(
        held_bytes=found.weights + found.state + found.gathered,
        activation_corners=found.activations[:, None],
        gradient_corners=found.gradients[:, None],
        gradient_bytes=found.gradients,
        optimizer_bytes=nothing,
        # Gradients are summed where they lie.
        bucket_bytes=nothing,
        attention_bytes=nothing,
        convolution_bytes=nothing,
        reserved_ratio=np.ones(len(choices)),
        certain_bytes=found.weights + found.state + found.gradients,
    )


def _with_masters_in_state(numbers: NumberBytes) -> NumberBytes:
    """Return numbers whose parameters are those that are computed with, the others state."""
    masters = np.where(numbers.work < numbers.parameter, numbers.parameter, 0.0)
    return replace(
        numbers,
        parameter=np.minimum(numbers.work, numbers.parameter),
        state=numbers.state + masters,
    )

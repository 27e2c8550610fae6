"""Columns of plans on made-up devices and links, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.plan_steps.plan_cells import (
    DeviceColumns,
    NumberBytes,
    PlanCells,
    PlanChoice,
    PlanColumns,
    PlanGroups,
    ShapeColumns,
)
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Plan
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Precision

SHAPE: dict[str, Any] = {
    "layers": 8, "hidden_size": 512, "heads": 8, "sequence_length": 256, "vocabulary": 1000,
}  # fmt: skip


def shape(**changes: Any) -> TransformerShape:
    """Return a small transformer."""
    return TransformerShape(**{**SHAPE, **changes})


def choice(micro_batch: int = 4, micro_batches: int = 6, **plan: Any) -> PlanChoice:
    """Return a plan with its batch; ``checkpointing`` belongs to the choice."""
    again = plan.pop("checkpointing", 0)
    return PlanChoice(
        plan=Plan(**{"data": 1, **plan}),
        micro_batch=micro_batch,
        micro_batches=micro_batches,
        checkpointing=again,
    )


def cells(
    choices: Sequence[PlanChoice],
    shapes: Sequence[TransformerShape] | None = None,
    *,
    peak_flops: float = 1e14,
    memory_bytes_per_s: float = 1e12,
    link_bytes_per_s: float = 1e11,
    precision: Precision = Precision.BF16,
    fused_attention: bool = True,
    reached_share: float = 1.0,
) -> PlanCells:
    """Return columns of plans on one host with a switch."""
    count = len(choices)
    models = [shape()] * count if shapes is None else list(shapes)
    plan = PlanColumns.of(choices)

    def group(ranks: Any) -> CommGroups:
        return CommGroups.one_host(ranks, LinkClass.NVSWITCH, link_bytes_per_s)

    return PlanCells(
        shape=ShapeColumns.of(models),
        plan=plan,
        device=DeviceColumns(
            peak_flops=np.full(count, peak_flops),
            output_flops=np.full(count, peak_flops),
            score_flops=np.full(count, peak_flops),
            memory_bytes_per_s=np.full(count, memory_bytes_per_s),
            memory_bytes=np.full(count, 8e10),
            core_hz=np.full(count, 1.5e11),
            tflops_per_w=np.full(count, 0.5),
            reached_share=np.full(count, reached_share),
        ),
        numbers=NumberBytes.of([precision] * count, ["adamw"] * count),
        groups=PlanGroups(
            tensor=group(plan.tensor),
            context=group(plan.context),
            expert=group(plan.expert),
            pipeline=group(np.minimum(plan.pipeline, 2.0)),
            data=group(plan.data * plan.context),
            replicate=group(plan.replicate),
            expert_data=group(plan.data * plan.context / plan.expert),
        ),
        fused_attention=np.full(count, float(fused_attention)),
    )

r"""Memory of a rank whose steps are compiled as a whole, as on TPUs.

A compiler keeps what the backward pass reads and no copies beside it: weights, gradients and
optimizer state as :mod:`.plan_memory` has them, and of a layer with r tokens of a rank::

    outputs   = 2 (a d + 2 g d + h + k (f, gated 2 f, + h)) / t
    none      = r (shared / (t with sequence parallelism) + split / t)
    selective = r outputs                       what lies between products is computed again
    full      = r 2 h / (t with sequence parallelism), and one layer's outputs

Scores of the words are written once, with their gradient: casts and sums are fused into them.

Left out: what is moved to the memory of the host, and padding to tiles.
"""

from __future__ import annotations

import math

import numpy as np

from perfmodel.placement.memory.memory_parts import micro_batches_in_flight
from perfmodel.placement.plan_steps.plan_cells import (
    Checkpointing,
    PlanChoice,
    PlanColumns,
    ShapeColumns,
)
from perfmodel.placement.plan_steps.plan_memory import plan_memory
from perfmodel.placement.plans.plan_answer import TransformerTraining
from perfmodel.placement.transformers.transformer_shape import TransformerShape

_HALF_BYTES = 2.0
_WORD_BYTES = 2 * _HALF_BYTES


def compiled_memory_bytes(training: TransformerTraining, choice: PlanChoice) -> float:
    """Return the memory of tensors on the fullest rank of a plan."""
    parts = plan_memory(
        ShapeColumns.of([training.shape]),
        PlanColumns.of([choice]),
        training.numbers,
        np.ones(1),
    )
    held = parts.weights + parts.gradients + parts.state + parts.gathered
    return float(held[0]) + _activation_bytes(training.shape, choice)


def _activation_bytes(shape: TransformerShape, choice: PlanChoice) -> float:
    plan, again = choice.plan, choice.checkpointing
    tokens = choice.micro_batch * shape.sequence_length / plan.context
    norms = plan.tensor if plan.sequence_parallel else 1
    outputs = _output_bytes(shape) / plan.tensor
    if again is Checkpointing.FULL:
        layer = _HALF_BYTES * shape.hidden_size / norms
    elif again is Checkpointing.SELECTIVE:
        layer = outputs
    else:
        layer = shape.shared_activation_bytes / norms + shape.split_activation_bytes / plan.tensor
    ahead = float(
        micro_batches_in_flight(
            plan.pipeline, choice.micro_batches, plan.schedule, plan.virtual_stages
        )
    )
    layers = ahead * math.ceil(shape.layers / plan.pipeline)
    once = outputs if again is Checkpointing.FULL else 0.0
    words = _WORD_BYTES * shape.vocabulary / plan.tensor if shape.has_head else 0.0
    return tokens * (layers * layer + once + words)


def _output_bytes(shape: TransformerShape) -> float:
    """Return what the products of a layer write for a token."""
    attention = shape.attention_width + 2 * shape.key_value_width + shape.hidden_size
    network = (2 if shape.is_gated else 1) * shape.inner_size + shape.hidden_size
    return _HALF_BYTES * (attention + shape.experts_per_token * network)

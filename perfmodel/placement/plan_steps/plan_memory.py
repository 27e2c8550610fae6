r"""Memory of a rank under a plan, from the dimensions of a transformer.

Rank i of p stages holds its layers' share of the parameters: split over t tensor ranks, experts
also over e ranks; the first stage has the tables, the last the output. With P parameters of a
rank and D replicas that share them out (ZeRO)::

    weights   = parameter P / (D from stage 3 on) + working copy
    gradients = gradient P / (D from stage 2 on)
    state     = state P / (D from stage 1 on)
    gathered  = work (2 layers, and the tables), only from stage 3 on

where the working copy is that of ``autocast``, which keeps what it cast until the backward pass
has read it; recomputed layers keep none but their own. Activations of a layer
and micro-batch, r tokens of a rank, in 16 bits (twice that in fp32)::

    none      = r (shared / (t with sequence parallelism) + split / t + scores / t)
    selective = the same without scores
    full      = r 2 h, and one layer of the kind "none" while it is computed again

Stage i keeps them of min(n, p - i) micro-batches under 1F1B, of n under GPipe, and of
``min(n, p) (1 + (p - 1) / (p v))`` on the first stage when interleaved. The last stage has the
scores of the words: logits, their fp32 copy and its gradient. The peak is that of the fullest
stage; the first and the last are looked at.

Left out: buffers of communication, workspaces of libraries, fragmentation, the runtime.

Reference: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022;
Rajbhandari et al., ZeRO, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.memory.memory_parts import micro_batches_in_flight
from perfmodel.placement.plan_steps.plan_cells import (
    SCHEDULES,
    Checkpointing,
    NumberBytes,
    PlanColumns,
    ShapeColumns,
)

_HALF_BYTES = 2.0
#: Logits and their gradient in 16 bits, copy and gradient in fp32.
_WORD_BYTES = 2 * 2.0 + 2 * 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanMemory:
    """Memory of the fullest rank, by parts, bytes; arrays of one shape.

    Parameters
    ----------
    weights, gradients, state, gathered, activations : ndarray
        ``gathered``: parameters of other ranks while they are used.
    """

    weights: FloatArray
    gradients: FloatArray
    state: FloatArray
    gathered: FloatArray
    activations: FloatArray

    @property
    def peak_bytes(self) -> FloatArray:
        """All parts together."""
        held = self.weights + self.gradients + self.state
        return held + self.gathered + self.activations


def plan_memory(
    shape: ShapeColumns, plan: PlanColumns, numbers: NumberBytes, fused_attention: FloatArray
) -> PlanMemory:
    """Return the memory of the fullest rank of each plan.

    Parameters
    ----------
    fused_attention : ndarray
        1 where scores stay on the chip.

    Examples
    --------
    A layer of 12 h^2 + 13 h parameters takes 18 bytes for each under AMP with Adam:

    >>> from perfmodel.placement.plan_steps.plan_cells import PlanChoice
    >>> from perfmodel.placement.topology.topology import Plan
    >>> from perfmodel.placement.transformers.transformer_shape import TransformerShape
    >>> from perfmodel.types import Precision
    >>> shapes = [TransformerShape(layers=l, hidden_size=64, heads=4, sequence_length=8,
    ...                            vocabulary=100) for l in (1, 2)]
    >>> plan = PlanColumns.of([PlanChoice(plan=Plan(data=1), micro_batch=1, micro_batches=1)] * 2)
    >>> numbers = NumberBytes.of([Precision.AMP_BF16] * 2, ["adamw"] * 2)
    >>> small, deep = plan_memory(ShapeColumns.of(shapes), plan, numbers, np.ones(2)).peak_bytes
    >>> bool(deep - small == 18 * (12 * 64**2 + 13 * 64) + 8 * 32 * 64)
    True
    """
    first = _stage(shape, plan, numbers, fused_attention, is_last=False)
    last = _stage(shape, plan, numbers, fused_attention, is_last=True)
    fuller = first.peak_bytes >= last.peak_bytes
    return PlanMemory(
        **{
            name: np.where(fuller, getattr(first, name), getattr(last, name))
            for name in PlanMemory.__slots__
        }
    )


def layer_parameters(shape: ShapeColumns, plan: PlanColumns) -> tuple[FloatArray, FloatArray]:
    """Return parameters of a layer on one rank: those all replicas share, and its experts'.

    Where some layers have no experts, those of a mean layer.
    """
    is_mixture = shape.experts > 1
    whole = is_mixture & (plan.data % plan.expert > 0)
    experts = shape.mixture_share * shape.experts * shape.expert_parameters
    experts = experts / np.where(whole, 1.0, plan.tensor)
    routers = (1 - shape.mixture_share) * shape.router_weights
    common = (shape.shared_parameters - routers) / plan.tensor
    shared = common + np.where(is_mixture, 0.0, experts)
    return shared, np.where(is_mixture, experts / plan.expert, 0.0)


def expert_replicas(plan: PlanColumns) -> FloatArray:
    """Return how many ranks hold the same experts."""
    whole = plan.data % plan.expert > 0
    return np.asarray(plan.data * plan.context * np.where(whole, plan.tensor, 1.0) / plan.expert)


def end_parameters(shape: ShapeColumns, plan: PlanColumns) -> tuple[FloatArray, FloatArray]:
    """Return parameters of one rank outside of layers: on the first stage, and on the last.

    A tied output layer needs the table of words on the last stage as well.
    """
    tables = (shape.embedding_parameters + shape.other_parameters) / plan.tensor
    untied = shape.head_parameters >= shape.vocabulary * shape.hidden_size
    words = shape.has_head * shape.vocabulary * shape.hidden_size
    tied = np.where((plan.pipeline > 1) & ~untied, words, 0.0)
    return tables, (shape.head_parameters + tied) / plan.tensor


def rank_parameters(shape: ShapeColumns, plan: PlanColumns) -> tuple[FloatArray, FloatArray]:
    """Return parameters of the rank that has most: those all replicas share, and its experts'."""
    shared, experts = layer_parameters(shape, plan)
    layers = np.ceil(shape.layers / plan.pipeline)
    first, last = end_parameters(shape, plan)
    ends = np.where(plan.pipeline > 1, np.maximum(first, last), first + last)
    return layers * shared + ends, layers * experts


def _stage(
    shape: ShapeColumns,
    plan: PlanColumns,
    numbers: NumberBytes,
    fused_attention: FloatArray,
    *,
    is_last: bool,
) -> PlanMemory:
    layers = np.ceil(shape.layers / plan.pipeline)
    shared, experts = layer_parameters(shape, plan)
    first_ends, last_ends = end_parameters(shape, plan)
    ends = np.where(plan.pipeline > 1, last_ends if is_last else first_ends, first_ends + last_ends)
    replicas = plan.shards
    common, own = layers * shared + ends, layers * experts

    def divided(stage: int) -> FloatArray:
        shares = plan.zero_stage >= stage
        return np.asarray(
            common / np.where(shares, replicas, 1.0)
            + own / np.where(shares, expert_replicas(plan), 1.0)
        )

    layers_cast = np.where(plan.checkpointing == Checkpointing.FULL, 1.0, layers)
    cast = np.where(numbers.work < numbers.parameter, numbers.work, 0.0)
    copies = cast * (layers_cast * (shared + experts) + ends)
    gathered = numbers.work * (2 * (shared + experts) + ends)
    return PlanMemory(
        weights=numbers.parameter * divided(3) + np.where(plan.zero_stage < 3, copies, 0.0),
        gradients=numbers.gradient * divided(2),
        state=numbers.state * divided(1),
        gathered=np.where(plan.zero_stage >= 3, gathered, 0.0),
        activations=_activations(shape, plan, numbers, fused_attention, layers, is_last=is_last),
    )


def _activations(
    shape: ShapeColumns,
    plan: PlanColumns,
    numbers: NumberBytes,
    fused_attention: FloatArray,
    layers: FloatArray,
    *,
    is_last: bool,
) -> FloatArray:
    tokens = plan.micro_batch * shape.sequence_length / plan.context
    wide = numbers.work / _HALF_BYTES
    norms = np.where(plan.sequence_parallel > 0, plan.tensor, 1.0)
    kept = shape.shared_activation_bytes / norms + shape.split_activation_bytes / plan.tensor
    scores = (fused_attention == 0) * shape.score_activation_bytes / plan.tensor
    whole = kept + np.where(plan.checkpointing >= Checkpointing.SELECTIVE, 0.0, scores)
    inputs = _HALF_BYTES * shape.hidden_size / norms
    full = plan.checkpointing == Checkpointing.FULL
    again = np.where(full | (plan.checkpointing == Checkpointing.SELECTIVE), scores, 0.0)
    again = again + np.where(full, kept, 0.0)
    layer = np.where(full, inputs, whole)
    ahead = _in_flight(plan, is_last=is_last)
    ends_here = is_last | (plan.pipeline == 1)
    words = np.where(ends_here, shape.has_head * shape.vocabulary / plan.tensor, 0.0)
    return np.asarray(tokens * (wide * (ahead * layers * layer + again) + _WORD_BYTES * words))


def _in_flight(plan: PlanColumns, *, is_last: bool) -> FloatArray:
    """Return how many micro-batches a stage holds at most."""
    found = np.empty(len(plan.pipeline))
    for code in np.unique(plan.schedule).tolist():
        rows = plan.schedule == code
        own = (plan.pipeline[rows], plan.micro_batches[rows])
        chunks = plan.virtual_stages[rows]
        found[rows] = micro_batches_in_flight(*own, SCHEDULES[int(code)], chunks, is_last=is_last)
    return found

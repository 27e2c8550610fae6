r"""What of a step's memory lies on one accelerator under a plan, in columns.

With ``d`` replicas, ``t`` tensor ranks, ``p`` pipeline stages and ``c`` context ranks::

    parameters       P / (t p)       and / (d c)  from ZeRO stage 3
    gradients        G / (t p)       and / (d c)  from ZeRO stage 2
    optimizer state  S / (t p)       and / (d c)  from ZeRO stage 1
    activations      A / (c p) * n * ((1 - w) / t + w)

where ``n`` is the number of micro-batches in flight on the first stage, the fullest one
(:func:`micro_batches_in_flight`): all ``m`` of them with GPipe, ``min(p, m)`` with 1F1B; and ``w``
is what tensor ranks keep whole, 10 of 34 parts of a transformer's layer without sequence
parallelism and nothing with it. Context ranks hold the same parameters, so that stages share them
out over those too. Of what belongs to experts, each of ``e`` ranks holds ``1 / e``, and stages
share it out over the ``d c / e`` replicas of an expert; where ``e`` does not divide ``d`` tensor
ranks do not split it.

Where groups of replicas hold the same shards (hybrid sharding), ``d c`` is what a group has.
Parameters that are kept wider than they are computed with stand beside the copies that are computed
with: one piece at a time in ZeRO stage 3, all of a rank before it. What is offloaded leaves the
device: state and gradients; parameters but for a piece; activations of all layers but two.

Left out: stages of unequal weight, the logits of the last stage, experts that get more tokens than
others.

References
----------
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022.
Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.placement.memory.memory_profile import MemoryProfile
from perfmodel.placement.topology.topology import Offload, Schedule

Numbers = FloatArray | float

#: Parts of a transformer layer's activations that tensor ranks keep whole: inputs of two norms,
#: masks of two dropouts and inputs of two blocks, of 34 in all.
_WHOLE_SHARE = 10 / 34
#: Bytes of one bucket of gradients under ZeRO 2 and 3; two are under way at a time.
_BUCKET_BYTES = 25 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryParts(Columns):
    """Bytes on one accelerator, for many cells at once.

    Parameters
    ----------
    held_bytes : ndarray, shape (cells,)
        Parameters, buffers, inputs and optimizer state.
    activation_corners, gradient_corners : ndarray, shape (cells, corners)
        As in :class:`.memory_profile.MemoryProfile`.
    gradient_bytes, optimizer_bytes : ndarray, shape (cells,)
        All gradients of the accelerator, and temporaries of its optimizer.
    bucket_bytes : ndarray, shape (cells,)
        Gradients that are copied into buckets to be summed over replicas.
    attention_bytes, convolution_bytes : ndarray, shape (cells,)
    reserved_ratio : ndarray, shape (cells,)
    certain_bytes : ndarray, shape (cells,)
        What is there when the optimizer begins, whatever the allocator does: what is held, but for
        buffers, which also stand for tensors of which only the peak is known, and gradients.
    """

    held_bytes: FloatArray
    activation_corners: FloatArray
    gradient_corners: FloatArray
    gradient_bytes: FloatArray
    optimizer_bytes: FloatArray
    bucket_bytes: FloatArray
    attention_bytes: FloatArray
    convolution_bytes: FloatArray
    reserved_ratio: FloatArray
    certain_bytes: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryPlan:
    """Degrees of parallelism as columns that broadcast against each other.

    Parameters
    ----------
    data, tensor, pipeline, context, expert : ndarray or float
        Degrees, >= 1; where ``expert`` does not divide ``data`` experts are whole.
    expert_share : float
        Part of the parameters that belongs to experts, in [0, 1].
    zero_stage : ndarray or float
        0 to 3.
    micro_batches : ndarray or float
        In one step, >= 1; the profile's activations are those of one.
    replicate : float
        Groups that hold the same shards, >= 1: stages share out inside of them alone.
    kept, buffers : float
        How many times the bytes of the parameters, and of the buffers, that are computed with are
        kept; at most once where they are read as they are kept.
    offload : tuple of Offload
        What lies in the memory of the host.
    activation_share : float
        What is left of the activations where they do.
    has_copies : bool
        The activations hold the parameters in 16 bits, as ``autocast`` keeps them until the
        backward pass. Software that runs pipelines has them once, not for each micro-batch.
    """

    data: Numbers = 1.0
    tensor: Numbers = 1.0
    pipeline: Numbers = 1.0
    context: Numbers = 1.0
    expert: Numbers = 1.0
    expert_share: float = 0.0
    zero_stage: Numbers = 0.0
    sequence_parallel: npt.NDArray[np.bool_] | bool = False
    micro_batches: Numbers = 1.0
    schedule: Schedule = Schedule.ONE_F_ONE_B
    virtual_stages: Numbers = 1.0
    replicate: float = 1.0
    kept: float = 1.0
    buffers: float = 1.0
    offload: tuple[Offload, ...] = ()
    activation_share: float = 1.0
    has_copies: bool = False


def memory_parts(profile: MemoryProfile, plan: MemoryPlan | None = None) -> MemoryParts:
    """Divide the memory of a step by a plan.

    Parameters
    ----------
    plan : MemoryPlan or None
        None: one accelerator.
    """
    plan = plan or MemoryPlan()
    in_flight = micro_batches_in_flight(
        plan.pipeline, plan.micro_batches, plan.schedule, plan.virtual_stages
    )
    # Of the activations of one micro-batch the first stage keeps so many times its share.
    whole = np.where(plan.sequence_parallel, 0.0, _WHOLE_SHARE)
    split = (1 - whole) / plan.tensor + whole
    data, tensor, pipeline, context, expert, stage, kept = np.broadcast_arrays(
        np.atleast_1d(np.asarray(plan.data, dtype=np.float64)),
        plan.tensor,
        plan.pipeline,
        plan.context,
        plan.expert,
        plan.zero_stage,
        in_flight * split / (np.asarray(plan.pipeline, dtype=np.float64) * plan.context),
    )
    # Whole experts are not split over the tensor ranks.
    expert = np.where(data % expert > 0, expert / tensor, expert)
    model, replicas, experts = tensor * pipeline, data * context, plan.expert_share
    shards = replicas / plan.replicate
    own = _own_share(model, shards, expert, experts, shares=np.zeros(kept.shape, dtype=np.bool_))
    gradients = _own_share(model, shards, expert, experts, shares=stage >= 2)
    state = _own_share(model, shards, expert, experts, shares=stage >= 1)
    sharded = _own_share(model, shards, expert, experts, shares=stage >= 3)
    # ZeRO 3 gathers one piece while it works on another.
    piece = 2 * profile.largest_parameter_bytes / (model * np.where(experts > 0, expert, 1.0))
    is_gathered = (stage >= 3) & ((shards > 1) | (Offload.PARAMETERS in plan.offload))
    parameters = _parameter_bytes(
        profile.parameter_bytes, plan, own, sharded, np.where(is_gathered, piece, 0.0)
    )
    if Offload.OPTIMIZER in plan.offload:
        # Gradients follow the state as soon as they are reduced.
        gradients, state = np.zeros(kept.shape), np.zeros(kept.shape)
    gradients, state = plan.kept * gradients, plan.kept * state
    held = (
        parameters
        + profile.buffer_bytes * plan.buffers
        + profile.input_bytes / context
        + profile.optimizer_state_bytes * state
    )
    # Copies of all gradients, or of two pieces at a time.
    buckets = profile.gradient_bytes * own
    buckets = np.where(stage >= 2, np.minimum(buckets, 2 * _BUCKET_BYTES), buckets)
    # One for each parameter is there for sure; what else counts as a gradient may be passing.
    settled = min(profile.gradient_bytes, profile.parameter_bytes)
    return MemoryParts(
        held_bytes=held,
        activation_corners=_passing(profile, plan, in_flight) * kept[:, None],
        gradient_corners=profile.gradient_corners * gradients[:, None],
        gradient_bytes=profile.gradient_bytes * gradients,
        optimizer_bytes=profile.optimizer_bytes * state,
        bucket_bytes=np.where(replicas > 1, buckets, 0.0),
        attention_bytes=profile.attention_bytes * kept,
        convolution_bytes=profile.convolution_bytes * kept,
        reserved_ratio=np.full(kept.shape, profile.reserved_ratio),
        certain_bytes=held - profile.buffer_bytes * plan.buffers + settled * gradients,
    )


def micro_batches_in_flight(
    pipeline: Numbers,
    micro_batches: Numbers,
    schedule: Schedule,
    virtual_stages: Numbers = 1.0,
    *,
    is_last: bool = False,
) -> FloatArray:
    """Return how many micro-batches a stage holds the activations of, all its layers'; broadcast.

    A stage runs forward ahead of its backward passes: by all micro-batches where those come last
    (GPipe), else by as many as there are stages from it to the end. With ``v`` chunks of layers a
    stage (interleaved) the first of ``p`` runs ``(v - 1) p + 2 (p - 1) + 1`` chunks ahead, each a
    ``v``-th of its layers.

    Parameters
    ----------
    virtual_stages : float or ndarray
        Chunks of layers a stage; counts where the schedule is interleaved.
    is_last : bool
        Of the last stage in place of the first, which holds most.

    Examples
    --------
    >>> float(micro_batches_in_flight(4, 16, Schedule.ONE_F_ONE_B))
    4.0
    >>> float(micro_batches_in_flight(8, 16, Schedule.INTERLEAVED, 2))
    11.5
    >>> float(micro_batches_in_flight(1, 16, Schedule.GPIPE))
    1.0

    References
    ----------
    Narayanan et al., "Efficient Large-Scale Language Model Training", SC 2021, section 2.2, and the
    order of Megatron-LM's schedule.
    """
    p, n = np.asarray(pipeline, dtype=np.float64), np.asarray(micro_batches, dtype=np.float64)
    ahead = np.ones_like(p) if is_last else p
    if schedule is Schedule.GPIPE:
        ahead = n
    elif schedule is Schedule.INTERLEAVED:
        v = np.maximum(virtual_stages, 1.0)
        chunks = (v - 1) * p + (0.0 if is_last else 2 * (p - 1)) + 1
        ahead = np.where(v > 1, chunks / v, ahead)
    return np.asarray(np.where(p > 1, np.minimum(n, ahead), 1.0))


def _parameter_bytes(
    computed_bytes: float, plan: MemoryPlan, own: FloatArray, sharded: FloatArray, piece: FloatArray
) -> FloatArray:
    """Return the parameters that a rank holds: as they are kept, and as they are computed with.

    Parameters
    ----------
    computed_bytes : float
        All parameters, in the type that is computed with.
    own, sharded : ndarray
        Shares of one rank, of its part of the model and of what it holds of that.
    piece : ndarray
        Bytes that are gathered at a time; 0 where nothing is.
    """
    whole = computed_bytes * own
    if Offload.PARAMETERS in plan.offload:
        return np.minimum(piece, whole)
    if plan.kept <= 1.0:
        return np.minimum(computed_bytes * sharded + piece, whole) * plan.kept
    return computed_bytes * plan.kept * sharded + np.where(
        piece > 0, np.minimum(piece, whole), whole
    )


def stacked(parts: list[MemoryParts]) -> MemoryParts:
    """Return the cells of several parts one after another; at least one."""
    most = max(part.activation_corners.shape[1] for part in parts)

    def padded(corners: FloatArray) -> FloatArray:
        # Repeating the last corner changes no maximum.
        return np.pad(corners, ((0, 0), (0, most - corners.shape[1])), mode="edge")

    return MemoryParts.join(
        [
            replace(
                part,
                activation_corners=padded(part.activation_corners),
                gradient_corners=padded(part.gradient_corners),
            )
            for part in parts
        ]
    )


def _passing(profile: MemoryProfile, plan: MemoryPlan, in_flight: FloatArray) -> FloatArray:
    """Return the activations of one micro-batch in flight, shape (cells or 1, corners)."""
    corners = profile.activation_corners[None, :] * plan.activation_share
    if not plan.has_copies:
        return corners
    copies = np.minimum(0.5 * (1 - plan.expert_share) * profile.parameter_bytes, corners)
    return np.asarray(corners - copies * (1 - 1 / np.atleast_1d(in_flight)[:, None]))


def _own_share(
    model: FloatArray,
    replicas: FloatArray,
    expert: FloatArray,
    expert_share: float,
    *,
    shares: npt.NDArray[np.bool_],
) -> FloatArray:
    """Return the part of all parameters that one rank holds, where replicas share them or not."""
    common = (1 - expert_share) / np.where(shares, replicas, 1.0)
    experts = expert_share / (expert * np.where(shares, replicas / expert, 1.0))
    return np.asarray((common + experts) / model)

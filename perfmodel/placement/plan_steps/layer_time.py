r"""Time of one transformer layer, and of what stands before and after, on one rank.

With r tokens of a micro-batch on a rank, t tensor ranks, peak F and memory bandwidth W of the
device, one forward pass of a layer takes::

    products   = 2 r weights / t / (e_g F) (1 + w F / watts) + 6 c
                 weights of experts times the load of the fullest
    casts      = q_8 r inputs / t / W                   of products in 8 bits
    scores     = 4 r s a d / t / (e_a F_w) + n r s a / t / (cores clock)    on the chip
               = 4 r s a d / t / (e_a F) + q_a 2 r a s / t / W              where they are written
    pointwise  = q_h 2 r h x / W                            x = (1 + 1/t)/2, or 1/t with the
                                                            sequence split too
    exchange   = reductions over tensor ranks, what hides behind products aside, dispatch to
                 experts, and what sends of keys and values between context ranks last longer than
                 the scores

where c is start and tail of a product, w what a power limit holds back, n the cycles of a core for
one score, and F_w the part of the peak that instructions of single warps reach: since Hopper about
half, since the attention kernels that were measured use none of the instructions of warp groups.
No product takes more of F than the fastest one did that was measured on the device.
The backward pass is twice that in arithmetic and memory traffic (scores on the chip two and a half
times, since they are made again), once in reductions and dispatch (with the sequence split half of
the reductions, and what does not hide of gathering inputs again and scattering gradients beside the
products, as Megatron does); with full checkpointing a
forward pass comes before it, with selective checkpointing the scores. No pass is faster than the
host launches its kernels, a third of ``layer_launch_s`` for the forward pass and two for the
backward pass, and again for what is recomputed; so for every expert that the rank holds, up to as
many as ranks of published runs do: nobody measured that the wait goes on growing with them.

Reference: Shoeybi et al., Megatron-LM, 2019; Korthikanti et al., 2022 (sequence parallelism); Liu
et al., Ring Attention, 2023 (context); Lepikhin et al., GShard, 2020 (experts); Shah et al.,
FlashAttention-3, 2024 (an H100 gives kernels written for an A100 some 35 % of its peak).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.plan_steps.plan_cells import Attention, Checkpointing, PlanCells
from perfmodel.placement.plan_steps.plan_constants import PlanConstants
from perfmodel.placement.plan_steps.plan_exchanges import Exchanges

#: Experts that a rank holds, of a layer, in published runs at most.
MOST_EXPERTS = 32
_PRODUCTS = 6  # queries with keys and values, scores, their values, output, two of the network


@dataclass(frozen=True, kw_only=True, slots=True)
class PassTimes:
    """A forward and a backward pass of one micro-batch, recomputation in the latter; seconds.

    Parameters
    ----------
    forward_s, backward_s : ndarray
        Computation, by the device or by the host that launches it.
    forward_exchange_s, backward_exchange_s : ndarray
        Communication within the layer, which nothing hides.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    forward_exchange_s: FloatArray
    backward_exchange_s: FloatArray


def layer_times(cells: PlanCells, between: Exchanges, constants: PlanConstants) -> PassTimes:
    """Return the passes of one layer of one micro-batch.

    Parameters
    ----------
    between : Exchanges
        Of the same steps.
    """
    device = device_times(cells, between, constants)
    forward, backward = launch_times_s(cells, constants)
    return replace(
        device,
        forward_s=np.maximum(device.forward_s, forward - device.forward_exchange_s),
        backward_s=np.maximum(device.backward_s, backward - device.backward_exchange_s),
    )


def device_times(cells: PlanCells, between: Exchanges, constants: PlanConstants) -> PassTimes:
    """Return the passes of one layer as fast as the device is, whatever the host."""
    scores, scores_back = _scores_s(cells, constants)
    others = _products_s(cells, constants) + _pointwise_s(cells, constants)
    full = cells.plan.checkpointing == Checkpointing.FULL
    selective = cells.plan.checkpointing == Checkpointing.SELECTIVE
    again = np.where(full, others + scores, np.where(selective, scores, 0.0))
    reduce, dispatch = constants.reduce_factor * between.reduce_s, between.dispatch_s
    exposed = np.maximum(between.rotate_s - scores, 0.0)
    reduce_back = _reduce_back_s(cells, reduce, 2 * others, constants)
    shown = reduce - constants.reduce_overlap * np.minimum(reduce, others)
    return PassTimes(
        forward_s=others + scores,
        backward_s=2 * others + scores_back + again,
        forward_exchange_s=shown + dispatch + exposed,
        backward_exchange_s=reduce_back
        + dispatch
        + full * (shown + dispatch)
        + (2 + full) * exposed,
    )


def _reduce_back_s(
    cells: PlanCells, reduce_s: FloatArray, beside_s: FloatArray, constants: PlanConstants
) -> FloatArray:
    """Return what is waited for of the reductions of a backward pass, without recomputation.

    Where the sequence is split, gradients that come in are gathered, as a product needs them: half
    of the reductions of a forward pass. Inputs are gathered again and gradients scattered beside
    the products of the pass.
    """
    hidden = constants.overlap_efficiency * np.minimum(reduce_s, beside_s)
    hidden = hidden + constants.reduce_overlap * np.minimum(0.5 * reduce_s, beside_s)
    parallel = cells.plan.sequence_parallel > 0
    return np.where(parallel, 1.5 * reduce_s - hidden, reduce_s)


def launch_times_s(cells: PlanCells, constants: PlanConstants) -> tuple[FloatArray, FloatArray]:
    """Return the time of the host for the forward and the backward pass of one layer."""
    held = np.clip(cells.shape.experts / cells.plan.expert, 1.0, MOST_EXPERTS)
    mixtures = np.where(cells.shape.experts > 1, held * constants.expert_launch_s, 0.0)
    once = (constants.layer_launch_s + mixtures) / 3 + _loose_softmax_s(cells, constants)
    reductions = constants.reduce_launch_s * 2 * np.log2(cells.plan.tensor)
    full = cells.plan.checkpointing == Checkpointing.FULL
    forward = once + reductions
    return forward, 2 * once + reductions + np.where(full, forward, 0.0)


def embedding_times(cells: PlanCells) -> PassTimes:
    """Return the passes of the tables: rows are read, written, and their gradients added."""
    rows = cells.numbers.work * cells.tokens * cells.shape.hidden_size
    return _alone(3 * rows / cells.device.memory_bytes_per_s)


def head_times(cells: PlanCells, constants: PlanConstants) -> PassTimes:
    """Return the passes of the output layer and the loss."""
    shape, device = cells.shape, cells.device
    words = shape.has_head * cells.tokens * shape.vocabulary / cells.plan.tensor
    products = 2 * words * shape.hidden_size / (constants.head_efficiency * device.output_flops)
    traffic = constants.head_passes * 2 * words / device.memory_bytes_per_s / 3
    launch = shape.has_head * constants.head_launch_s / 3
    return _alone(np.maximum(products + traffic, launch))


def _alone(once: FloatArray) -> PassTimes:
    """Return passes without communication, of which the backward one takes twice as long."""
    nothing = np.zeros(len(once))
    return PassTimes(
        forward_s=once,
        backward_s=2 * once,
        forward_exchange_s=nothing,
        backward_exchange_s=nothing,
    )


def _products_s(cells: PlanCells, constants: PlanConstants) -> FloatArray:
    shape, tensor = cells.shape, cells.plan.tensor
    load = np.where(shape.experts > 1, constants.expert_load, 1.0)
    experts = load * shape.experts_per_token * shape.expert_weights
    mixture = shape.mixture_share * (shape.router_weights + experts)
    weights = shape.attention_weights + mixture
    rate = constants.weight_efficiency * cells.device.peak_flops / _held_back(cells, constants)
    rate = np.minimum(rate, cells.device.reached_share * cells.device.peak_flops)
    latency = _PRODUCTS * constants.product_latency_s
    return np.asarray(2 * cells.tokens * weights / tensor / rate + latency + _casts_s(cells))


def _casts_s(cells: PlanCells) -> FloatArray:
    """Return the casts of what goes into the products of a layer in 8 bits, a forward pass.

    Inputs of queries, keys and values, of the output, and of both products of the network.
    """
    shape = cells.shape
    inner = shape.expert_weights / shape.hidden_size / 2
    passed = shape.mixture_share * shape.experts_per_token * inner
    rows = 2 * shape.hidden_size + shape.attention_width + passed
    cast = cells.numbers.cast * cells.tokens * rows / cells.plan.tensor
    return np.asarray(cast / cells.device.memory_bytes_per_s)


def _held_back(cells: PlanCells, constants: PlanConstants) -> FloatArray:
    return 1 + constants.power * cells.device.tflops_per_w


def _scores_s(cells: PlanCells, constants: PlanConstants) -> tuple[FloatArray, FloatArray]:
    """Return the forward and the backward pass of scores and what they weigh.

    On the chip the backward pass makes the scores again: five products instead of four.
    """
    shape, device = cells.shape, cells.device
    squares = cells.tokens * shape.sequence_length / cells.plan.tensor
    flops = 4 * squares * shape.attention_width
    written = constants.score_passes * cells.numbers.work * squares * shape.heads
    cycles = constants.score_cycles * squares * shape.heads / device.core_hz
    product_rate = constants.score_efficiency * device.peak_flops
    apart = flops / product_rate + written / device.memory_bytes_per_s
    # Kernels that groups of warps feed pass over the masked half of the square.
    by_groups = cells.fused_attention == Attention.BY_WARP_GROUPS
    rate = np.where(by_groups, device.output_flops, device.score_flops)
    held = _held_back(cells, constants)
    rate = np.minimum(
        constants.fused_score_efficiency * rate / held, device.reached_share * device.output_flops
    )
    fused = (flops / rate + cycles * held) * np.where(by_groups, 0.5, 1.0)
    on_chip = cells.fused_attention > 0
    return np.where(on_chip, fused, apart), np.where(on_chip, 2.5 * fused, 2 * apart)


def _loose_softmax_s(cells: PlanCells, constants: PlanConstants) -> FloatArray:
    """Return the time of the host for a softmax that is not one kernel, in a forward pass.

    Megatron's kernel for scores in memory takes maps of scores by fours.
    """
    maps = cells.plan.micro_batch * cells.shape.heads / cells.plan.tensor
    is_loose = (cells.fused_attention == 0) & (maps % 4 != 0)
    return np.where(is_loose, constants.loose_softmax_s, 0.0)


def _pointwise_s(cells: PlanCells, constants: PlanConstants) -> FloatArray:
    tensor = cells.plan.tensor
    split = np.where(cells.plan.sequence_parallel > 0, 1 / tensor, (1 + 1 / tensor) / 2)
    shape = cells.shape
    # A gate multiplies where a network has three matrices.
    inner = shape.experts_per_token * shape.expert_weights / shape.hidden_size / 2
    copies = np.where(shape.experts > 1, shape.experts_per_token * shape.hidden_size, 0.0)
    passed = constants.activation_passes * shape.hidden_size * split
    passed = passed + constants.inner_passes * inner / tensor
    passed = passed + constants.dispatch_passes * copies / cells.sequence_parts
    rows = cells.numbers.work * cells.tokens
    return np.asarray(passed * rows / cells.device.memory_bytes_per_s)

"""What the equations of plans leave open: efficiencies, passes through memory, launch times.

Four stacks of software have constants of their own. ``MEGATRON`` is the one that tensor and
pipeline splits were measured on: scores are written to memory, gradients are reduced after the
last backward pass. ``MEGATRON_CORE`` is what became of it on accelerators since 2022, with
NVIDIA's fused kernels and casts to 8 bits: language models split over up to thousands of them.
``TORCH`` is what sharded data parallelism was measured on: scores stay on the
chip, communication runs beside computation. ``XLA`` compiles a whole step for a TPU: no host
launches operators, and what lies between products is fused into them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np

from perfmodel.features.arrays import BoolArray
from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import read_constants


class Stack(StrEnum):
    """Software that carries out a plan."""

    MEGATRON = "megatron"
    MEGATRON_CORE = "megatron_core"
    TORCH = "torch"
    XLA = "xla"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanConstants:
    """Constants of one stack; the defaults are where a fit begins.

    They are counted where that is possible: outside of products a forward pass reads and writes
    the activations 18 times (two norms twice each, two dropouts with residual three times, an
    activation over four widths twice) and scores six times.

    Parameters
    ----------
    weight_efficiency, score_efficiency, fused_score_efficiency, head_efficiency : float
        Shares of the peak that large products reach, in (0, 1).
    product_latency_s : float
        Start and tail of one product.
    power : float
        How much longer products take for every TFLOP/s that a watt of the limit has to feed.
    score_cycles : float
        Cycles of a core for one score of one head that stays on the chip (exponentials, maxima,
        sums: work that matrix units do not do), forward.
    activation_passes, score_passes, head_passes : float
        How often a tensor goes through memory in one forward pass (of the words: in all).
    inner_passes, dispatch_passes : float
        The same, beyond that, of the inner width of the networks that a token passes, and of a
        token's copies for each of its experts, where there are several.
    layer_launch_s, reduce_launch_s, head_launch_s : float
        Time of the host for the kernels of a layer, of an all-reduce, of the output.
    expert_launch_s : float
        What it takes longer in a layer of experts, for each of those that a rank holds: it waits to
        be told how many tokens each gets, and calls the products of each.
    loose_softmax_s : float
        The same for a softmax that no single kernel takes, in a forward pass.
    reduce_factor : float
        Time of an all-reduce between tensor ranks over that of the model of collectives.
    reduce_overlap : float
        Part of it that hides behind the products around it, in [0, 1): both are cut to pieces, and
        a piece is sent while the next is multiplied.
    send_factor, send_latency_s : float
        The same for sends between stages, and what the host adds.
    shard_factor : float
        The same for gathering and scattering shards beside computation.
    overlap_efficiency : float
        Part of a collective that hides behind computation where it could hide wholly, in (0, 1).
    gradient_overlap : float
        Part of the last backward pass that reductions of gradients hide behind, in (0, 1).
    gradient_latency_s : float
        Start of the reduction of gradients.
    straggler : float
        Growth of computation with every doubling of the hosts: the slowest counts.
    expert_load : float
        Rows that the fullest expert has, or is padded to, over those of a mean one: the capacity
        factor that mixtures of experts are usually trained with (Lepikhin et al., GShard, 2020;
        Fedus et al., Switch Transformers, 2022).
    update_bytes : float
        Memory traffic of the optimizer for one parameter.
    overhead_s : float
        Once a step.
    """

    weight_efficiency: float = 0.8
    score_efficiency: float = 0.6
    fused_score_efficiency: float = 0.6
    head_efficiency: float = 0.6
    product_latency_s: float = 1e-5
    power: float = 0.2
    score_cycles: float = 0.15
    activation_passes: float = 18.0
    score_passes: float = 6.0
    head_passes: float = 10.0
    inner_passes: float = 0.0
    dispatch_passes: float = 0.0
    layer_launch_s: float = 2e-3
    expert_launch_s: float = 0.0
    reduce_launch_s: float = 5e-5
    head_launch_s: float = 2e-3
    loose_softmax_s: float = 2e-4
    reduce_factor: float = 1.0
    reduce_overlap: float = 0.0
    send_factor: float = 1.0
    send_latency_s: float = 5e-5
    shard_factor: float = 1.0
    overlap_efficiency: float = 0.8
    gradient_overlap: float = 0.5
    gradient_latency_s: float = 1e-3
    straggler: float = 0.005
    expert_load: float = 1.25
    update_bytes: float = 30.0
    overhead_s: float = 1e-3

    @classmethod
    def fitted(cls, stack: Stack = Stack.TORCH) -> PlanConstants:
        """Return the constants fitted on published steps."""
        return read_constants(cls, fitted("plans")[stack.value], least=0.0)


def chosen(where: BoolArray, first: PlanConstants, second: PlanConstants) -> PlanConstants:
    """Return columns of constants: of each row the first ones where it says so, else the second."""
    columns: dict[str, Any] = {
        one.name: np.where(where, getattr(first, one.name), getattr(second, one.name))
        for one in fields(PlanConstants)
    }
    return PlanConstants(**columns)

r"""Streams of a data-parallel step: the computation, and the communication that runs beside it.

One law for columns of steps and for one step on plain numbers (:class:`.PlainNumbers`). Replicas
that share nothing out reduce buckets of gradients during the backward pass. Stages after ZeRO, with
k micro-batches:

1. gradients are reduced and scattered beside the last backward pass, every rank updates its part
   of the parameters, and all gather the result: the optimizer takes 1/n of its time;
2. the same, but gradients are scattered in every micro-batch: each takes at least as long as its
   communication;
3. parameters are gathered for every unit of layers in every forward and again in every backward
   pass, one unit ahead of the computation. With computation u and collective c,

   .. math::

      g_u &= \max(g_{u-1}, s_{u-1}) + c_u \\
      s_u &= \max(s_{u-1} + t_{u-1}, g_u)

   where g is the end of a gathering and s the start of a unit's computation; the scattering of a
   unit's gradients goes in between on the same stream.

Left out: the last unit's parameters that some implementations keep for the backward pass.

Reference: Rajbhandari et al., ZeRO, 2020; Zhao et al., PyTorch FSDP, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

from perfmodel.features.arrays import Numbers, PlainNumbers
from perfmodel.placement.collectives.collectives import Collective, fastest_s, form_curves
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.data_parallel.gradient_buckets import (
    BUCKET_BYTES,
    SHORTEST_S,
    Buckets,
    GradientBuckets,
    link_slowdowns,
)
from perfmodel.placement.estimate import StepNumbers
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks, world_columns


class Streams(NamedTuple):
    """What the streams of a step add up to, seconds.

    Parameters
    ----------
    compute_s : number
        Busy time of the compute stream.
    exposed_s : number
        Time by which the step exceeds that.
    communication_s : number
        Busy time of the communication stream.
    """

    compute_s: Numbers
    exposed_s: Numbers
    communication_s: Numbers


def step_streams(
    job: Buckets,
    alone_s: Numbers,
    ranks: Numbers,
    reduced_s: Sequence[Numbers],
    gathered_s: Sequence[Numbers],
    *,
    zero_stage: int,
    accumulation_steps: int,
    of: Any,
) -> Streams:
    """Return the streams of a step.

    Parameters
    ----------
    alone_s : number
        Time of the step on one accelerator.
    reduced_s : sequence of number
        Time of an all-reduce of one bucket of each group; from stage 1 on of a reduce-scatter.
    gathered_s : sequence of number
        Of an all-gather of the parameters behind it; nothing at stage 0.
    accumulation_steps : int
        Micro-batches, >= 1.
    of : module or type
        ``numpy`` for columns, :class:`.PlainNumbers` for one.
    """
    all_s, end_s = _reductions_s(job, alone_s, reduced_s, of)
    if zero_stage == 0:
        late = end_s - alone_s * (1 - job.optimizer_share)
        return Streams(alone_s, of.maximum(late, 0.0), all_s)
    optimizer = alone_s * job.optimizer_share
    micro = (alone_s - optimizer) / accumulation_steps
    reduced, gathered = _all_s(job, reduced_s), _all_s(job, gathered_s)
    if zero_stage == 3:
        once = _fully_sharded_s(job, micro, reduced_s, gathered_s, of)
        communication = accumulation_steps * (2 * gathered + reduced)
        exposed = accumulation_steps * (once - micro)
    else:
        rounds = accumulation_steps if zero_stage == 2 else 1
        communication = rounds * reduced + gathered
        earlier = (rounds - 1) * of.maximum(reduced - micro, 0.0)
        # The gathered parameters are needed before the next step begins.
        late = of.maximum(end_s - (alone_s - optimizer), 0.0)
        exposed = late + earlier + gathered
    return Streams(
        compute_s=alone_s - optimizer + optimizer / ranks,
        exposed_s=of.maximum(exposed, 0.0),
        communication_s=communication,
    )


def _all_s(job: Buckets, each_s: Sequence[Numbers]) -> Numbers:
    """Return the time of a collective on all buckets."""
    return sum([each * count for each, (_, count) in zip(each_s, job.groups, strict=True)])


def _reductions_s(
    job: Buckets, alone_s: Numbers, each_s: Sequence[Numbers], of: Any
) -> tuple[Numbers, Numbers]:
    r"""Return how long all buckets take, and when the last is done beside the backward pass.

    .. math:: e_i = \max(e_{i-1} + m_i c_i, r_i + c_i)

    for groups of :math:`m_i` buckets: the last bucket of a group cannot start before it is ready.
    Worked out from the end: the last one follows without a pause on the group that holds all others
    up, or on the beginning.
    """
    before = 1 - job.optimizer_share
    left_s = end = 0.0
    for each, (ready, count) in zip(reversed(each_s), reversed(job.groups), strict=True):
        held_up = alone_s * of.minimum(ready, before) + (each + left_s) * (count > 0)
        end, left_s = of.maximum(end, held_up), left_s + count * each
    return left_s, of.maximum(end, left_s)


def _fully_sharded_s(
    job: Buckets,
    micro_s: Numbers,
    scattered_s: Sequence[Numbers],
    gathered_s: Sequence[Numbers],
    of: Any,
) -> Numbers:
    """Return the time of one micro-batch whose parameters are gathered unit by unit."""
    maximum, counts = of.maximum, [count for _, count in job.groups]
    gather = [each * count for each, count in zip(gathered_s, counts, strict=True)]
    scatter = [each * count for each, count in zip(scattered_s, counts, strict=True)]
    weights = _unit_shares(job, of)
    both = maximum(job.forward_share + job.backward_share, 1e-30)
    forward, backward = micro_s * job.forward_share / both, micro_s * job.backward_share / both
    stream = start = end = waiting = 0.0
    # Gradients become ready in the reverse order of the forward pass.
    for gathering, weight in zip(reversed(gather), reversed(weights), strict=True):
        stream = maximum(stream, start) + gathering
        start = maximum(end, stream)
        end = start + forward * weight
    for gathering, weight, scattering in zip(gather, weights, scatter, strict=True):
        stream = maximum(stream, start) + gathering
        start, before = maximum(end, stream), end
        # The gradients of the unit before follow the parameters of this one.
        stream = maximum(stream, before) + waiting
        end, waiting = start + backward * weight, scattering
    return maximum(end, maximum(stream, end) + waiting)


def _unit_shares(job: Buckets, of: Any) -> list[Numbers]:
    """Return the share of each unit in the passes: its work ends when its gradients are ready."""
    last, weights = 1 - job.optimizer_share - job.backward_share, []
    for ready, count in job.groups:
        weights.append((of.maximum(ready - last, 0.0) + 1e-12) * (count > 0))
        last = ready
    total = of.maximum(sum(weights), 1e-30)
    return [weight / total for weight in weights]


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketNumbers:
    """The gradients of one job, as :class:`.gradient_buckets.GradientBuckets` has those of many.

    Parameters
    ----------
    sizes_bytes, parameter_sizes_bytes : tuple of float
        Of one bucket of each group, and of the parameters behind it.
    """

    buckets: Buckets
    sizes_bytes: tuple[float, ...]
    parameter_sizes_bytes: tuple[float, ...]
    pieces: float
    gradient_bytes: float

    @classmethod
    def of(cls, buckets: GradientBuckets) -> Self:
        """Return the first job of some columns."""
        filled = buckets.count[0] > 0
        ready, count = buckets.ready[0][filled], buckets.count[0][filled]
        size, gradients = buckets.size_bytes[0][filled], float(buckets.gradient_bytes[0])
        share = float(buckets.parameter_bytes[0]) / max(gradients, 1.0)
        groups = tuple(zip(ready.tolist(), count.tolist(), strict=True))
        shares = buckets.forward_share, buckets.backward_share, buckets.optimizer_share
        return cls(
            buckets=Buckets(groups, *(float(share[0]) for share in shares)),
            sizes_bytes=tuple(size.tolist()),
            parameter_sizes_bytes=tuple((size * share).tolist()),
            pieces=float(buckets.pieces[0]),
            gradient_bytes=gradients,
        )


def one_step(
    job: BucketNumbers,
    group: WorldGroup,
    alone_s: Sequence[float],
    *,
    straggler: float,
    zero_stage: int = 0,
    accumulation_steps: int = 1,
) -> list[StepNumbers]:
    """Return the step of replicas for each of some times that the slowest of them takes alone.

    As :mod:`.data_parallel` answers columns of cells, on plain numbers; both agree to rounding,
    which a test holds them to.

    Parameters
    ----------
    straggler : float
        Relative spread of the times of equal replicas.
    zero_stage, accumulation_steps : int
        As for :meth:`.data_parallel.DataParallelCells.parts`.
    """
    if group.ranks <= 1 or job.gradient_bytes <= 0:
        return [StepNumbers(time_s) for time_s in alone_s]
    known = fitted_constants()
    reduction = Collective.REDUCE_SCATTER if zero_stage else Collective.ALL_REDUCE
    reduced_s, gathered_s = _each_s(reduction, job.sizes_bytes, group), []
    if zero_stage:
        gathered_s = _each_s(Collective.ALL_GATHER, job.parameter_sizes_bytes, group)
    # By how many spreads the slowest of so many ranks lies above their mean.
    spread = straggler * math.sqrt(2 * math.log(group.ranks))
    host_s = job.pieces * known.piece_s + job.gradient_bytes / known.pack_bytes_per_s
    found = []
    for time_s in alone_s:
        compute_s, exposed_s, communication_s = step_streams(
            job.buckets, time_s, group.ranks, reduced_s, gathered_s, zero_stage=zero_stage,
            accumulation_steps=accumulation_steps, of=PlainNumbers,
        )  # fmt: skip
        exposed = min(exposed_s, communication_s)
        exposed += known.contention * (communication_s - exposed)
        waiting_s = time_s * spread + host_s
        found.append(StepNumbers(compute_s, exposed, 0.0, waiting_s, communication_s))
    return found


@lru_cache(maxsize=16_384)
def within_share_of(group: WorldGroup) -> float:
    """Return :func:`.gradient_buckets.within_share` of one group, on plain numbers."""
    if group.hosts <= 1 or group.ranks <= 1:
        return 1.0
    usual = (BUCKET_BYTES,)
    inside, between, one_host = _of_links(group.links)
    (time_s,) = fastest_s(form_curves(Collective.ALL_REDUCE, group), usual)
    one_s = min(time_s, _on_one_host_s(Collective.ALL_REDUCE, one_host, usual)[0])
    return one_s * inside / max(time_s * between + one_s * (inside - 1), SHORTEST_S)


def _each_s(
    collective: Collective, sizes_bytes: tuple[float, ...], group: WorldGroup
) -> list[float]:
    """Return the time of a collective on each bucket, as :class:`.BucketTimes` does."""
    inside, between, one_host = _of_links(group.links)
    alone_s = times_s = _on_one_host_s(collective, one_host, sizes_bytes)
    if group.hosts > 1:
        times_s = fastest_s(form_curves(collective, group), sizes_bytes)
    else:
        between = 1.0
    launch_s = fitted_constants().bucket_s
    return [
        time_s * between + min(time_s, one_s) * (inside - 1) + launch_s
        for time_s, one_s in zip(times_s, alone_s, strict=True)
    ]


@lru_cache(maxsize=16_384)
def _on_one_host_s(
    collective: Collective, group: WorldGroup, sizes_bytes: tuple[float, ...]
) -> Sequence[float]:
    # Remembered, unlike those between hosts, of which there are as many as there are placements.
    return fastest_s(form_curves(collective, group), sizes_bytes)


@lru_cache(maxsize=4_096)
def _of_links(links: WorldLinks) -> tuple[float, float, WorldGroup]:
    """Return how many times slower each level is inside a step, and the fullest host."""
    two = WorldGroup(2.0, 2.0, links)
    inside, between = link_slowdowns(fitted_constants(), world_columns([two]))
    return float(inside[0]), float(between[0]), two.fullest_host

r"""One data-parallel step at a time, on plain numbers.

The equations of :mod:`.data_parallel`, which answers columns of cells, for a single cell: arrays of
one element would take twenty times as long. Both agree to rounding, which a test holds them to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

from perfmodel.placement.collectives.collectives import Collective, fastest_s, form_curves
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets, link_slowdowns
from perfmodel.placement.estimate import StepNumbers
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks, world_columns


class StreamNumbers(NamedTuple):
    """Streams of one step, as :class:`.gradient_buckets.Streams` has those of many, seconds."""

    compute_s: float
    exposed_s: float
    communication_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketNumbers:
    """The gradients of one job, as :class:`.gradient_buckets.GradientBuckets` has those of many.

    Parameters
    ----------
    groups : tuple of (float, float)
        When the last bucket of a group is ready, as a share of the step, and how many it has.
    sizes_bytes, parameter_sizes_bytes : tuple of float
        Of one bucket of each group, and of the parameters behind it.
    """

    groups: tuple[tuple[float, float], ...]
    sizes_bytes: tuple[float, ...]
    parameter_sizes_bytes: tuple[float, ...]
    pieces: float
    gradient_bytes: float
    forward_share: float
    backward_share: float
    optimizer_share: float

    @classmethod
    def of(cls, buckets: GradientBuckets) -> Self:
        """Return the first job of some columns."""
        filled = buckets.count[0] > 0
        ready, count = buckets.ready[0][filled], buckets.count[0][filled]
        size, gradients = buckets.size_bytes[0][filled], float(buckets.gradient_bytes[0])
        share = float(buckets.parameter_bytes[0]) / max(gradients, 1.0)
        return cls(
            groups=tuple(zip(ready.tolist(), count.tolist(), strict=True)),
            sizes_bytes=tuple(size.tolist()),
            parameter_sizes_bytes=tuple((size * share).tolist()),
            pieces=float(buckets.pieces[0]),
            gradient_bytes=gradients,
            forward_share=float(buckets.forward_share[0]),
            backward_share=float(buckets.backward_share[0]),
            optimizer_share=float(buckets.optimizer_share[0]),
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

    Parameters
    ----------
    straggler : float
        Relative spread of the times of equal replicas.
    zero_stage, accumulation_steps : int
        As for :func:`.data_parallel.data_parallel_parts`.
    """
    if group.ranks <= 1 or job.gradient_bytes <= 0:
        return [StepNumbers(time_s) for time_s in alone_s]
    known = fitted_constants()
    if zero_stage:
        scatter_s = _each_s(Collective.REDUCE_SCATTER, job.sizes_bytes, group)
        gather_s = _each_s(Collective.ALL_GATHER, job.parameter_sizes_bytes, group)
        streams = [
            sharded_step(
                job, time_s, group.ranks, scatter_s=scatter_s, gather_s=gather_s,
                zero_stage=zero_stage, accumulation_steps=accumulation_steps,
            )
            for time_s in alone_s
        ]  # fmt: skip
    else:
        each_s = _each_s(Collective.ALL_REDUCE, job.sizes_bytes, group)
        all_s, ends_s = reductions_s(job, each_s, alone_s)
        before = 1 - job.optimizer_share
        streams = [
            StreamNumbers(time_s, max(end_s - time_s * before, 0.0), all_s)
            for time_s, end_s in zip(alone_s, ends_s, strict=True)
        ]
    # By how many spreads the slowest of so many ranks lies above their mean.
    spread = straggler * math.sqrt(2 * math.log(group.ranks))
    host_s = job.pieces * known.piece_s + job.gradient_bytes / known.pack_bytes_per_s
    found = []
    for time_s, (compute_s, exposed_s, communication_s) in zip(alone_s, streams, strict=True):
        exposed = min(exposed_s, communication_s)
        exposed += known.contention * (communication_s - exposed)
        waiting_s = time_s * spread + host_s
        found.append(StepNumbers(compute_s, exposed, 0.0, waiting_s, communication_s))
    return found


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


def reductions_s(
    job: BucketNumbers, each_s: Sequence[float], alone_s: Sequence[float]
) -> tuple[float, list[float]]:
    """Return how long all reductions take, and when the last one ends in each of some steps.

    It follows without a pause on the group that holds all others up, or on the beginning;
    :func:`.gradient_buckets.reductions_end_s` has the equation.

    Parameters
    ----------
    each_s : sequence of float
        On one bucket of each group.
    alone_s : sequence of float
        Time of each step on one accelerator.
    """
    left_s, last = 0.0, 1 - job.optimizer_share
    tails = []
    for each, (ready, count) in zip(reversed(each_s), reversed(job.groups), strict=True):
        tails.append((min(ready, last), each + left_s))
        left_s += count * each
    ends_s = [max([left_s, *[time_s * at + rest for at, rest in tails]]) for time_s in alone_s]
    return left_s, ends_s


def sharded_step(
    job: BucketNumbers,
    alone_s: float,
    ranks: float,
    *,
    scatter_s: Sequence[float],
    gather_s: Sequence[float],
    zero_stage: int,
    accumulation_steps: int,
) -> StreamNumbers:
    """Return the streams of a sharded step.

    Parameters
    ----------
    alone_s : float
        Time of the step on one accelerator.
    scatter_s, gather_s : sequence of float
        Time of a reduce-scatter and of an all-gather of one bucket of each group.
    zero_stage : int
        1, 2 or 3.
    accumulation_steps : int
        Micro-batches, >= 1.
    """
    optimizer = alone_s * job.optimizer_share
    micro = (alone_s - optimizer) / accumulation_steps
    scattered, gathered = (
        sum([each * count for each, (_, count) in zip(each_s, job.groups, strict=True)])
        for each_s in (scatter_s, gather_s)
    )
    if zero_stage == 3:
        once = _fully_sharded_s(job, micro, scatter_s, gather_s)
        communication = accumulation_steps * (2 * gathered + scattered)
        exposed = accumulation_steps * (once - micro)
    else:
        rounds = accumulation_steps if zero_stage == 2 else 1
        communication = rounds * scattered + gathered
        _, (end_s,) = reductions_s(job, scatter_s, [alone_s])
        late = end_s - (alone_s - optimizer)
        earlier = (rounds - 1) * max(scattered - micro, 0.0)
        # The gathered parameters are needed before the next step begins.
        exposed = max(late, 0.0) + earlier + gathered
    return StreamNumbers(
        compute_s=alone_s - optimizer + optimizer / ranks,
        exposed_s=max(exposed, 0.0),
        communication_s=communication,
    )


def _fully_sharded_s(
    job: BucketNumbers, micro: float, scatter_s: Sequence[float], gather_s: Sequence[float]
) -> float:
    """Return the time of one micro-batch whose parameters are gathered unit by unit."""
    forward, backward = _unit_seconds(job, micro)
    gather = [each * count for each, (_, count) in zip(gather_s, job.groups, strict=True)]
    scatter = [each * count for each, (_, count) in zip(scatter_s, job.groups, strict=True)]
    stream = start = end = waiting = 0.0
    # Gradients become ready in the reverse order of the forward pass.
    for gathering, computing in zip(reversed(gather), reversed(forward), strict=True):
        stream = max(stream, start) + gathering
        start = max(end, stream)
        end = start + computing
    for gathering, computing, scattering in zip(gather, backward, scatter, strict=True):
        stream = max(stream, start) + gathering
        start, before = max(end, stream), end
        # The gradients of the unit before follow the parameters of this one.
        stream = max(stream, before) + waiting
        end, waiting = start + computing, scattering
    return max(end, max(stream, end) + waiting)


def _unit_seconds(job: BucketNumbers, micro: float) -> tuple[list[float], list[float]]:
    """Return forward and backward time of each unit, cut where its gradients are ready."""
    both = max(job.forward_share + job.backward_share, 1e-30)
    last, weights = 1 - job.optimizer_share - job.backward_share, []
    for ready, _ in job.groups:
        weights.append(max(ready - last, 0.0) + 1e-12)
        last = ready
    total = max(sum(weights), 1e-30)
    forward, backward = micro * job.forward_share / both, micro * job.backward_share / both
    return [forward * (w / total) for w in weights], [backward * (w / total) for w in weights]

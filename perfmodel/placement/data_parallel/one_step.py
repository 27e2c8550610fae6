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

from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import fastest_s, form_curves
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets
from perfmodel.placement.estimate import StepNumbers
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks


class StreamNumbers(NamedTuple):
    """Streams of one step, as :class:`.gradient_buckets.Streams` has those of many, seconds."""

    compute_s: float
    exposed_s: float
    communication_s: float


class Reductions(NamedTuple):
    """The gradients of one job on their way over one group of ranks.

    Parameters
    ----------
    communication_s : float
        All buckets, one after the other.
    tails : list of (float, float)
        When the last bucket of each group is ready, as a share of the step, and how long it and
        all that follow take from then on, seconds.
    """

    communication_s: float
    tails: list[tuple[float, float]]

    def end_s(self, alone_s: float) -> float:
        """Return when the last bucket has been worked on.

        It follows without a pause on the group that holds all others up, or on the beginning.

        Parameters
        ----------
        alone_s : float
            Time of the step on one accelerator.
        """
        return max([self.communication_s, *[alone_s * ready + rest for ready, rest in self.tails]])


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

    def all_buckets_s(self, each_s: Sequence[float]) -> float:
        """Return the time of a collective on every bucket, one after the other.

        Parameters
        ----------
        each_s : sequence of float
            On one bucket of each group.
        """
        return sum([each * count for each, (_, count) in zip(each_s, self.groups, strict=True)])

    def reductions(self, each_s: Sequence[float]) -> Reductions:
        """Return the stream of reductions; :func:`.gradient_buckets.reductions_end_s` has the sum.

        Parameters
        ----------
        each_s : sequence of float
            On one bucket of each group.
        """
        left_s, tails = 0.0, []
        last = 1 - self.optimizer_share
        for each, (ready, count) in zip(reversed(each_s), reversed(self.groups), strict=True):
            tails.append((min(ready, last), each + left_s))
            left_s += count * each
        return Reductions(left_s, tails)


class GroupCosts(NamedTuple):
    """One group of replicas.

    Parameters
    ----------
    excess : float
        By how many spreads the slowest of so many ranks lies above their mean.
    inside, between : float
        How many times slower collectives are inside a step, on the two levels.
    """

    group: WorldGroup
    excess: float
    inside: float
    between: float
    one_host: WorldGroup

    @classmethod
    def of(cls, group: WorldGroup) -> GroupCosts:
        """Return what sharing gradients costs all ranks of a placement."""
        inside, between, one_host = _of_links(group.links)
        excess = math.sqrt(2 * math.log(max(group.ranks, 1.0)))
        return cls(group, excess, inside, between if group.hosts > 1 else 1.0, one_host)

    def times_s(
        self, collective: Collective, sizes_bytes: tuple[float, ...]
    ) -> tuple[Sequence[float], Sequence[float]]:
        """Return a collective by itself, on all ranks and on those of the fullest host alone."""
        one_host = _on_one_host_s(collective, self.one_host, sizes_bytes)
        if self.group.hosts == 1:
            return one_host, one_host
        return fastest_s(form_curves(collective, self.group), sizes_bytes), one_host


@lru_cache(maxsize=16_384)
def _on_one_host_s(
    collective: Collective, group: WorldGroup, sizes_bytes: tuple[float, ...]
) -> tuple[float, ...]:
    # Remembered, unlike those between hosts, of which there are as many as there are placements.
    return tuple(fastest_s(form_curves(collective, group), sizes_bytes))


@lru_cache(maxsize=4_096)
def _of_links(links: WorldLinks) -> tuple[float, float, WorldGroup]:
    """Return how many times slower each level is inside a step, and the fullest host."""
    known, two = fitted_constants(), WorldGroup(2.0, 2.0, links)
    columns = two.columns()
    inside, between = known.slowdown_inside(columns), known.slowdown_between(columns)
    return float(inside[0]), float(between[0]), two.fullest_host


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
    scattered, gathered = job.all_buckets_s(scatter_s), job.all_buckets_s(gather_s)
    if zero_stage == 3:
        once = _fully_sharded_s(job, micro, scatter_s, gather_s)
        communication = accumulation_steps * (2 * gathered + scattered)
        exposed = accumulation_steps * (once - micro)
    else:
        rounds = accumulation_steps if zero_stage == 2 else 1
        communication = rounds * scattered + gathered
        late = job.reductions(scatter_s).end_s(alone_s) - (alone_s - optimizer)
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


class OneReplicaGroup:
    """A job on one group of replicas; asked for the step of several times of one accelerator.

    Parameters
    ----------
    straggler : float
        Relative spread of the times of equal replicas.
    zero_stage, accumulation_steps : int
        As for :func:`.data_parallel.data_parallel_parts`.
    """

    def __init__(
        self,
        job: BucketNumbers,
        costs: GroupCosts,
        straggler: float,
        *,
        zero_stage: int = 0,
        accumulation_steps: int = 1,
    ) -> None:
        known = fitted_constants()
        self._job, self._costs = job, costs
        self._stage, self._accumulation = zero_stage, accumulation_steps
        self._contention = known.contention
        self._shares = costs.group.ranks > 1 and job.gradient_bytes > 0
        if not self._shares:
            return
        self._waiting = straggler * costs.excess
        self._host_s = job.pieces * known.piece_s + job.gradient_bytes / known.pack_bytes_per_s
        if zero_stage:
            self._scatter_s = self._each_s(Collective.REDUCE_SCATTER, known.bucket_s)
            self._gather_s = self._each_s(Collective.ALL_GATHER, known.bucket_s)
        else:
            self._reductions = job.reductions(self._each_s(Collective.ALL_REDUCE, known.bucket_s))

    def step(self, alone_s: float) -> StepNumbers:
        """Return the step of replicas that take so long alone.

        Parameters
        ----------
        alone_s : float
            Of the slowest of them.
        """
        if not self._shares:
            return StepNumbers(alone_s)
        streams = self._streams(alone_s)
        communication = streams.communication_s
        exposed = min(streams.exposed_s, communication)
        exposed += self._contention * (communication - exposed)
        waiting = alone_s * self._waiting + self._host_s
        return StepNumbers(streams.compute_s, exposed, 0.0, waiting, communication)

    def _streams(self, alone_s: float) -> StreamNumbers:
        job = self._job
        if self._stage:
            return sharded_step(
                job,
                alone_s,
                self._costs.group.ranks,
                scatter_s=self._scatter_s,
                gather_s=self._gather_s,
                zero_stage=self._stage,
                accumulation_steps=self._accumulation,
            )
        late = self._reductions.end_s(alone_s) - alone_s * (1 - job.optimizer_share)
        return StreamNumbers(alone_s, max(late, 0.0), self._reductions.communication_s)

    def _each_s(self, collective: Collective, launch_s: float) -> list[float]:
        """Return the time of a collective on each bucket, as :class:`.BucketTimes` does."""
        job, costs = self._job, self._costs
        gathers = collective is Collective.ALL_GATHER
        sizes_bytes = job.parameter_sizes_bytes if gathers else job.sizes_bytes
        inside, between = costs.inside - 1, costs.between
        return [
            time_s * between + min(time_s, alone_s) * inside + launch_s
            for time_s, alone_s in zip(*costs.times_s(collective, sizes_bytes), strict=True)
        ]

r"""One data-parallel step at a time, on plain numbers.

As :mod:`.data_parallel` answers columns of cells. Both agree to rounding, which a test holds them
to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from perfmodel.placement.collectives.collectives import Collective, fastest_s, form_curves
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets, link_slowdowns
from perfmodel.placement.data_parallel.streams import Buckets, step_streams
from perfmodel.placement.estimate import StepNumbers
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks, world_columns
from perfmodel.placement.plain_numbers import PlainNumbers


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

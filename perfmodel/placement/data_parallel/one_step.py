r"""One data-parallel step at a time, on plain numbers.

The equations of :mod:`.data_parallel`, which answers columns of cells, for a single cell: arrays of
one element would take twenty times as long. Both agree to rounding, which a test holds them to;
sharded steps are left to the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.form_curves import fastest_s
from perfmodel.placement.data_parallel.data_parallel_constants import (
    DataParallelConstants,
    fitted_constants,
)
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets
from perfmodel.placement.data_parallel.group_costs import GroupCosts


class StepNumbers(NamedTuple):
    """Parts of one step in seconds, as :class:`.step_parts.StepParts` has them in columns."""

    compute_s: float
    exposed_communication_s: float = 0.0
    input_stall_s: float = 0.0
    overhead_s: float = 0.0
    communication_s: float = 0.0

    @property
    def step_time_s(self) -> float:
        """Time of the whole step: the parts that do not overlap."""
        exposed = self.compute_s + self.exposed_communication_s
        return exposed + self.input_stall_s + self.overhead_s


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketNumbers:
    """The gradients of one job, as :class:`.gradient_buckets.GradientBuckets` has those of many.

    Parameters
    ----------
    groups : tuple of (float, float)
        When the last bucket of a group is ready, as a share of the step, and how many it has.
    sizes_bytes : tuple of float
        Of one bucket of each group.
    pieces, gradient_bytes, optimizer_share : float
    """

    groups: tuple[tuple[float, float], ...]
    sizes_bytes: tuple[float, ...]
    pieces: float
    gradient_bytes: float
    optimizer_share: float

    @classmethod
    def of(cls, buckets: GradientBuckets) -> Self:
        """Return the first job of some columns."""
        filled = buckets.count[0] > 0
        ready, count = buckets.ready[0][filled], buckets.count[0][filled]
        return cls(
            groups=tuple(zip(ready.tolist(), count.tolist(), strict=True)),
            sizes_bytes=tuple(buckets.size_bytes[0][filled].tolist()),
            pieces=float(buckets.pieces[0]),
            gradient_bytes=float(buckets.gradient_bytes[0]),
            optimizer_share=float(buckets.optimizer_share[0]),
        )


class OneReplicaGroup:
    """A job on one group of replicas; asked for the step of several times of one accelerator.

    Parameters
    ----------
    job : BucketNumbers
    costs : GroupCosts
    straggler : float
        Relative spread of the times of equal replicas.
    constants : DataParallelConstants or None
        The fitted ones by default.
    """

    __slots__ = ("_communication_s", "_contention", "_costs", "_each_s", "_host_s", "_job",
                 "_shares", "_straggler")  # fmt: skip

    def __init__(
        self,
        job: BucketNumbers,
        costs: GroupCosts,
        straggler: float,
        constants: DataParallelConstants | None = None,
    ) -> None:
        known = constants or fitted_constants()
        self._job, self._costs, self._straggler = job, costs, straggler
        self._contention = known.contention
        self._shares = costs.ranks > 1 and job.gradient_bytes > 0
        if not self._shares:
            return
        self._each_s = all_reduce_s(costs, job.sizes_bytes, known.bucket_s)
        self._communication_s = sum(
            each * count for each, (_, count) in zip(self._each_s, job.groups, strict=True)
        )
        self._host_s = job.pieces * known.piece_s + job.gradient_bytes / known.pack_bytes_per_s

    def step(self, alone_s: float) -> StepNumbers:
        """Return the step of replicas that take so long alone.

        Parameters
        ----------
        alone_s : float
            Of the slowest of them.
        """
        if not self._shares:
            return StepNumbers(alone_s)
        backward_end = alone_s * (1 - self._job.optimizer_share)
        end = 0.0
        for each, (ready, count) in zip(self._each_s, self._job.groups, strict=True):
            end = max(end + count * each, min(alone_s * ready, backward_end) + each)
        communication = self._communication_s
        exposed = min(max(end - backward_end, 0.0), communication)
        exposed += self._contention * (communication - exposed)
        waiting = alone_s * self._straggler * self._costs.excess
        return StepNumbers(alone_s, exposed, 0.0, waiting + self._host_s, communication)


def all_reduce_s(costs: GroupCosts, sizes_bytes: tuple[float, ...], launch_s: float) -> list[float]:
    """Return the time to reduce each bucket inside a step, as :class:`.bucket_times.BucketTimes`.

    Parameters
    ----------
    costs : GroupCosts
    sizes_bytes : tuple of float
    launch_s : float
        To start one from the host.
    """
    whole, within = costs.curves(Collective.ALL_REDUCE)
    inside, between = costs.inside - 1, costs.between
    all_ranks = fastest_s(whole, sizes_bytes)
    if within is None:
        return [time_s * between + time_s * inside + launch_s for time_s in all_ranks]
    one_host = fastest_s(within, sizes_bytes)
    return [
        time_s * between + min(time_s, alone_s) * inside + launch_s
        for time_s, alone_s in zip(all_ranks, one_host, strict=True)
    ]

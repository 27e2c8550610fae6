r"""The step of a data-parallel job: replicas that compute alone and share their gradients.

A small event simulation over the streams of one replica (:mod:`.streams`). While the backward pass
of T seconds' computation runs, buckets of gradients become ready at :math:`r_i`; the communication
stream works on them in order,

.. math:: e_i = \max(e_{i-1}, r_i) + c_i,

and the optimizer starts when both streams are done, so that :math:`e_n - r_{backward}` is exposed.
What is hidden slows the computation it runs beside (both move memory): a fitted part of it counts
as exposed too. Equal accelerators never need quite equal times, and every step waits for the
slowest of n, whose excess over the mean grows as :math:`\sqrt{2 \ln n}`. The host starts each
collective, and gradients are copied into buckets and out.

Sharded forms share the optimizer and gather parameters. Where groups share out inside of themselves
and hold the same shards as others (hybrid sharding), each bucket is scattered in a group and its
shards are reduced over the groups, on a stream of their own: the longer of both counts. Replicas of
inference do not communicate, but for parameters that they share (:mod:`.gathered_pass`).

Reference: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training,
2020; Rajbhandari et al., ZeRO, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.data_parallel.data_parallel_constants import (
    DataParallelConstants,
    fitted_constants,
)
from perfmodel.placement.data_parallel.gradient_buckets import (
    BucketTimes,
    GradientBuckets,
    gradient_buckets,
    link_slowdowns,
)
from perfmodel.placement.data_parallel.step_profile import StepProfile
from perfmodel.placement.data_parallel.streams import Streams, step_streams
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fabric.groups import CommGroups


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharding:
    """How replicas share, where that is not the usual way.

    Parameters
    ----------
    across : CommGroups or None
        Ranks that hold the same shard, where the groups of a step share out in several of them
        (hybrid sharding): what was scattered is reduced over them.
    reduced : float
        How many times the bytes of the gradients are reduced, > 0.
    """

    across: CommGroups | None = None
    reduced: float = 1.0


class DataParallelCells:
    """Data-parallel steps, to be asked under many constants; their collectives are worked out once.

    Parameters
    ----------
    profiles : GradientBuckets, StepProfile or sequence of StepProfile
        Of the whole step, all its micro-batches. One job for all cells, or as many as
        ``compute_s`` is long along its first axis. Jobs that are asked about often are cut into
        buckets once, by :func:`.gradient_buckets.gradient_buckets`.
    compute_s : array_like, shape (...) or (jobs, ...)
        Time of the step on one accelerator alone: that of the slowest of the group.
    groups : CommGroups
        Replicas that share gradients; broadcasts against ``compute_s``.
    sharing : Sharding or None
        How shards are held and reduced, where that is not the usual way.

    Examples
    --------
    >>> from perfmodel.placement.topology.links import LinkClass
    >>> job = StepProfile(
    ...     parameter_bytes=1e8, gradient_bytes=1e8, input_bytes=2e7,
    ...     forward_share=0.33, backward_share=0.62, optimizer_share=0.05,
    ...     gradient_ready=np.linspace(0.35, 0.95, 100),
    ...     gradient_piece_bytes=np.full(100, 1e6), node_count=500.0,
    ... )
    >>> groups = CommGroups.one_host([1, 8], LinkClass.NVSWITCH, 3e11)
    >>> step_s = DataParallelCells(job, 0.1, groups).parts().step_time_s
    >>> float(step_s[0]), bool(step_s[1] > 0.1)
    (0.1, True)
    """

    def __init__(
        self,
        profiles: GradientBuckets | StepProfile | Sequence[StepProfile],
        compute_s: npt.ArrayLike,
        groups: CommGroups,
        sharing: Sharding | None = None,
    ) -> None:
        sharing = sharing or Sharding()
        buckets = profiles if isinstance(profiles, GradientBuckets) else gradient_buckets(profiles)
        compute = np.asarray(compute_s, dtype=np.float64)
        shape = np.broadcast_shapes(compute.shape, groups.ranks.shape)
        self._alone = np.broadcast_to(compute, shape or (1,))
        self._rows = buckets.spread(self._alone.ndim)
        self._groups = groups
        self._buckets = self._rows.buckets
        self._times = BucketTimes(self._rows, groups, reduced=sharing.reduced)
        self._across = sharing.across
        ranks = groups.ranks
        if sharing.across is not None:
            share = sharing.reduced / groups.ranks[..., None]
            self._shard_times = BucketTimes(self._rows, sharing.across, reduced=share)
            ranks = ranks * sharing.across.ranks
        self._several = (groups.ranks > 1) & (self._rows.gradient_bytes > 0)
        # The most of n equal normal deviates lies so many of their spreads above their mean.
        self._excess = np.sqrt(2 * np.log(np.maximum(ranks, 1.0)))

    def parts(
        self,
        *,
        zero_stage: int = 0,
        accumulation_steps: int = 1,
        straggler: npt.ArrayLike | None = None,
        link_slowdown: npt.ArrayLike = 1.0,
        constants: DataParallelConstants | None = None,
    ) -> StepParts:
        """Return the parts of the steps.

        Parameters
        ----------
        zero_stage : int
            0 plain, 1 to 3 sharded.
        accumulation_steps : int
            Micro-batches of the step, >= 1. Sharded gradients and parameters communicate in each.
        straggler : array_like or None
            Relative spread of the ranks' times, which broadcasts against the cells; None for that
            of the constants. :meth:`DataParallelConstants.straggler_of` knows it for some models.
        link_slowdown : array_like
            How many times slower the links of each cell are than those of their class, where that
            is known of a machine.
        constants : DataParallelConstants or None
            The fitted ones by default.

        Returns
        -------
        StepParts
            ``step_time_s`` is exactly ``compute_s`` where the group has one rank or the job no
            gradients.
        """
        known = constants or fitted_constants()
        machine = np.asarray(link_slowdown)
        inside, between = link_slowdowns(known, self._groups)
        slower = (inside * machine, between * machine)
        streams = self._streams(zero_stage, accumulation_steps, slower, known.bucket_s)
        several, alone, rows = self._several, self._alone, self._rows
        communication = np.where(several, streams.communication_s, np.zeros(alone.shape))
        exposed = np.minimum(np.where(several, streams.exposed_s, 0.0), communication)
        exposed = exposed + known.contention * (communication - exposed)
        spread = known.straggler if straggler is None else np.asarray(straggler)
        host = rows.pieces * known.piece_s + rows.gradient_bytes / known.pack_bytes_per_s
        return StepParts.of(
            np.where(several, streams.compute_s, alone),
            exposed_communication_s=exposed,
            overhead_s=np.where(several, alone * spread * self._excess + host, 0.0),
            communication_s=communication,
        )

    def _streams(
        self,
        stage: int,
        accumulation: int,
        slower: tuple[FloatArray, FloatArray],
        launch_s: float,
    ) -> Streams:
        def each_s(collective: Collective, times: BucketTimes = self._times) -> FloatArray:
            return times.each_s(collective, *slower) + launch_s

        reduced = each_s(Collective.REDUCE_SCATTER if stage else Collective.ALL_REDUCE)
        if stage and self._across is not None:
            # Shards are reduced over groups while the next bucket is scattered.
            reduced = np.maximum(reduced, each_s(Collective.ALL_REDUCE, self._shard_times))
        gathered = np.moveaxis(each_s(Collective.ALL_GATHER), -1, 0) if stage else ()
        return step_streams(
            self._buckets, self._alone, self._groups.ranks, list(np.moveaxis(reduced, -1, 0)),
            list(gathered), zero_stage=stage, accumulation_steps=accumulation, of=np,
        )  # fmt: skip

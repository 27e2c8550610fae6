r"""One data-parallel step at a time, on plain numbers.

The equations of :mod:`.data_parallel`, which answers columns of cells, for a single cell: arrays of
one element would take twenty times as long. Both agree to rounding, which a test holds them to.
"""

from __future__ import annotations

from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.data_parallel.bucket_numbers import BucketNumbers, StreamNumbers
from perfmodel.placement.data_parallel.data_parallel_constants import (
    DataParallelConstants,
    fitted_constants,
)
from perfmodel.placement.data_parallel.group_costs import GroupCosts
from perfmodel.placement.data_parallel.one_sharded_step import sharded_step
from perfmodel.placement.step_parts import StepNumbers


class OneReplicaGroup:
    """A job on one group of replicas; asked for the step of several times of one accelerator.

    Parameters
    ----------
    straggler : float
        Relative spread of the times of equal replicas.
    zero_stage, accumulation_steps : int
        As for :func:`.data_parallel.data_parallel_parts`.
    constants : DataParallelConstants or None
        The fitted ones by default.
    """

    def __init__(
        self,
        job: BucketNumbers,
        costs: GroupCosts,
        straggler: float,
        *,
        zero_stage: int = 0,
        accumulation_steps: int = 1,
        constants: DataParallelConstants | None = None,
    ) -> None:
        known = constants or fitted_constants()
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
        late = self._reductions.end_s(alone_s) - alone_s * job.backward_end
        return StreamNumbers(alone_s, max(late, 0.0), self._reductions.communication_s)

    def _each_s(self, collective: Collective, launch_s: float) -> list[float]:
        """Return the time of a collective on each bucket inside a step; :mod:`.bucket_times`."""
        job, costs = self._job, self._costs
        gathers = collective is Collective.ALL_GATHER
        sizes_bytes = job.parameter_sizes_bytes if gathers else job.sizes_bytes
        inside, between = costs.inside - 1, costs.between
        return [
            time_s * between + min(time_s, alone_s) * inside + launch_s
            for time_s, alone_s in zip(*costs.times_s(collective, sizes_bytes), strict=True)
        ]

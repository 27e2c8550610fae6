r"""The step of a data-parallel job: replicas that compute alone and share their gradients.

A small event simulation over the streams of one replica. While the backward pass of T seconds'
computation runs, buckets of gradients become ready at :math:`r_i`; the communication stream works
on them in order,

.. math:: e_i = \max(e_{i-1}, r_i) + c_i,

and the optimizer starts when both streams are done, so that :math:`e_n - r_{backward}` is exposed.
What is hidden slows the computation it runs beside (both move memory): a fitted part of it counts
as exposed too. Equal accelerators never need quite equal times, and every step waits for the
slowest of n, whose excess over the mean grows as :math:`\sqrt{2 \ln n}`. The host starts each
collective, and gradients are copied into buckets and out.

Sharded forms (:mod:`perfmodel.placement.sharded_step`) share the optimizer and gather parameters.
Replicas of inference do not communicate.

Reference: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training,
2020; Rajbhandari et al., ZeRO, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.bucket_times import BucketTimes
from perfmodel.placement.data_parallel_constants import DataParallelConstants, fitted_constants
from perfmodel.placement.gradient_buckets import GradientBuckets, gradient_buckets
from perfmodel.placement.groups import CommGroups
from perfmodel.placement.replica_streams import Streams, reductions_end_s
from perfmodel.placement.sharded_step import sharded_streams
from perfmodel.placement.step_parts import StepParts
from perfmodel.placement.step_profile import StepProfile

FloatArray = npt.NDArray[np.float64]


def data_parallel_parts(
    profiles: GradientBuckets | StepProfile | Sequence[StepProfile],
    compute_s: npt.ArrayLike,
    groups: CommGroups,
    *,
    zero_stage: int = 0,
    accumulation_steps: int = 1,
    constants: DataParallelConstants | None = None,
) -> StepParts:
    """Return the parts of data-parallel steps.

    Parameters
    ----------
    profiles : GradientBuckets, StepProfile or sequence of StepProfile
        Of the whole step, all its micro-batches. One job for all cells, or as many as
        ``compute_s`` is long along its first axis. Jobs that are asked about often are cut into
        buckets once, by :func:`~perfmodel.placement.gradient_buckets.gradient_buckets`.
    compute_s : array_like, shape (...) or (jobs, ...)
        Time of the step on one accelerator alone: that of the slowest of the group.
    groups : CommGroups
        Replicas that share gradients; broadcasts against ``compute_s``.
    zero_stage : int
        0 plain, 1 to 3 sharded.
    accumulation_steps : int
        Micro-batches of the step, >= 1. Sharded gradients and parameters communicate in each.
    constants : DataParallelConstants or None
        The fitted ones by default.

    Returns
    -------
    StepParts
        ``step_time_s`` is exactly ``compute_s`` where the group has one rank or the job no
        gradients.

    Raises
    ------
    InvalidPlacementError
        Another stage, or less than one micro-batch.

    Examples
    --------
    >>> from perfmodel.placement.groups import LinkClass
    >>> job = StepProfile(
    ...     samples=32, parameter_count=25e6, parameter_bytes=1e8, gradient_bytes=1e8,
    ...     optimizer_state_bytes=1e8, input_bytes=2e7, forward_share=0.33, backward_share=0.62,
    ...     optimizer_share=0.05, gradient_ready=np.linspace(0.35, 0.95, 100),
    ...     gradient_piece_bytes=np.full(100, 1e6), node_count=500.0,
    ... )
    >>> groups = CommGroups.one_host([1, 8], LinkClass.NVSWITCH, 3e11)
    >>> parts = data_parallel_parts(job, 0.1, groups)
    >>> float(parts.step_time_s[0]), bool(parts.step_time_s[1] > 0.1)
    (0.1, True)
    """
    _check(zero_stage, accumulation_steps)
    known = constants or fitted_constants()
    buckets = profiles if isinstance(profiles, GradientBuckets) else gradient_buckets(profiles)
    alone = _cells(np.asarray(compute_s, dtype=np.float64), groups)
    rows = buckets.spread(alone.ndim)
    times = BucketTimes(buckets=rows, groups=groups, constants=known)
    streams = (
        _replicated(rows, alone, times)
        if zero_stage == 0
        else sharded_streams(rows, alone, times, zero_stage, accumulation_steps)
    )
    return _parts(rows, alone, groups, streams, known)


def _check(zero_stage: int, accumulation_steps: int) -> None:
    if zero_stage not in range(4):
        raise InvalidPlacementError(
            f"zero_stage must be 0, 1, 2 or 3; got {zero_stage}.",
            pointer="/placement/plan/zero_stage",
            allowed=("0", "1", "2", "3"),
        )
    if accumulation_steps < 1:
        raise InvalidPlacementError(
            f"accumulation_steps must be at least 1; got {accumulation_steps}.",
            pointer="/job/accumulation_steps",
        )


def _cells(compute_s: FloatArray, groups: CommGroups) -> FloatArray:
    shape = np.broadcast_shapes(compute_s.shape, groups.ranks.shape)
    return np.broadcast_to(compute_s, shape or (1,))


def _replicated(rows: GradientBuckets, alone: FloatArray, times: BucketTimes) -> Streams:
    """Reduce every bucket beside the backward pass."""
    each = times.all_reduce_s()
    backward_end = alone * (1 - rows.optimizer_share)
    return Streams(
        compute_s=alone,
        exposed_s=np.maximum(reductions_end_s(rows, alone, each) - backward_end, 0.0),
        communication_s=(each * rows.count).sum(axis=-1) + np.zeros(alone.shape),
    )


def _parts(
    rows: GradientBuckets,
    alone: FloatArray,
    groups: CommGroups,
    streams: Streams,
    known: DataParallelConstants,
) -> StepParts:
    several = (groups.ranks > 1) & (rows.gradient_bytes > 0)
    communication = np.where(several, streams.communication_s, 0.0)
    exposed = np.minimum(np.where(several, streams.exposed_s, 0.0), communication)
    exposed = exposed + known.contention * (communication - exposed)
    slowest = known.straggler * np.sqrt(2 * np.log(np.maximum(groups.ranks, 1.0)))
    host = rows.pieces * known.piece_s + rows.gradient_bytes / known.pack_bytes_per_s
    return StepParts(
        compute_s=np.where(several, streams.compute_s, alone),
        exposed_communication_s=exposed,
        input_stall_s=np.zeros(alone.shape),
        overhead_s=np.where(several, alone * slowest + host, 0.0),
        communication_s=communication,
    )

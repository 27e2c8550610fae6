r"""Streams of a data-parallel step whose replicas share out optimizer, gradients or parameters.

Stages after ZeRO, with k micro-batches:

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

In inference whose replicas hold a part of the parameters each (ZeRO stage 3, FSDP) they are
gathered in the same way, unit by unit, one unit ahead of the computation. There no order of
gradients is known, so that the units are taken as equal: with n of them, computation u and
collective c of each,

.. math:: T = c + (n - 1)\,\max(c, u) + u .

A unit is as large as a bucket of gradients. Left out: units that an implementation keeps.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.data_parallel.data_parallel_constants import (
    DataParallelConstants,
    fitted_constants,
)
from perfmodel.placement.data_parallel.gradient_buckets import (
    BUCKET_BYTES,
    BucketTimes,
    GradientBuckets,
    Streams,
    link_slowdowns,
    reductions_end_s,
)
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fabric.groups import CommGroups


def sharded_streams(
    rows: GradientBuckets,
    alone: FloatArray,
    ranks: FloatArray,
    *,
    scatter: FloatArray,
    gather: FloatArray,
    zero_stage: int,
    accumulation_steps: int,
) -> Streams:
    """Return the streams of a sharded step.

    Parameters
    ----------
    rows : GradientBuckets
        Spread over the cells.
    alone : ndarray, shape (...)
        Time of the step on one accelerator.
    scatter, gather : ndarray, shape (..., groups)
        Time of a reduce-scatter and of an all-gather of one bucket of each group.
    zero_stage : int
        1, 2 or 3.
    accumulation_steps : int
        Micro-batches, >= 1.
    """
    optimizer = alone * rows.optimizer_share
    shared = optimizer / ranks
    micro = (alone - optimizer) / accumulation_steps
    scattered = (scatter * rows.count).sum(axis=-1)
    gathered = (gather * rows.count).sum(axis=-1)
    if zero_stage == 3:
        once = _fully_sharded_s(rows, micro, scatter, gather)
        communication = accumulation_steps * (2 * gathered + scattered)
        exposed = accumulation_steps * (once - micro)
    else:
        rounds = accumulation_steps if zero_stage == 2 else 1
        communication = rounds * scattered + gathered
        late = reductions_end_s(rows, alone, scatter) - (alone - optimizer)
        earlier = (rounds - 1) * np.maximum(scattered - micro, 0.0)
        # The gathered parameters are needed before the next step begins.
        exposed = np.maximum(late, 0.0) + earlier + gathered
    return Streams(
        compute_s=alone - optimizer + shared,
        exposed_s=np.maximum(exposed, 0.0),
        communication_s=communication,
    )


def _fully_sharded_s(
    rows: GradientBuckets, micro: FloatArray, scatter: FloatArray, gather: FloatArray
) -> FloatArray:
    """Return the time of one micro-batch whose parameters are gathered unit by unit."""
    forward, backward = _unit_seconds(rows, micro)
    gather, scatter = gather * rows.count, scatter * rows.count
    zero = np.zeros(micro.shape)
    stream, start, end = zero, zero, zero
    units = range(rows.ready.shape[-1])
    # Gradients become ready in the reverse order of the forward pass.
    for unit in reversed(units):
        stream = np.maximum(stream, start) + gather[..., unit]
        start = np.maximum(end, stream)
        end = start + forward[..., unit]
    waiting = zero
    for unit in units:
        stream = np.maximum(stream, start) + gather[..., unit]
        start, before = np.maximum(end, stream), end
        # The gradients of the unit before follow the parameters of this one.
        stream = np.maximum(stream, before) + waiting
        end, waiting = start + backward[..., unit], scatter[..., unit]
    return np.asarray(np.maximum(end, np.maximum(stream, end) + waiting))


def _unit_seconds(rows: GradientBuckets, micro: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return forward and backward time of each unit, cut where its gradients are ready."""
    both = np.maximum(rows.forward_share + rows.backward_share, 1e-30)
    # The work behind a unit's gradients ends when they are ready; the tail goes to the last unit.
    begin = 1 - rows.optimizer_share - rows.backward_share
    step = np.diff(rows.ready, axis=-1, prepend=begin[..., None])
    weight = np.where(rows.count > 0, np.maximum(step, 0.0) + 1e-12, 0.0)
    weight = weight / np.maximum(weight.sum(axis=-1, keepdims=True), 1e-30)
    backward = (micro * rows.backward_share / both)[..., None] * weight
    forward = (micro * rows.forward_share / both)[..., None] * weight
    return forward, backward


def gathered_pass_parts(
    buckets: GradientBuckets,
    compute_s: FloatArray,
    groups: CommGroups,
    *,
    constants: DataParallelConstants | None = None,
) -> StepParts:
    """Return the parts of passes whose parameters are gathered.

    Parameters
    ----------
    buckets : GradientBuckets
        One job, or one for each row of the times; their parameters alone count.
    compute_s : ndarray, shape (...) or (jobs, ...)
        Time of the pass on one accelerator alone: that of the slowest of the group.
    groups : CommGroups
        Replicas that share the parameters; broadcasts against ``compute_s``.
    constants : DataParallelConstants or None
        The fitted ones by default.

    Returns
    -------
    StepParts
        ``step_time_s`` is exactly ``compute_s`` where the group has one rank.
    """
    known = constants or fitted_constants()
    shape = np.broadcast_shapes(np.shape(compute_s), groups.ranks.shape)
    alone = np.broadcast_to(np.asarray(compute_s, dtype=np.float64), shape or (1,))
    rows = buckets.spread(alone.ndim)
    units = np.maximum(np.ceil(rows.parameter_bytes / BUCKET_BYTES), 1.0)
    gather = _gather_s(rows, units, groups, known)
    beyond = gather + (units - 1) * np.maximum(gather - alone / units, 0.0)
    several = (groups.ranks > 1) & (rows.parameter_bytes > 0)
    communication = np.where(several, units * gather, 0.0)
    exposed = np.minimum(np.where(several, beyond, 0.0), communication)
    return StepParts.of(
        alone,
        exposed_communication_s=exposed + known.contention * (communication - exposed),
        communication_s=communication,
    )


def _gather_s(
    rows: GradientBuckets, units: FloatArray, groups: CommGroups, known: DataParallelConstants
) -> FloatArray:
    """Return the time to gather one unit."""
    size_bytes = (rows.parameter_bytes / units)[..., None]
    # Buckets that hold the parameters themselves, one after the other.
    held = replace(rows, size_bytes=size_bytes, gradient_bytes=rows.parameter_bytes)
    slower = link_slowdowns(known, groups)
    gathered_s = BucketTimes(held, groups).each_s(Collective.ALL_GATHER, *slower)
    return gathered_s[..., 0] + known.bucket_s

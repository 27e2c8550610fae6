r"""Passes of inference whose replicas hold a part of the parameters each (ZeRO stage 3, FSDP).

Parameters are gathered unit by unit, one unit ahead of the computation. No order of gradients is
known, so that the units are taken as equal: with n of them, computation u and collective c of each,

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
    link_slowdowns,
)
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fabric.groups import CommGroups


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

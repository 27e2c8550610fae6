"""Times of the collectives that work on buckets of gradients and parameters."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from perfmodel.placement.data_parallel_constants import DataParallelConstants
from perfmodel.placement.gradient_buckets import GradientBuckets
from perfmodel.placement.groups import CommGroups

FloatArray = npt.NDArray[np.float64]


class BucketTimes:
    """Collectives of cells, on one bucket of each group.

    What a collective takes by itself does not depend on the constants of the step, and is worked
    out once for each operation that is asked for.

    Parameters
    ----------
    buckets : GradientBuckets
        Spread so that its jobs broadcast against the cells.
    groups : CommGroups
    """

    def __init__(self, buckets: GradientBuckets, groups: CommGroups) -> None:
        self._buckets = buckets
        self._groups = groups
        self._wide = CommGroups(
            **{one.name: getattr(groups, one.name)[..., None] for one in fields(CommGroups)}
        )
        self._alone: dict[str, FloatArray] = {}

    def all_reduce_s(self, known: DataParallelConstants) -> FloatArray:
        """Return the time to reduce one bucket of each group, shape (..., groups)."""
        return self._time_s("all_reduce", self._buckets.size_bytes, known)

    def reduce_scatter_s(self, known: DataParallelConstants) -> FloatArray:
        """Return the time to reduce and scatter one bucket of each group."""
        return self._time_s("reduce_scatter", self._buckets.size_bytes, known)

    def all_gather_s(self, known: DataParallelConstants) -> FloatArray:
        """Return the time to gather the parameters behind one bucket of each group."""
        rows = self._buckets
        share = rows.parameter_bytes / np.maximum(rows.gradient_bytes, 1.0)
        return self._time_s("all_gather", rows.size_bytes * share[..., None], known)

    def _time_s(
        self, collective: str, size_bytes: FloatArray, known: DataParallelConstants
    ) -> FloatArray:
        alone = self._alone.get(collective)
        if alone is None:
            alone = self._alone[collective] = _ring_s(collective, size_bytes, self._wide)
        return alone * known.slowdown_of(self._groups)[..., None] + known.bucket_s


def _ring_s(collective: str, size_bytes: FloatArray, groups: CommGroups) -> FloatArray:
    hops = np.maximum(groups.ranks - 1, 0) * (2 if collective == "all_reduce" else 1)
    rate = np.minimum(groups.intra_bytes_per_s, groups.inter_bytes_per_s)
    latency = np.maximum(groups.intra_latency_s, groups.inter_latency_s)
    return np.asarray(hops * (size_bytes / groups.ranks / rate + latency))

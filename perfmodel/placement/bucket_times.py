"""Times of the collectives that work on buckets of gradients and parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perfmodel.placement.data_parallel_constants import DataParallelConstants
from perfmodel.placement.gradient_buckets import GradientBuckets
from perfmodel.placement.groups import CommGroups

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BucketTimes:
    """Collectives of cells, one bucket of each group.

    Parameters
    ----------
    buckets : GradientBuckets
        Spread so that its jobs broadcast against the cells.
    groups : CommGroups
    constants : DataParallelConstants
    """

    buckets: GradientBuckets
    groups: CommGroups
    constants: DataParallelConstants

    def all_reduce_s(self) -> FloatArray:
        """Return the time to reduce one bucket of each group, shape (..., groups)."""
        return self._time_s("all_reduce", self.buckets.size_bytes)

    def reduce_scatter_s(self) -> FloatArray:
        """Return the time to reduce and scatter one bucket of each group."""
        return self._time_s("reduce_scatter", self.buckets.size_bytes)

    def all_gather_s(self) -> FloatArray:
        """Return the time to gather the parameters behind one bucket of each group."""
        rows = self.buckets
        share = rows.parameter_bytes / np.maximum(rows.gradient_bytes, 1.0)
        return self._time_s("all_gather", rows.size_bytes * share[..., None])

    def _time_s(self, collective: str, size_bytes: FloatArray) -> FloatArray:
        known = self.constants
        by_itself = _ring_s(collective, size_bytes, self._wide)
        return by_itself * self._slowdown[..., None] + known.bucket_s

    @cached_property
    def _wide(self) -> CommGroups:
        """The groups with an axis for the buckets."""
        return CommGroups(
            **{one.name: getattr(self.groups, one.name)[..., None] for one in fields(CommGroups)}
        )

    @cached_property
    def _slowdown(self) -> FloatArray:
        link = np.where(self.groups.hosts > 1, self.groups.inter_class, self.groups.intra_class)
        return self.constants.slowdown_of(link)


def _ring_s(collective: str, size_bytes: FloatArray, groups: CommGroups) -> FloatArray:
    hops = np.maximum(groups.ranks - 1, 0) * (2 if collective == "all_reduce" else 1)
    rate = np.minimum(groups.intra_bytes_per_s, groups.inter_bytes_per_s)
    latency = np.maximum(groups.intra_latency_s, groups.inter_latency_s)
    return np.asarray(hops * (size_bytes / groups.ranks / rate + latency))

"""Times of the collectives that work on buckets of gradients and parameters."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from perfmodel.placement.collective_constants import Collective
from perfmodel.placement.collectives import collective_time_s
from perfmodel.placement.gradient_buckets import GradientBuckets
from perfmodel.placement.groups import CommGroups

FloatArray = npt.NDArray[np.float64]


class BucketTimes:
    """Collectives of cells, on one bucket of each group, as long as they take by themselves.

    They do not depend on the constants of the step; each operation is worked out once.

    Parameters
    ----------
    buckets : GradientBuckets
        Spread so that its jobs broadcast against the cells.
    groups : CommGroups
    """

    def __init__(self, buckets: GradientBuckets, groups: CommGroups) -> None:
        self._buckets = buckets
        self._wide = CommGroups(
            **{one.name: getattr(groups, one.name)[..., None] for one in fields(CommGroups)}
        )
        self._alone: dict[Collective, FloatArray] = {}

    def all_reduce_s(self) -> FloatArray:
        """Return the time to reduce one bucket of each group, shape (..., groups)."""
        return self._time_s(Collective.ALL_REDUCE, self._buckets.size_bytes)

    def reduce_scatter_s(self) -> FloatArray:
        """Return the time to reduce and scatter one bucket of each group."""
        return self._time_s(Collective.REDUCE_SCATTER, self._buckets.size_bytes)

    def all_gather_s(self) -> FloatArray:
        """Return the time to gather the parameters behind one bucket of each group."""
        rows = self._buckets
        share = rows.parameter_bytes / np.maximum(rows.gradient_bytes, 1.0)
        return self._time_s(Collective.ALL_GATHER, rows.size_bytes * share[..., None])

    def _time_s(self, collective: Collective, size_bytes: FloatArray) -> FloatArray:
        alone = self._alone.get(collective)
        if alone is None:
            alone = self._alone[collective] = collective_time_s(collective, size_bytes, self._wide)
        return alone

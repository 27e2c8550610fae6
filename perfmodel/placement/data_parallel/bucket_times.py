"""Times of the collectives that work on buckets of gradients and parameters, inside a step."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.topology.links import LinkClass


class BucketTimes:
    """Collectives of cells, on one bucket of each group.

    By itself a collective takes t, of which the ranks of the fullest host would take u alone.
    Inside a step those levels are slower by different factors,

    .. math:: t' = s_{between} t + (s_{inside} - 1) u

    and t = u on one host. Both are worked out once: they do not depend on the factors.

    Parameters
    ----------
    buckets : GradientBuckets
        Spread so that its jobs broadcast against the cells.
    reduced : float
        How many times the bytes of the gradients are reduced, > 0.
    """

    def __init__(
        self, buckets: GradientBuckets, groups: CommGroups, *, reduced: float = 1.0
    ) -> None:
        self._buckets = buckets
        self._groups = groups
        self._reduced_bytes = buckets.size_bytes * reduced
        self._alone: dict[Collective, tuple[FloatArray, FloatArray]] = {}

    def all_reduce_s(self, inside: FloatArray, between: FloatArray) -> FloatArray:
        """Return the time to reduce one bucket of each group, shape (..., groups).

        Parameters
        ----------
        inside, between : ndarray, shape (...)
            Factors of the two levels.
        """
        return self._slowed_s(Collective.ALL_REDUCE, self._reduced_bytes, inside, between)

    def reduce_scatter_s(self, inside: FloatArray, between: FloatArray) -> FloatArray:
        """Return the time to reduce and scatter one bucket of each group."""
        return self._slowed_s(Collective.REDUCE_SCATTER, self._reduced_bytes, inside, between)

    def all_reduce_of_shards_s(
        self, ranks: FloatArray, inside: FloatArray, between: FloatArray
    ) -> FloatArray:
        """Return the time to reduce one of so many shards of one bucket of each group."""
        shard = self._reduced_bytes / ranks[..., None]
        return self._slowed_s(Collective.ALL_REDUCE, shard, inside, between)

    def all_gather_s(self, inside: FloatArray, between: FloatArray) -> FloatArray:
        """Return the time to gather the parameters behind one bucket of each group."""
        rows = self._buckets
        share = rows.parameter_bytes / np.maximum(rows.gradient_bytes, 1.0)
        size_bytes = rows.size_bytes * share[..., None]
        return self._slowed_s(Collective.ALL_GATHER, size_bytes, inside, between)

    def _slowed_s(
        self,
        collective: Collective,
        size_bytes: FloatArray,
        inside: FloatArray,
        between: FloatArray,
    ) -> FloatArray:
        if collective not in self._alone:
            self._alone[collective] = self._levels_s(collective, size_bytes)
        whole, within = self._alone[collective]
        return whole * between[..., None] + within * (inside - 1)[..., None]

    def _levels_s(
        self, collective: Collective, size_bytes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        whole = collective_time_s(collective, size_bytes, _wide(self._groups))
        if not np.any(self._groups.hosts > 1):
            return whole, whole
        within = collective_time_s(collective, size_bytes, _wide(fullest_host(self._groups)))
        return whole, np.minimum(within, whole)


def fullest_host(groups: CommGroups) -> CommGroups:
    """Return the ranks of the fullest host of each group as groups of their own."""
    ones = np.ones(np.shape(groups.largest_share))
    return replace(
        groups,
        ranks=groups.largest_share,
        hosts=ones,
        smallest_share=groups.largest_share,
        inter_class=np.full(ones.shape, int(LinkClass.NONE)),
        inter_bytes_per_s=np.full(ones.shape, np.inf),
        inter_latency_s=np.zeros(ones.shape),
    )


def _wide(groups: CommGroups) -> CommGroups:
    """Return the groups with an axis for the buckets."""
    return CommGroups(
        **{one.name: getattr(groups, one.name)[..., None] for one in fields(CommGroups)}
    )

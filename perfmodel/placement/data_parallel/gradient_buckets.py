"""Gradients cut into buckets, and the collectives on them; columns over jobs.

Frameworks reduce gradients in buckets: a small first one, so that communication starts early,
then larger ones (1 MiB and 25 MiB in PyTorch). A piece that is larger than a bucket has one of
its own. Deep models have hundreds of buckets; neighbours are then put into one of a few groups,
whose buckets count as equal and as becoming ready one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray, Numbers
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.data_parallel.data_parallel_constants import (
    DataParallelConstants,
    fitted_constants,
)
from perfmodel.placement.data_parallel.step_profile import StepProfile
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.topology.links import LinkClass

FIRST_BUCKET_BYTES = 2.0**20
BUCKET_BYTES = 25 * 2.0**20
#: Columns of :class:`GradientBuckets` with one number for each group.
_OF_GROUPS = ("ready", "count", "size_bytes")
#: Ranks that usual hosts have on one socket.
_SOCKET = 4.0
_OVER_PCIE = (int(LinkClass.PCIE), int(LinkClass.NONE))
#: Keeps quotients finite where nothing is sent.
SHORTEST_S = 1e-30
#: More groups than this change no answer by a per mille.
MOST_GROUPS = 12


class Buckets(NamedTuple):
    """Groups of equal buckets of gradients, and the shares of the step they belong to.

    Parameters
    ----------
    groups : sequence of (number, number)
        When the last bucket of a group is ready, as a share of the step, and how many it has; 0
        in groups that a job does not have, which stand last.
    """

    groups: Sequence[tuple[Numbers, Numbers]]
    forward_share: Numbers
    backward_share: Numbers
    optimizer_share: Numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientBuckets:
    """Groups of equal buckets and the shares of the steps they belong to.

    Parameters
    ----------
    ready : ndarray, shape (jobs, groups)
        Share of the step that has passed when the last bucket of a group is ready, ascending.
    count : ndarray, shape (jobs, groups)
        Buckets of the group; 0 in groups that a job does not have, which stand last.
    size_bytes : ndarray, shape (jobs, groups)
        Of one bucket.
    pieces : ndarray, shape (jobs,)
        Gradient tensors.
    gradient_bytes, parameter_bytes : ndarray, shape (jobs,)
    forward_share, backward_share, optimizer_share : ndarray, shape (jobs,)
    """

    ready: FloatArray
    count: FloatArray
    size_bytes: FloatArray
    pieces: FloatArray
    gradient_bytes: FloatArray
    parameter_bytes: FloatArray
    forward_share: FloatArray
    backward_share: FloatArray
    optimizer_share: FloatArray

    @classmethod
    def join(cls, jobs: Sequence[Self]) -> Self:
        """Return jobs, each of them alone in its columns, as rows of one; at least one."""
        if len(jobs) == 1:
            return jobs[0]
        shape = (len(jobs), max(job.ready.shape[1] for job in jobs))
        groups = {name: np.zeros(shape) for name in _OF_GROUPS}
        for row, job in enumerate(jobs):
            width = job.ready.shape[1]
            for name, column in groups.items():
                column[row, :width] = getattr(job, name)[0]
            groups["ready"][row, width:] = job.ready[0, -1] if width else 0.0
        others = [one.name for one in fields(cls) if one.name not in groups]
        joined = {name: np.concatenate([getattr(job, name) for job in jobs]) for name in others}
        return cls(**groups, **joined)

    def between(self, first: IntArray, second: IntArray, part: FloatArray) -> GradientBuckets:
        """Return rows between rows of jobs that share equal gradients.

        Parameters
        ----------
        first, second : ndarray of int, shape (rows,)
            Positions of the jobs.
        part : ndarray, shape (rows,)
            How far each lies from the first, 0, to the second, 1.
        """
        columns = {}
        for one in fields(self):
            value = getattr(self, one.name)
            far = part.reshape(-1, *(1,) * (value.ndim - 1))
            columns[one.name] = (1 - far) * value[first] + far * value[second]
        return GradientBuckets(**columns)

    def spread(self, dimensions: int) -> GradientBuckets:
        """Return the same with axes of length one after that of the jobs.

        Parameters
        ----------
        dimensions : int
            Axes of the cells, jobs first, >= 1. One job goes with every first axis.
        """
        extra = (1,) * (dimensions - 1)
        columns = {}
        for one in fields(self):
            value = getattr(self, one.name)
            columns[one.name] = value.reshape(value.shape[0], *extra, *value.shape[1:])
        return GradientBuckets(**columns)

    @property
    def buckets(self) -> Buckets:
        """The same group by group, once spread over cells."""
        ready, count = (np.moveaxis(column, -1, 0) for column in (self.ready, self.count))
        shares = self.forward_share, self.backward_share, self.optimizer_share
        return Buckets(tuple(zip(ready, count, strict=True)), *shares)


def gradient_buckets(
    profiles: StepProfile | Sequence[StepProfile],
    *,
    bucket_bytes: float = BUCKET_BYTES,
    most_groups: int = MOST_GROUPS,
) -> GradientBuckets:
    """Cut the gradients of one or several jobs into buckets.

    Parameters
    ----------
    profiles : StepProfile or sequence of StepProfile
        One profile is one job.
    bucket_bytes : float
        Size from which on a bucket is closed; the first one is smaller.
    """
    jobs = (profiles,) if isinstance(profiles, StepProfile) else tuple(profiles)
    return GradientBuckets.join([_cut(job, bucket_bytes, most_groups) for job in jobs])


def _cut(profile: StepProfile, bucket_bytes: float, most_groups: int) -> GradientBuckets:
    """Cut the gradients of one job."""
    piece = profile.gradient_piece_bytes
    ready, count, size = np.zeros((3, 0))
    if len(piece):
        before = np.cumsum(piece) - piece
        first = min(FIRST_BUCKET_BYTES, bucket_bytes)
        bucket = np.where(before < first, 0.0, 1.0 + np.floor((before - first) / bucket_bytes))
        _, bucket = np.unique(bucket, return_inverse=True)
        buckets = int(bucket[-1]) + 1
        # The first bucket stays alone; the others share the remaining groups evenly.
        group = np.arange(buckets)
        if buckets > most_groups:
            group[1:] = 1 + (group[1:] - 1) * (most_groups - 1) // (buckets - 1)
        of_piece = group[bucket]
        total = np.bincount(of_piece, weights=piece)
        count = np.bincount(group).astype(np.float64)
        last = np.searchsorted(of_piece, np.arange(len(total)), side="right") - 1
        ready, size = profile.gradient_ready[last], total / count
    return GradientBuckets(
        ready=ready[None],
        count=count[None],
        size_bytes=size[None],
        pieces=np.array([float(len(profile.gradient_ready))]),
        gradient_bytes=np.array([profile.gradient_bytes]),
        parameter_bytes=np.array([profile.parameter_bytes]),
        forward_share=np.array([profile.forward_share]),
        backward_share=np.array([profile.backward_share]),
        optimizer_share=np.array([profile.optimizer_share]),
    )


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
    reduced : float or ndarray
        How many times the bytes of the gradients are reduced, > 0; less than once where shards of
        them are.
    """

    def __init__(
        self, buckets: GradientBuckets, groups: CommGroups, *, reduced: float | FloatArray = 1.0
    ) -> None:
        share = buckets.parameter_bytes / np.maximum(buckets.gradient_bytes, 1.0)
        self._parameter_bytes = buckets.size_bytes * share[..., None]
        self._reduced_bytes = buckets.size_bytes * reduced
        self._groups = groups
        self._alone: dict[Collective, tuple[FloatArray, FloatArray]] = {}

    def each_s(self, collective: Collective, inside: FloatArray, between: FloatArray) -> FloatArray:
        """Return the time of a collective on one bucket of each group, shape (..., groups).

        Of the parameters behind it where they are gathered, else of the gradients.

        Parameters
        ----------
        inside, between : ndarray, shape (...)
            Factors of the two levels.
        """
        if collective not in self._alone:
            gathers = collective is Collective.ALL_GATHER
            size_bytes = self._parameter_bytes if gathers else self._reduced_bytes
            whole = within = collective_time_s(collective, size_bytes, _wide(self._groups))
            if np.any(self._groups.hosts > 1):
                within = collective_time_s(
                    collective, size_bytes, _wide(fullest_host(self._groups))
                )
                within = np.minimum(within, whole)
            self._alone[collective] = whole, within
        whole, within = self._alone[collective]
        return whole * between[..., None] + within * (inside - 1)[..., None]


def link_slowdowns(
    constants: DataParallelConstants, groups: CommGroups
) -> tuple[FloatArray, FloatArray]:
    """Return how many times longer collectives take inside a step.

    Returns
    -------
    inside : ndarray
        Of the part inside a host: 1 where no slowdown is known, or one rank of the group is on
        the host.
    between : ndarray
        Where there are several hosts; 1 elsewhere.
    """
    of_class = np.array([constants.link_slowdown.get(one, 1.0) for one in LinkClass])
    # Bridges join two and PCIe the pairs. A slowdown of their own could make two cards slower
    # than three; the two differ by the rates that their collectives reach.
    bridged = groups.intra_class == LinkClass.NVLINK_PAIR
    link = np.where(bridged, int(LinkClass.PCIE), groups.intra_class)
    beyond_socket = np.maximum(groups.largest_share, _SOCKET) / _SOCKET
    held_up = np.maximum(groups.intra_bytes_per_s / constants.host_copy_bytes_per_s, 1.0)
    slower = (
        of_class[link]
        * np.where(np.isin(link, _OVER_PCIE), beyond_socket**constants.crowding, 1.0)
        * np.where(link == LinkClass.NONE, held_up, 1.0)
    )
    return (
        np.asarray(np.where(groups.largest_share > 1, slower, 1.0)),
        np.where(groups.hosts > 1, of_class[groups.inter_class], 1.0),
    )


def within_share(groups: CommGroups) -> FloatArray:
    """Return the part of the communication that the ranks of the fullest host would take alone.

    Inside a step, of gradients in buckets of the usual size; 1 on one host.
    """
    inside, between = link_slowdowns(fitted_constants(), groups)
    size_bytes = np.full(np.shape(groups.ranks), BUCKET_BYTES)
    whole = collective_time_s(Collective.ALL_REDUCE, size_bytes, groups)
    within = collective_time_s(Collective.ALL_REDUCE, size_bytes, fullest_host(groups))
    within = np.minimum(within, whole)
    spread = np.maximum(whole * between + within * (inside - 1), SHORTEST_S)
    return np.where((groups.hosts > 1) & (groups.ranks > 1), within * inside / spread, 1.0)


def fullest_host(groups: CommGroups) -> CommGroups:
    """Return the ranks of the fullest host of each group as groups of their own."""
    ones = np.ones(np.shape(groups.largest_share))
    return replace(
        groups,
        ranks=groups.largest_share,
        hosts=ones,
        inter_class=np.full(ones.shape, int(LinkClass.NONE)),
        inter_bytes_per_s=np.full(ones.shape, np.inf),
        inter_latency_s=np.zeros(ones.shape),
    )


def _wide(groups: CommGroups) -> CommGroups:
    """Return the groups with an axis for the buckets."""
    return CommGroups(
        **{one.name: getattr(groups, one.name)[..., None] for one in fields(CommGroups)}
    )

"""Which ranks form a group, and what the links give to it while all groups of its kind talk.

Ranks are numbered as Megatron-LM does: tensor ranks are neighbours, then context, then data (with
the experts innermost), and pipeline stages are farthest apart::

    rank = tensor + T * (context + C * (data + D * pipeline))

so that each dimension is a stride and a size, and its groups are

    {start + stride * i : i = 0 .. size - 1}.

Hosts are filled with ranks in the order in which the placement names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.topology.links import link_bandwidth
from perfmodel.placement.topology.topology import Plan


class Dimension(StrEnum):
    """Which ranks talk to each other."""

    TENSOR = "tensor"
    CONTEXT = "context"
    EXPERT = "expert"
    DATA = "data"
    #: Replicas of one expert: ``data / expert`` ranks, of a whole one ``tensor context`` as many.
    EXPERT_DATA = "expert_data"
    #: All that hold the same parameters: gradients are reduced over data and context ranks.
    DATA_CONTEXT = "data_context"
    #: Those of them that share shards out among themselves, and those that hold the same shard.
    SHARD = "shard"
    REPLICATE = "replicate"
    #: Neighbouring stages, two by two.
    PIPELINE = "pipeline"
    #: All ranks of the job.
    WORLD = "world"


#: Dimensions of replicas, whose groups are described in the steady form: a mesh as
#: :func:`.links.link_bandwidth` says, and a host with fewer ranks than the
#: others as if it had as many adapters in use as the fullest.
STEADY = frozenset(
    {
        Dimension.DATA, Dimension.EXPERT_DATA, Dimension.DATA_CONTEXT, Dimension.WORLD,
        Dimension.SHARD, Dimension.REPLICATE,
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkDomains:
    """Sets of accelerators that their own link joins (hosts, or a slice), as columns.

    A row stands for ``repeats`` equal ones, so that a million accelerators take a few numbers.

    Parameters
    ----------
    repeats : ndarray of int
        How many such sets follow each other.
    sizes : ndarray of int
        Accelerators of each set, in the order of the ranks.
    link_bytes_per_s, link_latency_s, link_peers, link_island, link_detour_bytes_per_s : ndarray
        As :class:`.links.Link`; no island is infinite.
    reach_bytes_per_s : ndarray
        What one accelerator can send out of its host: its slot and its adapter.
    network_bytes_per_s, network_latency_s : float
        Of a host, one direction, divided by oversubscription; infinite and 0 for one host.
    """

    repeats: IntArray
    sizes: IntArray
    link_class: IntArray
    link_bytes_per_s: FloatArray
    link_latency_s: FloatArray
    link_peers: FloatArray
    link_island: FloatArray
    link_detour_bytes_per_s: FloatArray
    reach_bytes_per_s: FloatArray
    network_bytes_per_s: float
    network_latency_s: float
    network_class: int

    def bandwidth(self, ranks: FloatArray, row: IntArray, *, steady: bool) -> FloatArray:
        """Return the rate of one accelerator in a group of so many ranks of a set."""
        return link_bandwidth(
            ranks,
            self.link_bytes_per_s[row],
            self.link_peers[row],
            self.link_island[row],
            self.link_detour_bytes_per_s[row],
            steady=steady,
        )

    def row_of_set(self) -> IntArray:
        """Return the row of each set."""
        return np.repeat(np.arange(len(self.sizes)), self.repeats)

    def set_of_rank(self) -> IntArray:
        """Return the set of each rank."""
        sizes = self.sizes[self.row_of_set()]
        return np.repeat(np.arange(len(sizes)), sizes)


def stride_and_size(plan: Plan, dimension: Dimension) -> tuple[int, int]:
    """Return how far apart the ranks of a group are, and how many there are.

    Parameters
    ----------
    plan : Plan
        With ``data`` stated.
    dimension : Dimension
        Not ``PIPELINE``, whose groups are pairs.

    Examples
    --------
    >>> stride_and_size(Plan(data=4, tensor=2), Dimension.DATA)
    (2, 4)
    """
    data = plan.data or 1
    inner = plan.tensor * plan.context
    match dimension:
        case Dimension.TENSOR:
            return 1, plan.tensor
        case Dimension.CONTEXT:
            return plan.tensor, plan.context
        case Dimension.EXPERT:
            return 1 if plan.has_whole_experts else inner, plan.expert
        case Dimension.DATA:
            return inner, data
        case Dimension.EXPERT_DATA if plan.has_whole_experts:
            return plan.expert, inner * data // plan.expert
        case Dimension.EXPERT_DATA:
            return inner * plan.expert, data // plan.expert
        case Dimension.DATA_CONTEXT:
            return plan.tensor, plan.context * data
        case Dimension.SHARD:
            return plan.tensor, plan.context * data // plan.replicate
        case Dimension.REPLICATE:
            return inner * data // plan.replicate, plan.replicate
        case Dimension.WORLD | Dimension.PIPELINE:
            return 1, inner * data * plan.pipeline


def strided_groups(
    domains: LinkDomains, stride: int, size: int, *, steady: bool = False
) -> CommGroups:
    """Return every group of a stride and a size; all of them talk at the same time.

    A host that k groups cross gives each of them 1/k of its network, and each accelerator sends
    no faster than its slot and adapter::

        inter = min over hosts of min(network / k, ranks on the host * reach)

    Parameters
    ----------
    stride, size : int
        ``stride * size`` divides the number of ranks.
    steady : bool
        See :data:`STEADY`; ``ranks on the host`` are those of the fullest then.

    Returns
    -------
    CommGroups
        In the order of their first ranks' blocks.
    """
    members = domains.set_of_rank().reshape(-1, size, stride).swapaxes(1, 2).reshape(-1, size)
    return _groups(domains, members, steady=steady)


def neighbour_pairs(domains: LinkDomains, plan: Plan) -> CommGroups:
    """Return each rank of a pipeline stage with its partner in the next one.

    All send at the same time, forwards and backwards; with virtual stages the last stage sends
    to the first too.

    Parameters
    ----------
    plan : Plan
        With ``data`` stated and ``pipeline`` above 1.
    """
    stages = domains.set_of_rank().reshape(plan.pipeline, -1)
    if plan.virtual_stages > 1 and plan.pipeline > 2:
        senders, receivers = stages, np.roll(stages, -1, axis=0)
    else:
        senders, receivers = stages[:-1], stages[1:]
    # A host sends forwards for its senders and backwards for its receivers, all at once at worst;
    # what it receives in the same direction is not more.
    pairs = np.sort(np.stack([senders.ravel(), receivers.ravel()], axis=1), axis=1)
    return _groups(domains, pairs, steady=False)


def _groups(domains: LinkDomains, members: IntArray, *, steady: bool) -> CommGroups:
    """Describe groups, given the set of each member: shape (groups, ranks), rows ascending."""
    group_count, size = members.shape
    row_of_set = domains.row_of_set()
    set_count = len(row_of_set)
    # Members of a group on the same host follow each other, and groups too: runs, not a sort.
    keys = (members + np.arange(group_count)[:, None] * set_count).ravel()
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    share = np.diff(first, append=keys.size)
    group, where = np.divmod(keys[first], set_count)
    row = row_of_set[where]
    starts = np.searchsorted(group, np.arange(group_count))
    hosts = np.bincount(group, minlength=group_count)
    crosses = hosts[group] > 1
    crossing = np.bincount(where[crosses], minlength=set_count)
    ranks_there = share.astype(np.float64)
    fair = domains.network_bytes_per_s / np.maximum(crossing, 1)[where]
    largest = np.maximum.reduceat(ranks_there, starts)
    using = largest[group] if steady else ranks_there
    inter = np.minimum(fair, using * domains.reach_bytes_per_s[row])
    inter = np.where(crosses, inter, np.inf)
    rate = domains.bandwidth(using, row, steady=steady)
    intra, intra_class, intra_latency = _slowest_inside(domains, rate, ranks_there > 1, row, starts)
    is_spread = hosts > 1
    return CommGroups(
        ranks=np.full(group_count, float(size)),
        hosts=hosts.astype(np.float64),
        largest_share=largest,
        intra_class=intra_class,
        inter_class=np.where(is_spread, domains.network_class, 0),
        intra_bytes_per_s=intra,
        intra_latency_s=intra_latency,
        inter_bytes_per_s=np.minimum.reduceat(inter, starts),
        inter_latency_s=np.where(is_spread, domains.network_latency_s, 0.0),
    )


def _slowest_inside(
    domains: LinkDomains,
    rate: FloatArray,
    talks: npt.NDArray[np.bool_],
    row: IntArray,
    starts: IntArray,
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return rate, class and latency of each group's slowest link inside a host.

    Hosts with a single rank of the group, which does not talk inside, count only where there are
    no others.
    """
    counted = np.where(talks, rate, np.inf)
    slowest = np.minimum.reduceat(counted, starts)
    lonely = np.isinf(slowest)
    slowest = np.where(lonely, np.minimum.reduceat(rate, starts), slowest)
    lengths = np.diff(np.append(starts, len(rate)))
    spread = np.repeat(slowest, lengths)
    is_slowest = np.where(np.repeat(lonely, lengths), rate, counted) == spread
    link_class = np.maximum.reduceat(np.where(is_slowest, domains.link_class[row], 0), starts)
    latency = np.maximum.reduceat(np.where(is_slowest, domains.link_latency_s[row], 0.0), starts)
    return slowest, link_class, latency

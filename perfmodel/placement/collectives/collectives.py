r"""Time of collectives over any groups of accelerators: the ways to carry one out, and the fastest.

With ``n`` ranks on ``h`` hosts, ``m`` of them on the fullest host, ``x`` the seconds per byte of a
link at its efficiency and ``t`` the latency of a hop (``i`` inside a host, ``x`` between hosts):

=============  ====================================  =======================================
form           latency beyond the start              time per byte
=============  ====================================  =======================================
ring           r ((n-h) t_i + (h-1) t_x)             r (n-1)/n max(x_i, x_x)
tree           2 (k log2 m t_i + log2 h t_x)         max(2 (n-1)/n x_i, 2 (h-1)/h x_x)
in switch      2 log2 h t_x                          max(x_switch, 2 (h-1)/h x_x)
direct         log2 m t_i + log2 h t_x               max((n-1)/n x_i, m (n-m)/n x_x)
=============  ====================================  =======================================

``r`` is 2 for an all-reduce and 1 for an all-gather or a reduce-scatter. A broadcast and a send
pass the whole payload along the ring (``1`` in place of ``(n-1)/n``). Ring, tree and in-switch
reduction fill all links at once (chunks follow each other), so the slower level counts. A tree is
the pair of binary trees between hosts with chains inside; inside one host its levels cost ``k``
hops. The bytes between hosts are those of a whole host, as :class:`CommGroups` states that
bandwidth.

Every form but the in-switch one adds the copy of a rank's own shard (an ``n``-th of the payload),
for which the cores that drive an NVLink are missed there, and work per byte that no link speeds up.

With a latency :math:`L` a form transfers for :math:`X` seconds. Libraries change protocol as
messages grow: each gives up some latency for a better use of the link. With heights :math:`a_k` and
widths :math:`b_k`,

.. math:: T = L + X + L \sum_k a_k \frac{X}{X + b_k L},

which is :math:`L` for short messages and :math:`X + (1 + \sum a_k) L` for long ones. :math:`T`
rises with :math:`L` and with :math:`X`, so it rises with bytes and latency, falls with bandwidth,
and never lies below the transfer at the link's full rate. The fastest form counts.

:func:`collective_time_s` answers columns of groups and sizes. A scheduler that asks for one
placement after the other has columns of length one, on which arrays cost a hundred times what their
numbers do: :func:`form_curves` takes what links and constants say from the columns once for all
groups over the same links, and ranks and hosts as plain numbers. Answers of both agree to rounding.

Left out: other traffic on the same links (divide the bandwidth), and the collectives that
serving frameworks write themselves.

Reference: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
MPICH, 2005; Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and
scan, 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, PlainNumbers
from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks, world_columns
from perfmodel.placement.topology.links import LinkClass

__all__ = ["Collective", "CollectiveConstants", "collective_time_s"]

#: Keeps quotients finite where neither latency nor transfer takes time.
_SHORTEST_S = 1e-30

#: Many groups as columns, or one as plain numbers.
N = TypeVar("N", float, FloatArray)


class Cost(NamedTuple, Generic[N]):
    """Latency and time per byte of groups."""

    latency_s: N
    s_per_byte: N
    #: Which groups can carry the form out.
    possible: npt.NDArray[np.bool_] | bool = True


class LinkRates(NamedTuple, Generic[N]):
    """Groups as the forms need them: seconds per byte and per hop at both levels."""

    ranks: N
    hosts: N
    share: N
    intra_s_per_byte: N
    inter_s_per_byte: N
    intra_hop_s: N
    inter_hop_s: N
    launch_hop_s: N
    #: Copy of a whole payload; a rank copies its own shard of it.
    copy_s_per_byte: N
    #: 1 / bandwidth inside a host.
    raw_s_per_byte: N
    #: What filling each level costs, where a group uses it.
    intra_fill: N
    inter_fill: N
    #: Groups whose switch reduces; False where none does.
    reduces: npt.NDArray[np.bool_] | bool
    #: Functions of columns, or of plain numbers.
    of: Any


def link_rates(
    collective: Collective, groups: CommGroups, constants: CollectiveConstants
) -> LinkRates[FloatArray]:
    """Return what links and constants say of groups, whichever the form.

    Parameters
    ----------
    groups : CommGroups
        With at least 2 ranks; others get numbers without meaning.
    """
    # Accelerators that no link of their own joins reach each other over PCIe, hosts over Ethernet.
    none, by_link = int(LinkClass.NONE), constants.by_link
    intra = np.where(groups.intra_class == none, int(LinkClass.PCIE), groups.intra_class)
    inter = np.where(groups.inter_class == none, int(LinkClass.ETHERNET), groups.inter_class)
    raw = 1 / np.maximum(groups.intra_bytes_per_s, 1.0)
    far = 1 / np.maximum(groups.inter_bytes_per_s, 1.0)
    hop = groups.intra_latency_s * by_link["latency_scale"][intra]
    hosts, ranks = np.maximum(groups.hosts, 1.0), np.maximum(groups.ranks, 2.0)
    several, between = groups.largest_share > 1, hosts > 1
    inside = np.where(several, raw / by_link[collective][intra], 0.0)
    copy = constants.operations[collective].copy_share * by_link["copy_scale"][intra]
    least = constants.in_switch.least_bytes_per_s
    reduces = several & (intra == LinkClass.NVSWITCH) & (groups.intra_bytes_per_s >= least)
    return LinkRates(
        ranks=ranks,
        hosts=hosts,
        share=np.maximum(groups.largest_share, 1.0),
        intra_s_per_byte=inside,
        inter_s_per_byte=np.where(between, far / by_link[collective][inter], 0.0),
        intra_hop_s=hop,
        inter_hop_s=groups.inter_latency_s + by_link["hop_overhead_s"][inter],
        launch_hop_s=np.maximum(hop, constants.least_latency_s),
        copy_s_per_byte=copy * inside,
        raw_s_per_byte=raw,
        intra_fill=np.where(several, by_link["fill_scale"][intra], 0.0),
        inter_fill=np.where(between, by_link["fill_scale"][inter], 0.0),
        reduces=reduces if np.any(reduces) else False,
        of=np,
    )


def form_costs(
    collective: Collective, links: LinkRates[N], constants: CollectiveConstants
) -> list[Cost[N]]:
    """Return what each form that NCCL has for a collective costs groups; it takes the fastest.

    One of them can carry it out: in-switch reduction is left out where no group can.
    """
    one, of = constants.operations[collective], links.of
    ranks, hosts, share = links.ranks, links.hosts, links.share
    inside, between = links.intra_s_per_byte, links.inter_s_per_byte
    over_hosts_s = of.log2(hosts) * links.inter_hop_s
    sent = sent_share(collective, ranks)
    if collective is Collective.ALL_TO_ALL:
        # What the fullest host sends to the others, all its ranks together.
        leaving = share * of.maximum(ranks - share, 0.0) / ranks
        levels = of.log2(share) * links.intra_hop_s + over_hosts_s
        forms = [(one.hop_factor * levels, of.maximum(sent * inside, leaving * between))]
        # Every rank has a shard of its own, however full its host.
        shards = ranks
    else:
        hops = (ranks - hosts) * links.intra_hop_s + (hosts - 1) * links.inter_hop_s
        passes = 2.0 if collective is Collective.ALL_REDUCE else 1.0
        forms = [(passes * one.hop_factor * hops, sent * of.maximum(inside, between))]
        # A fuller last host copies no less.
        shards = hosts * share
    if collective is Collective.ALL_REDUCE:
        leaving = sent_share(collective, hosts)
        levels = constants.tree_hop * of.log2(share) * links.intra_hop_s + over_hosts_s
        forms.append((2 * one.hop_factor * levels, of.maximum(sent * inside, leaving * between)))
    start_s, copy_s_per_byte = one.launch_hops * links.launch_hop_s, links.copy_s_per_byte / shards
    costs = [
        Cost(latency_s + start_s, s_per_byte + copy_s_per_byte + one.fixed_s_per_byte)
        for latency_s, s_per_byte in forms
    ]
    if collective is Collective.ALL_REDUCE and links.reduces is not False:
        switch = constants.in_switch
        start_s = switch.launch_hops * links.launch_hop_s
        latency_s = start_s + 2 * one.hop_factor * of.log2(hosts) * links.inter_hop_s
        slower = of.maximum(links.raw_s_per_byte / switch.efficiency, leaving * between)
        costs.append(Cost(latency_s, slower + switch.fixed_s_per_byte, links.reduces))
    return costs


def sent_share(collective: Collective, count: N) -> N:
    """Return the share of the payload that crosses each link of a ring of so many."""
    if collective is Collective.BROADCAST or collective is Collective.SEND_RECV:
        return count / count
    return (2.0 if collective is Collective.ALL_REDUCE else 1.0) * (count - 1) / count


def collective_time_s(
    collective: Collective,
    size_bytes: npt.ArrayLike,
    groups: CommGroups,
    constants: CollectiveConstants | None = None,
) -> FloatArray:
    """Return the time of a collective by its fastest form.

    Parameters
    ----------
    size_bytes : array_like
        The whole tensor of one rank: what an all-reduce reduces, an all-gather returns, a
        reduce-scatter takes, an all-to-all sends in all, a broadcast or a send passes on.
        Broadcasts against the groups: sizes of shape (cells, sizes) and groups of shape
        (cells, 1) give every size of every cell.
    constants : CollectiveConstants or None
        The shipped ones where None.

    Returns
    -------
    ndarray
        Seconds; 0 where there is one rank or nothing to send.

    Examples
    --------
    Eight accelerators, 450 GB/s each: 1 GB cannot be gathered faster than 7/8 GB / 450 GB/s.

    >>> from perfmodel.placement.topology.links import LinkClass
    >>> eight = CommGroups.one_host([8], LinkClass.NVSWITCH, 450e9, 7e-7)
    >>> bool(collective_time_s(Collective.ALL_GATHER, 1e9, eight)[0] > 7 / 8 / 450)
    True
    """
    known = constants or CollectiveConstants.fitted()
    size, one = np.asarray(size_bytes, dtype=np.float64), known.operations[collective]
    links = link_rates(collective, groups, known)
    fill = np.maximum(links.intra_fill, links.inter_fill)
    best: FloatArray = np.array(np.inf)
    for latency, s_per_byte, possible in form_costs(collective, links, known):
        # Columns of groups are narrow, sizes wide: what can be is multiplied before they meet.
        transfer = size * s_per_byte
        time_s = transfer + latency * (1 + sum(one.fill_heights) * fill)
        for height, width in zip(one.fill_heights, one.fill_widths, strict=True):
            # a L X / (X + b L) is a L less what is not paid yet, a L b L / (X + b L).
            unpaid = height * width * fill * latency * latency
            time_s -= unpaid / np.maximum(transfer + width * latency, _SHORTEST_S)
        if possible is not True:
            time_s = np.where(possible, time_s, np.inf)
        best = np.minimum(best, time_s)
    return np.where((groups.ranks > 1) & (size > 0), best, 0.0)


class FormCurve(NamedTuple):
    r"""Time of one form of a collective on one group.

    .. math:: T(S) = b + x S - \sum_k \frac{u_k}{x S + d_k}

    Parameters
    ----------
    base_s : float
        Where latencies are paid in full, ``b``.
    s_per_byte : float
        ``x``
    knees : tuple of (float, float)
        ``u``, s^2, and ``d``, s.
    """

    base_s: float
    s_per_byte: float
    knees: tuple[tuple[float, float], ...]


@lru_cache(maxsize=16_384)
def form_curves(collective: Collective, group: WorldGroup) -> tuple[FormCurve, ...]:
    """Return the curves of the forms of NCCL that a group can carry out.

    Returns
    -------
    tuple of FormCurve
        Empty for a group of one rank.
    """
    if group.ranks <= 1:
        return ()
    known = CollectiveConstants.fitted()
    one, of_two = known.operations[collective], _of_two(collective, group.links)
    rates = of_two._replace(ranks=group.ranks, hosts=group.hosts)
    fill = max(rates.intra_fill, rates.inter_fill) if group.hosts > 1 else rates.intra_fill
    curves = []
    for latency_s, s_per_byte, _ in form_costs(collective, rates, known):
        paid, knees = 1.0, []
        for height, width in zip(one.fill_heights, one.fill_widths, strict=True):
            paid += height * fill
            unpaid = height * width * fill * latency_s * latency_s
            # A knee without a height changes nothing.
            if unpaid:
                knees.append((unpaid, max(width * latency_s, _SHORTEST_S)))
        curves.append(FormCurve(latency_s * paid, s_per_byte, tuple(knees)))
    return tuple(curves)


@lru_cache(maxsize=4_096)
def _of_two(collective: Collective, links: WorldLinks) -> LinkRates[float]:
    """Return what the columns say of links; two ranks and hosts stand for any number."""
    rates = link_rates(
        collective, world_columns([WorldGroup(2.0, 2.0, links)]), CollectiveConstants.fitted()
    )
    numbers = [np.asarray(column).item() for column in rates[:-1]]
    return LinkRates._make((*numbers, PlainNumbers))


def fastest_s(curves: Sequence[FormCurve], sizes_bytes: Sequence[float]) -> list[float]:
    """Return the time of a collective by its fastest form, for each size.

    Parameters
    ----------
    curves : sequence of FormCurve
        Of one group; none means that it has one rank.

    Examples
    --------
    >>> fastest_s([FormCurve(1e-5, 1e-9, ()), FormCurve(1e-6, 1e-8, ())], [1e2, 1e6])
    [2e-06, 0.00101]
    """
    best = [0.0] * len(sizes_bytes)
    for position, (base_s, s_per_byte, knees) in enumerate(curves):
        sent_s = [size * s_per_byte for size in sizes_bytes]
        times = [sent + base_s for sent in sent_s]
        for unpaid, knee in knees:
            times = [t - unpaid / (sent + knee) for t, sent in zip(times, sent_s, strict=True)]
        best = list(map(min, best, times)) if position else times
    if min(sizes_bytes, default=1.0) > 0:
        return best
    return [time if size > 0 else 0.0 for time, size in zip(best, sizes_bytes, strict=True)]

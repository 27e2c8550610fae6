r"""Ways to carry out a collective: each is a latency and a time per byte of its payload.

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

Reference: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
MPICH, 2005; Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and
scan, 2009.

One group at a time: the forms of a collective as curves over bytes, in a few plain numbers.

:mod:`.collectives` answers columns of groups and sizes. A scheduler that asks for one placement
after the other has columns of length one, on which arrays cost a hundred times what their numbers
do. What links and constants say is therefore taken from the columns once for all groups over the
same links; the forms of :mod:`.collective_forms` then take ranks and hosts as plain numbers, and
their time is

.. math:: T(S) = b + x S - \sum_k \frac{u_k}{x S + d_k}.

Answers of both ways agree to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collective_operations import OperationConstants
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks
from perfmodel.placement.topology.links import LinkClass

#: Keeps quotients finite where neither latency nor transfer takes time.
SHORTEST_S = 1e-30

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
    #: Groups whose switch reduces; False where none does.
    reduces: npt.NDArray[np.bool_] | bool
    #: Of columns, or of plain numbers.
    larger: Callable[[N, Any], N]
    log2: Callable[[N], N]


def link_rates(
    collective: Collective, groups: CommGroups, constants: CollectiveConstants
) -> LinkRates[FloatArray]:
    """Return what links and constants say of groups, whichever the form.

    Parameters
    ----------
    groups : CommGroups
        With at least 2 ranks; others get numbers without meaning.
    """
    intra, inter = link_classes(groups)
    raw = 1 / np.maximum(groups.intra_bytes_per_s, 1.0)
    far = 1 / np.maximum(groups.inter_bytes_per_s, 1.0)
    hop = groups.intra_latency_s * constants.by_link("latency_scale", intra)
    several = groups.largest_share > 1
    hosts, ranks = np.maximum(groups.hosts, 1.0), np.maximum(groups.ranks, 2.0)
    inside = np.where(several, raw / constants.by_link(collective, intra), 0.0)
    between = np.where(hosts > 1, far / constants.by_link(collective, inter), 0.0)
    copy = constants.operations[collective].copy_share * constants.by_link("copy_scale", intra)
    least = constants.in_switch.least_bytes_per_s
    reduces = several & (intra == LinkClass.NVSWITCH) & (groups.intra_bytes_per_s >= least)
    return LinkRates(
        ranks=ranks,
        hosts=hosts,
        share=np.maximum(groups.largest_share, 1.0),
        intra_s_per_byte=inside,
        inter_s_per_byte=between,
        intra_hop_s=hop,
        inter_hop_s=groups.inter_latency_s + constants.by_link("hop_overhead_s", inter),
        launch_hop_s=np.maximum(hop, constants.least_latency_s),
        copy_s_per_byte=copy * inside,
        raw_s_per_byte=raw,
        reduces=reduces if np.any(reduces) else False,
        larger=np.maximum,
        log2=np.log2,
    )


def link_classes(groups: CommGroups) -> tuple[IntArray, IntArray]:
    """Return the classes inside and between hosts whose constants count.

    Accelerators that no link of their own joins reach each other over PCIe, hosts over Ethernet.
    """
    intra, inter = np.asarray(groups.intra_class), np.asarray(groups.inter_class)
    none = int(LinkClass.NONE)
    return (
        np.where(intra == none, int(LinkClass.PCIE), intra),
        np.where(inter == none, int(LinkClass.ETHERNET), inter),
    )


def form_costs(
    collective: Collective, links: LinkRates[N], constants: CollectiveConstants
) -> list[Cost[N]]:
    """Return what each form of a collective costs groups, where one of them can carry it out."""
    one = constants.operations[collective]
    # Every rank of an exchange among all has a shard of its own, however full its host; of others
    # a fuller last host copies no less.
    shards = links.ranks if collective is Collective.ALL_TO_ALL else links.hosts * links.share
    start_s, copy_s_per_byte = one.launch_hops * links.launch_hop_s, links.copy_s_per_byte / shards
    costs = [
        Cost(latency_s + start_s, s_per_byte + copy_s_per_byte + one.fixed_s_per_byte)
        for latency_s, s_per_byte in [
            form(collective, links, constants) for form in _FORMS[collective]
        ]
    ]
    if collective is Collective.ALL_REDUCE and links.reduces is not False:
        costs.append(_in_switch(collective, links, constants))
    return costs


def _passes(collective: Collective) -> float:
    return 2.0 if collective is Collective.ALL_REDUCE else 1.0


def sent_share(collective: Collective, count: N) -> N:
    """Return the share of the payload that crosses each link of a ring of so many."""
    if collective is Collective.BROADCAST or collective is Collective.SEND_RECV:
        return count / count
    return _passes(collective) * (count - 1) / count


def _ring(
    collective: Collective, links: LinkRates[N], constants: CollectiveConstants
) -> tuple[N, N]:
    one = constants.operations[collective]
    hops = (links.ranks - links.hosts) * links.intra_hop_s
    hops = hops + (links.hosts - 1) * links.inter_hop_s
    slower = links.larger(links.intra_s_per_byte, links.inter_s_per_byte)
    sent = sent_share(collective, links.ranks)
    return (_passes(collective) * one.hop_factor * hops, sent * slower)


def _tree(
    collective: Collective, links: LinkRates[N], constants: CollectiveConstants
) -> tuple[N, N]:
    one = constants.operations[collective]
    inside = constants.tree_hop * links.log2(links.share) * links.intra_hop_s
    levels = inside + links.log2(links.hosts) * links.inter_hop_s
    return (
        2 * one.hop_factor * levels,
        links.larger(
            sent_share(collective, links.ranks) * links.intra_s_per_byte,
            sent_share(collective, links.hosts) * links.inter_s_per_byte,
        ),
    )


def _in_switch(
    collective: Collective, links: LinkRates[N], constants: CollectiveConstants
) -> Cost[N]:
    one, switch = constants.operations[collective], constants.in_switch
    hops = switch.launch_hops * links.launch_hop_s
    hops = hops + 2 * one.hop_factor * links.log2(links.hosts) * links.inter_hop_s
    between = sent_share(collective, links.hosts) * links.inter_s_per_byte
    slower = links.larger(links.raw_s_per_byte / switch.efficiency, between)
    return Cost(hops, slower + switch.fixed_s_per_byte, links.reduces)


def _direct(
    collective: Collective, links: LinkRates[N], constants: CollectiveConstants
) -> tuple[N, N]:
    one = constants.operations[collective]
    levels = links.log2(links.share) * links.intra_hop_s
    levels = levels + links.log2(links.hosts) * links.inter_hop_s
    # What the fullest host sends to the others, all its ranks together.
    leaving = links.share * links.larger(links.ranks - links.share, 0.0) / links.ranks
    return (
        one.hop_factor * levels,
        links.larger(
            sent_share(collective, links.ranks) * links.intra_s_per_byte,
            leaving * links.inter_s_per_byte,
        ),
    )


#: Forms that NCCL has for each operation besides in-switch reduction; it takes the fastest.
_FORMS: Mapping[Collective, tuple[Callable[..., tuple[Any, Any]], ...]] = MappingProxyType(
    {
        Collective.ALL_REDUCE: (_ring, _tree),
        Collective.ALL_GATHER: (_ring,),
        Collective.REDUCE_SCATTER: (_ring,),
        Collective.ALL_TO_ALL: (_direct,),
        Collective.BROADCAST: (_ring,),
        Collective.SEND_RECV: (_ring,),
    }
)


class FormCurve(NamedTuple):
    """Time of one form of a collective on one group.

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
    one = known.operations[collective]
    of_two, inside, between = _link_numbers(collective, group.links)
    scale = max(inside, between) if group.hosts > 1 else inside
    rates = of_two._replace(ranks=group.ranks, hosts=group.hosts)
    return tuple(_curve(cost, one, scale) for cost in form_costs(collective, rates, known))


def _curve(cost: Cost[float], one: OperationConstants, scale: float) -> FormCurve:
    latency_s, s_per_byte, _ = cost
    paid, knees = 1.0, []
    for height, width in zip(one.fill_heights, one.fill_widths, strict=True):
        paid += height * scale
        unpaid = height * width * scale * latency_s * latency_s
        # A knee without a height changes nothing.
        if unpaid:
            knees.append((unpaid, max(width * latency_s, SHORTEST_S)))
    return FormCurve(latency_s * paid, s_per_byte, tuple(knees))


@lru_cache(maxsize=4_096)
def _link_numbers(
    collective: Collective, links: WorldLinks
) -> tuple[LinkRates[float], float, float]:
    """Return what the columns say of links, and the filling costs of the two levels.

    Two ranks and hosts stand for any number.
    """
    known, two = CollectiveConstants.fitted(), WorldGroup(2.0, 2.0, links).columns()
    rates, (intra, inter) = link_rates(collective, two, known), link_classes(two)
    several = links.largest_share > 1
    numbers = [np.asarray(column).item() for column in rates[:-2]]
    return (
        LinkRates._make((*numbers, max, math.log2)),
        known.by_link("fill_scale", intra).item() if several else 0.0,
        known.by_link("fill_scale", inter).item(),
    )


def fastest_s(curves: Sequence[FormCurve], sizes_bytes: Sequence[float]) -> list[float]:
    """Return the time of a collective by its fastest form, for each size.

    Parameters
    ----------
    curves : sequence of FormCurve
        Of one group; none means that it has one rank.

    Returns
    -------
    list of float
        Seconds.

    Examples
    --------
    >>> fastest_s([FormCurve(1e-5, 1e-9, ()), FormCurve(1e-6, 1e-8, ())], [1e2, 1e6])
    [2e-06, 0.00101]
    """
    times = [_times_s(curve, sizes_bytes) for curve in curves]
    if not times:
        return [0.0] * len(sizes_bytes)
    best = times[0] if len(times) == 1 else list(map(min, *times))
    return best if min(sizes_bytes, default=1.0) > 0 else _nothing_sent(best, sizes_bytes)


def _times_s(curve: FormCurve, sizes_bytes: Sequence[float]) -> list[float]:
    base_s, s_per_byte, knees = curve
    if len(knees) == 2:
        # As all have that were fitted, but for one rank and the like.
        (unpaid, knee), (more, later) = knees
        return [
            (x := size * s_per_byte) + base_s - unpaid / (x + knee) - more / (x + later)
            for size in sizes_bytes
        ]
    times = [size * s_per_byte + base_s for size in sizes_bytes]
    for unpaid, knee in knees:
        times = [
            t - unpaid / (s * s_per_byte + knee) for t, s in zip(times, sizes_bytes, strict=True)
        ]
    return times


def _nothing_sent(times_s: list[float], sizes_bytes: Sequence[float]) -> list[float]:
    """Return the times with those of empty payloads at 0."""
    return [time if size > 0 else 0.0 for time, size in zip(times_s, sizes_bytes, strict=True)]

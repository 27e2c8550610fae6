r"""Ways to carry out a collective: each is a latency and a time per byte of its payload.

With ``n`` ranks on ``h`` hosts, ``m`` of them on the fullest host, ``x`` the seconds per byte of a
link at its efficiency and ``t`` the latency of a hop (``i`` inside a host, ``x`` between hosts):

=============  ====================================  =======================================
form           latency beyond the start              time per byte
=============  ====================================  =======================================
ring           r ((n-h) t_i + (h-1) t_x)             r (n-1)/n max(x_i, x_x)
tree           2 (k log2 m t_i + log2 h t_x)         max(2 (n-1)/n x_i, 2 (h-1)/h x_x)
in switch      2 log2 h t_x                          max(x_switch, 2 (h-1)/h x_x)
hierarchical   r ((m-1) t_i + (h-1) t_x)             r ((m-1)/m x_i + (h-1)/h x_x)
direct         log2 m t_i + log2 h t_x               max((n-1)/n x_i, m (n-m)/n x_x)
=============  ====================================  =======================================

``r`` is 2 for an all-reduce and 1 for an all-gather or a reduce-scatter. A broadcast and a send
pass the whole payload along the ring (``1`` in place of ``(n-1)/n``). Ring, tree and in-switch
reduction fill all links at once (chunks follow each other), so the slower level counts; the
hierarchical form ends one level before it begins the next, so both count. A tree is the pair of
binary trees between hosts with chains inside; inside one host its levels cost ``k`` hops. The bytes
between hosts are those of a whole host, as :class:`CommGroups` states that bandwidth.

Every form but the in-switch one adds the copy of a rank's own shard (an ``n``-th of the payload),
for which the cores that drive an NVLink are missed there, and work per byte that no link speeds up.

Reference: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
MPICH, 2005; Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and
scan, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.placement.collectives.collective_constants import (
    Collective,
    CollectiveConstants,
)
from perfmodel.placement.fabric.groups import CommGroups, IntArray
from perfmodel.placement.topology.links import LinkClass

FloatArray = npt.NDArray[np.float64]


class Form(StrEnum):
    """Algorithms of a collective."""

    RING = "ring"
    TREE = "tree"
    IN_SWITCH = "in_switch"
    HIERARCHICAL = "hierarchical"
    DIRECT = "direct"


#: Forms that NCCL has for each operation; it takes the fastest.
LIBRARY_FORMS: Mapping[Collective, tuple[Form, ...]] = MappingProxyType(
    {
        Collective.ALL_REDUCE: (Form.RING, Form.TREE, Form.IN_SWITCH),
        Collective.ALL_GATHER: (Form.RING,),
        Collective.REDUCE_SCATTER: (Form.RING,),
        Collective.ALL_TO_ALL: (Form.DIRECT,),
        Collective.BROADCAST: (Form.RING,),
        Collective.SEND_RECV: (Form.RING,),
    }
)


#: Those and what other software does on hosts with a slow network.
POSSIBLE_FORMS: Mapping[Collective, tuple[Form, ...]] = MappingProxyType(
    {
        op: forms
        if op in (Collective.ALL_TO_ALL, Collective.SEND_RECV)
        else (*forms, Form.HIERARCHICAL)
        for op, forms in LIBRARY_FORMS.items()
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Latency and time per byte of groups, arrays of one shape."""

    latency_s: FloatArray
    s_per_byte: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkRates:
    """Groups as the forms need them: seconds per byte and per hop at both levels."""

    ranks: FloatArray
    hosts: FloatArray
    share: FloatArray
    intra_s_per_byte: FloatArray
    inter_s_per_byte: FloatArray
    intra_hop_s: FloatArray
    inter_hop_s: FloatArray
    launch_hop_s: FloatArray
    #: Copy of a whole payload; a rank copies its own shard of it.
    copy_s_per_byte: FloatArray
    #: Groups whose switch reduces, and 1 / bandwidth there.
    reduces: npt.NDArray[np.bool_]
    raw_s_per_byte: FloatArray

    @property
    def even_ranks(self) -> FloatArray:
        """Ranks if every host had as many as the fullest: a fuller last host copies no less."""
        return self.hosts * self.share

    @property
    def slower_s_per_byte(self) -> FloatArray:
        """Of the slower level."""
        return np.maximum(self.intra_s_per_byte, self.inter_s_per_byte)


def form_costs(
    forms: Iterable[Form],
    collective: Collective,
    groups: CommGroups,
    constants: CollectiveConstants,
) -> Iterator[Cost]:
    """Yield what each form of a collective costs groups.

    Parameters
    ----------
    groups : CommGroups
        With at least 2 ranks; others get numbers without meaning.

    Yields
    ------
    Cost
        Of infinite latency where the groups cannot carry out the form; nothing for a form that
        none of them can.
    """
    links = link_rates(collective, groups, constants)
    for form in forms:
        if form in POSSIBLE_FORMS[collective] and (
            form is not Form.IN_SWITCH or links.reduces.any()
        ):
            yield _cost(form, collective, links, constants)


def _cost(
    form: Form, collective: Collective, links: LinkRates, constants: CollectiveConstants
) -> Cost:
    cost = _FORMS[form](collective, links, constants)
    if form is Form.IN_SWITCH:
        return cost
    one = constants.operations[collective]
    # Every rank of an exchange among all has a shard of its own, however full its host.
    shards = links.ranks if collective is Collective.ALL_TO_ALL else links.even_ranks
    return Cost(
        latency_s=cost.latency_s + one.launch_hops * links.launch_hop_s,
        s_per_byte=cost.s_per_byte + links.copy_s_per_byte / shards + one.fixed_s_per_byte,
    )


def link_rates(
    collective: Collective, groups: CommGroups, constants: CollectiveConstants
) -> LinkRates:
    """Return what links and constants say of groups, whichever the form.

    Parameters
    ----------
    collective, groups, constants
        As for :func:`form_costs`.
    """
    intra, inter = link_classes(groups)
    raw = 1 / np.maximum(groups.intra_bytes_per_s, 1.0)
    far = 1 / np.maximum(groups.inter_bytes_per_s, 1.0)
    hop = groups.intra_latency_s * constants.latency_scale_of(intra)
    several = groups.largest_share > 1
    hosts, ranks = np.maximum(groups.hosts, 1.0), np.maximum(groups.ranks, 2.0)
    inside = np.where(several, raw / constants.efficiency_of(collective, intra), 0.0)
    between = np.where(hosts > 1, far / constants.efficiency_of(collective, inter), 0.0)
    copy = constants.operations[collective].copy_share * constants.copy_scale_of(intra)
    least = constants.in_switch.least_bytes_per_s
    return LinkRates(
        ranks=ranks,
        hosts=hosts,
        share=np.maximum(groups.largest_share, 1.0),
        intra_s_per_byte=inside,
        inter_s_per_byte=between,
        intra_hop_s=hop,
        inter_hop_s=groups.inter_latency_s + constants.hop_overhead_of(inter),
        launch_hop_s=np.maximum(hop, constants.least_latency_s),
        copy_s_per_byte=copy * inside,
        reduces=several & (intra == LinkClass.NVSWITCH) & (groups.intra_bytes_per_s >= least),
        raw_s_per_byte=raw,
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


def _passes(collective: Collective) -> float:
    return 2.0 if collective is Collective.ALL_REDUCE else 1.0


def _sent(collective: Collective, count: FloatArray) -> FloatArray:
    """Return the share of the payload that crosses each link of a ring of so many."""
    if collective in (Collective.BROADCAST, Collective.SEND_RECV):
        return np.where(count > 1, 1.0, 0.0)
    return _passes(collective) * (count - 1) / count


def _ring(collective: Collective, links: LinkRates, constants: CollectiveConstants) -> Cost:
    one = constants.operations[collective]
    hops = (links.ranks - links.hosts) * links.intra_hop_s
    hops = hops + (links.hosts - 1) * links.inter_hop_s
    return Cost(
        latency_s=_passes(collective) * one.hop_factor * hops,
        s_per_byte=_sent(collective, links.ranks) * links.slower_s_per_byte,
    )


def _tree(collective: Collective, links: LinkRates, constants: CollectiveConstants) -> Cost:
    one = constants.operations[collective]
    inside = constants.tree_hop * np.log2(links.share) * links.intra_hop_s
    levels = inside + np.log2(links.hosts) * links.inter_hop_s
    return Cost(
        latency_s=2 * one.hop_factor * levels,
        s_per_byte=np.maximum(
            _sent(collective, links.ranks) * links.intra_s_per_byte,
            _sent(collective, links.hosts) * links.inter_s_per_byte,
        ),
    )


def _in_switch(collective: Collective, links: LinkRates, constants: CollectiveConstants) -> Cost:
    one, switch = constants.operations[collective], constants.in_switch
    hops = switch.launch_hops * links.launch_hop_s
    hops = hops + 2 * one.hop_factor * np.log2(links.hosts) * links.inter_hop_s
    between = _sent(collective, links.hosts) * links.inter_s_per_byte
    slower = np.maximum(links.raw_s_per_byte / switch.efficiency, between)
    can = links.reduces & (collective is Collective.ALL_REDUCE)
    return Cost(latency_s=np.where(can, hops, np.inf), s_per_byte=slower + switch.fixed_s_per_byte)


def _hierarchical(collective: Collective, links: LinkRates, constants: CollectiveConstants) -> Cost:
    one = constants.operations[collective]
    hops = (links.share - 1) * links.intra_hop_s + (links.hosts - 1) * links.inter_hop_s
    inside = _sent(collective, links.share) * links.intra_s_per_byte
    between = _sent(collective, links.hosts) * links.inter_s_per_byte
    return Cost(latency_s=_passes(collective) * one.hop_factor * hops, s_per_byte=inside + between)


def _direct(collective: Collective, links: LinkRates, constants: CollectiveConstants) -> Cost:
    one = constants.operations[collective]
    levels = np.log2(links.share) * links.intra_hop_s + np.log2(links.hosts) * links.inter_hop_s
    # What the fullest host sends to the others, all its ranks together.
    leaving = links.share * np.maximum(links.ranks - links.share, 0.0) / links.ranks
    return Cost(
        latency_s=one.hop_factor * levels,
        s_per_byte=np.maximum(
            _sent(collective, links.ranks) * links.intra_s_per_byte,
            leaving * links.inter_s_per_byte,
        ),
    )


_FORMS: Mapping[Form, Callable[[Collective, LinkRates, CollectiveConstants], Cost]] = (
    MappingProxyType(
        {
            Form.RING: _ring,
            Form.TREE: _tree,
            Form.IN_SWITCH: _in_switch,
            Form.HIERARCHICAL: _hierarchical,
            Form.DIRECT: _direct,
        }
    )
)

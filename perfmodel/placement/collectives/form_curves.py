r"""One group at a time: the forms of a collective as curves over bytes, in a few plain numbers.

:mod:`.collectives` answers columns of groups and sizes. A scheduler that asks for one placement
after the other has columns of length one, on which arrays cost a hundred times what their numbers
do. What links and constants say is therefore taken from the columns once for all groups over the
same links; on plain numbers are the forms of :mod:`.collective_forms` that data-parallel replicas
use, over ranks and hosts, and their time,

.. math:: T(S) = b + x S - \sum_k \frac{u_k}{x S + d_k}.

Answers of both ways agree to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collective_forms import link_classes, link_rates
from perfmodel.placement.collectives.collective_operations import OperationConstants
from perfmodel.placement.collectives.collectives import SHORTEST_S
from perfmodel.placement.topology.world_group import WorldGroup, WorldLinks


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


class _LinkNumbers(NamedTuple):
    """One row of :class:`.collective_forms.LinkRates`, what ranks and hosts change left out."""

    intra_s_per_byte: float
    inter_s_per_byte: float
    intra_hop_s: float
    inter_hop_s: float
    launch_hop_s: float
    copy_s_per_byte: float
    raw_s_per_byte: float
    reduces: bool
    #: Filling costs of the two levels.
    fill_inside: float
    fill_between: float


class _Cost(NamedTuple):
    latency_s: float
    s_per_byte: float


def form_curves(collective: Collective, group: WorldGroup) -> tuple[FormCurve, ...]:
    """Return the curves of the forms of NCCL that a group can carry out.

    Parameters
    ----------
    collective : Collective
        An all-reduce, an all-gather or a reduce-scatter.
    group : WorldGroup

    Returns
    -------
    tuple of FormCurve
        Empty for a group of one rank.
    """
    if group.ranks <= 1:
        return ()
    known = CollectiveConstants.fitted()
    one, links = known.operations[collective], _link_numbers(collective, group.links)
    if collective is Collective.ALL_REDUCE:
        costs = [_ring(2.0, group, links, one), _tree(group, links, known, one)]
        if links.reduces:
            costs.append(_in_switch(group, links, known, one))
    else:
        costs = [_ring(1.0, group, links, one)]
    between = links.fill_between if group.hosts > 1 else 0.0
    scale = max(links.fill_inside, between)
    return tuple([_curve(cost, one, scale) for cost in costs])


def _curve(cost: _Cost, one: OperationConstants, scale: float) -> FormCurve:
    latency = cost.latency_s
    knees = [
        # A knee without a height changes nothing.
        (unpaid, width * latency)
        for height, width in zip(one.fill_heights, one.fill_widths, strict=True)
        if (unpaid := height * width * scale * latency * latency)
    ]
    return FormCurve(latency * (1 + sum(one.fill_heights) * scale), cost.s_per_byte, tuple(knees))


def _ring(passes: float, group: WorldGroup, links: _LinkNumbers, one: OperationConstants) -> _Cost:
    ranks, hosts, _ = group
    hops = (ranks - hosts) * links.intra_hop_s
    hops = hops + (hosts - 1) * links.inter_hop_s
    slower = max(links.intra_s_per_byte, links.inter_s_per_byte)
    return _started(
        passes * one.hop_factor * hops, passes * (ranks - 1) / ranks * slower, group, links, one
    )


def _tree(
    group: WorldGroup, links: _LinkNumbers, known: CollectiveConstants, one: OperationConstants
) -> _Cost:
    ranks, hosts, _ = group
    inside = known.tree_hop * math.log2(group.links.largest_share) * links.intra_hop_s
    levels = inside + math.log2(hosts) * links.inter_hop_s
    within = 2 * (ranks - 1) / ranks * links.intra_s_per_byte
    between = 2 * (hosts - 1) / hosts * links.inter_s_per_byte
    return _started(2 * one.hop_factor * levels, max(within, between), group, links, one)


def _started(
    latency_s: float,
    s_per_byte: float,
    group: WorldGroup,
    links: _LinkNumbers,
    one: OperationConstants,
) -> _Cost:
    """Add the start of an operation, the copy of the own shard, and work that no link speeds up."""
    return _Cost(
        latency_s + one.launch_hops * links.launch_hop_s,
        s_per_byte + links.copy_s_per_byte / group.ranks + one.fixed_s_per_byte,
    )


def _in_switch(
    group: WorldGroup, links: _LinkNumbers, known: CollectiveConstants, one: OperationConstants
) -> _Cost:
    hosts, switch = group.hosts, known.in_switch
    hops = switch.launch_hops * links.launch_hop_s
    hops = hops + 2 * one.hop_factor * math.log2(hosts) * links.inter_hop_s
    between = 2 * (hosts - 1) / hosts * links.inter_s_per_byte
    slower = max(links.raw_s_per_byte / switch.efficiency, between)
    return _Cost(hops, slower + switch.fixed_s_per_byte)


@lru_cache(maxsize=4_096)
def _link_numbers(collective: Collective, links: WorldLinks) -> _LinkNumbers:
    """Return what the columns say of links; two ranks and hosts stand for any number."""
    known, two = CollectiveConstants.fitted(), WorldGroup(2.0, 2.0, links).columns()
    rates, (intra, inter) = link_rates(collective, two, known), link_classes(two)
    named = (name for name in _LinkNumbers._fields if not name.startswith("fill"))
    several = links.largest_share > 1
    return _LinkNumbers(
        **{name: np.asarray(getattr(rates, name)).item() for name in named},
        fill_inside=known.fill_scale_of(intra).item() if several else 0.0,
        fill_between=known.fill_scale_of(inter).item(),
    )


def fastest_s(curves: Sequence[FormCurve], sizes_bytes: Iterable[float]) -> list[float]:
    """Return the time of a collective by its fastest form, for each size.

    Parameters
    ----------
    curves : sequence of FormCurve
        Of one group; none means that it has one rank.
    sizes_bytes : iterable of float

    Returns
    -------
    list of float
        Seconds.

    Examples
    --------
    >>> fastest_s([FormCurve(1e-5, 1e-9, ()), FormCurve(1e-6, 1e-8, ())], [1e2, 1e6])
    [2e-06, 0.00101]
    """
    return [_fastest_s(curves, size) if size > 0 and curves else 0.0 for size in sizes_bytes]


def _fastest_s(curves: Sequence[FormCurve], size: float) -> float:
    best = math.inf
    for base_s, s_per_byte, knees in curves:
        transfer = size * s_per_byte
        time_s = transfer + base_s
        for unpaid, knee in knees:
            time_s -= unpaid / max(transfer + knee, SHORTEST_S)
        if time_s < best:
            best = time_s
    return best

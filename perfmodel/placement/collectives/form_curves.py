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
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collective_forms import link_classes, link_rates
from perfmodel.placement.collectives.collective_operations import (
    InSwitchConstants,
    OperationConstants,
)
from perfmodel.placement.collectives.collectives import SHORTEST_S
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks


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
    #: To start the operation.
    start_s: float
    #: Filling costs of the two levels.
    fill_inside: float
    fill_between: float


def form_curves(collective: Collective, group: WorldGroup) -> tuple[FormCurve, ...]:
    """Return the curves of the forms of NCCL that a group can carry out.

    Parameters
    ----------
    collective : Collective
        An all-reduce, an all-gather or a reduce-scatter.

    Returns
    -------
    tuple of FormCurve
        Empty for a group of one rank.
    """
    if group.ranks <= 1:
        return ()
    known = CollectiveConstants.fitted()
    one, links = known.operations[collective], _link_numbers(collective, group.links)
    scale = links.fill_inside
    if group.hosts > 1:
        scale = max(scale, links.fill_between)
    if collective is not Collective.ALL_REDUCE:
        return (_curve(*_ring(1.0, group, links, one), one, scale),)
    curves = [
        _curve(*_ring(2.0, group, links, one), one, scale),
        _curve(*_tree(group, links, known.tree_hop, one), one, scale),
    ]
    if links.reduces:
        curves.append(_curve(*_in_switch(group, links, known.in_switch, one), one, scale))
    return tuple(curves)


def _curve(latency_s: float, s_per_byte: float, one: OperationConstants, scale: float) -> FormCurve:
    paid, knees = 1.0, []
    for height, width in zip(one.fill_heights, one.fill_widths, strict=True):
        paid += height * scale
        unpaid = height * width * scale * latency_s * latency_s
        # A knee without a height changes nothing.
        if unpaid:
            knees.append((unpaid, max(width * latency_s, SHORTEST_S)))
    return FormCurve(latency_s * paid, s_per_byte, tuple(knees))


def _ring(
    passes: float, group: WorldGroup, links: _LinkNumbers, one: OperationConstants
) -> tuple[float, float]:
    ranks, hosts, on_host = group
    hops = (ranks - hosts) * links.intra_hop_s + (hosts - 1) * links.inter_hop_s
    slower = max(links.intra_s_per_byte, links.inter_s_per_byte)
    return (
        passes * one.hop_factor * hops + links.start_s,
        passes * (ranks - 1) / ranks * slower
        + links.copy_s_per_byte / (hosts * on_host.largest_share)
        + one.fixed_s_per_byte,
    )


def _tree(
    group: WorldGroup, links: _LinkNumbers, tree_hop: float, one: OperationConstants
) -> tuple[float, float]:
    ranks, hosts, on_host = group
    inside = tree_hop * math.log2(on_host.largest_share) * links.intra_hop_s
    levels = inside + math.log2(hosts) * links.inter_hop_s
    within = 2 * (ranks - 1) / ranks * links.intra_s_per_byte
    between = 2 * (hosts - 1) / hosts * links.inter_s_per_byte
    return (
        2 * one.hop_factor * levels + links.start_s,
        max(within, between)
        + links.copy_s_per_byte / (hosts * on_host.largest_share)
        + one.fixed_s_per_byte,
    )


def _in_switch(
    group: WorldGroup, links: _LinkNumbers, switch: InSwitchConstants, one: OperationConstants
) -> tuple[float, float]:
    hosts = group.hosts
    hops = switch.launch_hops * links.launch_hop_s
    hops += 2 * one.hop_factor * math.log2(hosts) * links.inter_hop_s
    between = 2 * (hosts - 1) / hosts * links.inter_s_per_byte
    return hops, max(links.raw_s_per_byte / switch.efficiency, between) + switch.fixed_s_per_byte


_FROM_COLUMNS = _LinkNumbers._fields[:8]


@lru_cache(maxsize=4_096)
def _link_numbers(collective: Collective, links: WorldLinks) -> _LinkNumbers:
    """Return what the columns say of links; two ranks and hosts stand for any number."""
    known, two = CollectiveConstants.fitted(), WorldGroup(2.0, 2.0, links).columns()
    rates, (intra, inter) = link_rates(collective, two, known), link_classes(two)
    rows = {name: np.asarray(getattr(rates, name)).item() for name in _FROM_COLUMNS}
    several = links.largest_share > 1
    return _LinkNumbers(
        **rows,
        start_s=known.operations[collective].launch_hops * rows["launch_hop_s"],
        fill_inside=known.fill_scale_of(intra).item() if several else 0.0,
        fill_between=known.fill_scale_of(inter).item(),
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

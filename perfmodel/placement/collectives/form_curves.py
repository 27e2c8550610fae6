r"""One group at a time: the forms of a collective as curves over bytes, in a few plain numbers.

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
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collective_forms import (
    Cost,
    LinkRates,
    form_costs,
    link_classes,
    link_rates,
)
from perfmodel.placement.collectives.collective_operations import OperationConstants
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

r"""One group at a time: the forms of a collective as curves over bytes, in a few plain numbers.

:mod:`.collectives` answers columns of groups and sizes. A scheduler that asks for one placement
after the other has columns of length one, on which arrays cost a hundred times what their numbers
do. Everything but the bytes is therefore worked out once for a group, by the same columns,

.. math:: T(S) = b + x S - \sum_k \frac{u_k}{x S + d_k},

and then evaluated on plain numbers. Answers of both ways agree to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collective_forms import LIBRARY_FORMS, form_costs
from perfmodel.placement.collectives.collectives import SHORTEST_S, fill_scale
from perfmodel.placement.topology.groups import CommGroups


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


def form_curves(
    collective: Collective, groups: CommGroups, constants: CollectiveConstants | None = None
) -> list[tuple[FormCurve, ...]]:
    """Return the curves of the forms that each group can carry out.

    Parameters
    ----------
    collective : Collective
    groups : CommGroups
        Flat columns.
    constants : CollectiveConstants or None
        The shipped ones where None.

    Returns
    -------
    list of tuple of FormCurve
        One tuple a group; empty for a group of one rank.
    """
    known = constants or CollectiveConstants.fitted()
    one, scale = known.operations[collective], fill_scale(groups, known)
    several = groups.ranks > 1
    found: list[list[FormCurve]] = [[] for _ in range(groups.ranks.size)]
    for cost in form_costs(LIBRARY_FORMS[collective], collective, groups, known):
        latency = np.where(np.isfinite(cost.latency_s), cost.latency_s, 0.0)
        base_s = (latency * (1 + sum(one.fill_heights) * scale)).tolist()
        rates = np.broadcast_to(cost.s_per_byte, several.shape).tolist()
        knees = [
            ((h * w * scale * latency * latency).tolist(), (w * latency).tolist())
            for h, w in zip(one.fill_heights, one.fill_widths, strict=True)
        ]
        for row in np.flatnonzero(several & np.isfinite(cost.latency_s)).tolist():
            # A knee without a height changes nothing.
            counted = tuple((u[row], d[row]) for u, d in knees if u[row])
            found[row].append(FormCurve(base_s[row], rates[row], counted))
    return [tuple(curves) for curves in found]


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

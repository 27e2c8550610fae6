r"""Time of collectives over any groups of accelerators.

A form of a collective has a latency :math:`L` and transfers for :math:`X` seconds (see
:mod:`.collective_forms`). Libraries change protocol as messages grow: each gives
up some latency for a better use of the link. With heights :math:`a_k` and widths :math:`b_k`,

.. math:: T = L + X + L \sum_k a_k \frac{X}{X + b_k L},

which is :math:`L` for short messages and :math:`X + (1 + \sum a_k) L` for long ones. :math:`T`
rises with :math:`L` and with :math:`X`, so it rises with bytes and latency, falls with bandwidth,
and never lies below the transfer at the link's full rate. The fastest form counts.

Left out: other traffic on the same links (divide the bandwidth), and the collectives that
serving frameworks write themselves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_constants import CollectiveConstants
from perfmodel.placement.collectives.collective_forms import (
    SHORTEST_S,
    Cost,
    form_costs,
    link_classes,
    link_rates,
)
from perfmodel.placement.collectives.collective_operations import Collective, OperationConstants
from perfmodel.placement.fabric.groups import CommGroups

__all__ = ["Collective", "CollectiveConstants", "collective_time_s"]


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
    size = np.asarray(size_bytes, dtype=np.float64)
    one, scale = known.operations[collective], fill_scale(groups, known)
    links = link_rates(collective, groups, known)
    times = [_time_s(size, cost, one, scale) for cost in form_costs(collective, links, known)]
    best = times[0]
    for time_s in times[1:]:
        best = np.minimum(best, time_s)
    return np.where((groups.ranks > 1) & (size > 0), best, 0.0)


def fill_scale(groups: CommGroups, constants: CollectiveConstants) -> FloatArray:
    """Return the larger filling cost of the levels that a group uses."""
    intra, inter = link_classes(groups)
    inside, between = (constants.by_link("fill_scale", links) for links in (intra, inter))
    return np.maximum(
        np.where(groups.largest_share > 1, inside, 0.0), np.where(groups.hosts > 1, between, 0.0)
    )


def _time_s(
    size: FloatArray, cost: Cost[FloatArray], one: OperationConstants, scale: FloatArray
) -> FloatArray:
    # Columns of groups are narrow, sizes wide: what can be is multiplied before they meet.
    latency, transfer = cost.latency_s, size * cost.s_per_byte
    time_s = transfer + latency * (1 + sum(one.fill_heights) * scale)
    for height, width in zip(one.fill_heights, one.fill_widths, strict=True):
        # a L X / (X + b L) is a L less what is not paid yet, a L b L / (X + b L).
        unpaid = height * width * scale * latency * latency
        time_s -= unpaid / np.maximum(transfer + width * latency, SHORTEST_S)
    return time_s if cost.possible is True else np.where(cost.possible, time_s, np.inf)

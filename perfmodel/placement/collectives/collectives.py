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

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from perfmodel.placement.collectives.collective_constants import CollectiveConstants
from perfmodel.placement.collectives.collective_forms import (
    LIBRARY_FORMS,
    Cost,
    Form,
    form_costs,
    link_classes,
)
from perfmodel.placement.collectives.collective_operations import Collective, OperationConstants
from perfmodel.placement.fabric.groups import CommGroups

__all__ = [
    "Collective",
    "CollectiveConstants",
    "Form",
    "bus_bandwidth_bytes_per_s",
    "collective_time_s",
]

FloatArray = npt.NDArray[np.float64]

#: Keeps quotients finite where neither latency nor transfer takes time.
SHORTEST_S = 1e-30


def collective_time_s(
    collective: Collective,
    size_bytes: npt.ArrayLike,
    groups: CommGroups,
    constants: CollectiveConstants | None = None,
    *,
    forms: Iterable[Form] | None = None,
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
    forms : iterable of Form or None
        Those to choose from; None for what NCCL has.

    Returns
    -------
    ndarray
        Seconds; 0 where there is one rank or nothing to send, infinite where none of the forms
        asked for can be carried out.

    Examples
    --------
    Eight accelerators, 450 GB/s each: 1 GB cannot be gathered faster than 7/8 GB / 450 GB/s.

    >>> from perfmodel.placement.fabric.groups import LinkClass
    >>> eight = CommGroups.one_host([8], LinkClass.NVSWITCH, 450e9, 7e-7)
    >>> bool(collective_time_s(Collective.ALL_GATHER, 1e9, eight)[0] > 7 / 8 / 450)
    True
    """
    known = constants or CollectiveConstants.fitted()
    size = np.asarray(size_bytes, dtype=np.float64)
    one, scale = known.operations[collective], fill_scale(groups, known)
    chosen = LIBRARY_FORMS[collective] if forms is None else tuple(forms)
    best: FloatArray = np.full(np.broadcast_shapes(size.shape, np.shape(groups.ranks)), np.inf)
    for cost in form_costs(chosen, collective, groups, known):
        best = np.minimum(best, _time_s(size, cost, one, scale))
    return np.where((groups.ranks > 1) & (size > 0), best, 0.0)


def fill_scale(groups: CommGroups, constants: CollectiveConstants) -> FloatArray:
    """Return the larger filling cost of the levels that a group uses."""
    intra, inter = link_classes(groups)
    inside, between = constants.fill_scale_of(intra), constants.fill_scale_of(inter)
    return np.maximum(
        np.where(groups.largest_share > 1, inside, 0.0), np.where(groups.hosts > 1, between, 0.0)
    )


def _time_s(size: FloatArray, cost: Cost, one: OperationConstants, scale: FloatArray) -> FloatArray:
    # Columns of groups are narrow, sizes wide: what can be is multiplied before they meet.
    impossible = ~np.isfinite(cost.latency_s)
    latency = np.where(impossible, 0.0, cost.latency_s)
    transfer = size * cost.s_per_byte
    time_s = transfer + latency * (1 + sum(one.fill_heights) * scale)
    for height, width in zip(one.fill_heights, one.fill_widths, strict=True):
        # a L X / (X + b L) is a L less what is not paid yet, a L b L / (X + b L).
        unpaid = height * width * scale * latency * latency
        time_s -= unpaid / np.maximum(transfer + width * latency, SHORTEST_S)
    return np.where(impossible, np.inf, time_s) if np.any(impossible) else time_s


def bus_bandwidth_bytes_per_s(
    collective: Collective, size_bytes: npt.ArrayLike, ranks: npt.ArrayLike, time_s: npt.ArrayLike
) -> FloatArray:
    """Return the rate at which each link of a ring would have carried a collective.

    It can be held against the link's own rate, whatever the number of ranks.

    Parameters
    ----------
    size_bytes, ranks, time_s : array_like
        As for :func:`collective_time_s`.

    Returns
    -------
    ndarray
        Bytes/s.

    Examples
    --------
    1 GB reduced by 8 ranks in 5 ms crosses each link 2 * 7/8 times: 350 GB/s.

    >>> float(bus_bandwidth_bytes_per_s(Collective.ALL_REDUCE, 1e9, 8, 5e-3)) / 1e9
    350.0
    """
    count = np.asarray(ranks, dtype=np.float64)
    if collective in (Collective.BROADCAST, Collective.SEND_RECV):
        share = np.ones(count.shape)
    else:
        share = (count - 1) / count * (2 if collective is Collective.ALL_REDUCE else 1)
    return np.asarray(share * np.asarray(size_bytes) / np.asarray(time_s))

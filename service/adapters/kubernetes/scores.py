r"""From predicted throughputs to what a scheduler adds up.

All of them are functions of the ratio to the best candidate alone, rising with it, so that a
faster accelerator never scores less than a slower one, whatever else is on the list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from service.adapters.kubernetes.rates import Cell

#: Extents of the score of an extender (kube-scheduler's MinExtenderPriority, MaxExtenderPriority).
LEAST, MOST = 0, 10
#: Score of a candidate of which nothing is known: neither for nor against it.
NEUTRAL = 5
#: Volcano has no such extents; a percentage reads well beside its other plugins.
NEUTRAL_PERCENT = 50.0


def ratios(cells: Sequence[Cell | None], *, may_exclude: bool = True) -> list[float | None]:
    """Return the throughput of each cell over that of the best one on which the job fits.

    Returns
    -------
    list of float or None
        0 where it does not fit, None where nothing is predicted.
    """
    rates = [
        None if cell is None else cell.samples_per_second * (cell.fits or not may_exclude)
        for cell in cells
    ]
    best = max((rate for rate in rates if rate is not None), default=0.0)
    return [None if rate is None else rate / best if best > 0 else 0.0 for rate in rates]


def extender_score(ratio: float) -> int:
    r"""Return the score of a node in an extender.

    .. math:: s = \max(1, \mathrm{round}(10 + 10 \log_{10} r)), \qquad s(0) = 0

    A level is one decibel: half the throughput is three levels down.

    Parameters
    ----------
    ratio : float
        Throughput over that of the best candidate, in [0, 1]; 0 where the job does not fit.

    Examples
    --------
    >>> [extender_score(ratio) for ratio in (1.0, 0.5, 0.1, 0.0)]
    [10, 7, 1, 0]
    """
    if ratio <= 0:
        return LEAST
    return max(LEAST + 1, min(MOST, round(MOST + 10 * math.log10(ratio))))


def percent_score(ratio: float) -> float:
    """Return the score of a node in Volcano, from 0 to 100.

    Examples
    --------
    >>> percent_score(0.4)
    40.0
    """
    return round(100.0 * min(max(ratio, 0.0), 1.0), 6)


def affinity_weight(ratio: float) -> int:
    """Return the weight of a preferred node affinity, from 1 to 100.

    Examples
    --------
    >>> affinity_weight(1.0), affinity_weight(0.254), affinity_weight(0.0)
    (100, 25, 1)
    """
    return max(1, min(100, round(100 * ratio)))

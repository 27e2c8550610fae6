r"""A power limit below the board's own: the clock falls until the draw is within it.

A board at clock :math:`\varphi` (as a share of its full clock) draws

.. math:: P(\varphi) = P_{TDP}\,\bigl(s + (1 - s)\,a\,\varphi\,v(\varphi)^2\bigr),
          \qquad v(\varphi) = \max(v_0, 1 - r\,(1 - \varphi)) ,

a static part and the dynamic :math:`f V^2`, with the activity :math:`a` of the work: 1 where
arithmetic is the bound, less where memory is. The voltage follows the clock down to a floor. The
clock under a limit is the largest that draws no more. Arithmetic then takes :math:`1 / \varphi` as
long; memory has its own clock and hardly slows down, :math:`\varphi^{-\epsilon}`; the host and
waiting not at all.

Nothing here is fitted to measurements of ours; the answer is analytical. The constants are round
figures in the range that published studies of GPUs report: a static share of about a fifth at
load, a voltage that loses about 0.6 of what the clock loses, and a floor near 0.7. With them a step
half bound by arithmetic on a board capped at 60 % of its TDP takes an eighth longer.

References: Mei, Wang, Chu, A Survey and Measurement Study of GPU DVFS on Energy Conservation, 2017
(voltage and frequency); Samsi et al., Great Power, Great Responsibility, NAACL 2022 (training and
inference under power limits on V100 and A100).
"""

from __future__ import annotations

import numpy as np

from perfmodel.errors import InvalidPlacementError
from perfmodel.features.arrays import FloatArray

_STATIC_SHARE = 0.2
_VOLTAGE_SLOPE = 0.6
_VOLTAGE_FLOOR = 0.7
#: Activity where arithmetic and where memory bounds the work. Real kernels rarely draw the TDP.
_COMPUTE_ACTIVITY = 0.95
_MEMORY_ACTIVITY = 0.65
_MEMORY_EXPONENT = 0.1
#: Lowest limit that boards take, as a share of TDP: 100 of 400 W on A100 SXM, 200 of 700 W on H100
#: SXM, 100 of 350 W on RTX 3090.
LEAST_CAP_SHARE = 0.25
#: Lowest clock that the search considers; boards stay above it under any limit they take.
_LEAST_CLOCK = 0.1
_CLOCKS = np.linspace(_LEAST_CLOCK, 1.0, 901)


def power_slowdown(
    cap_w: FloatArray | float,
    tdp_w: FloatArray | float,
    compute_bound_share: FloatArray | float,
    *,
    memory_bound_share: FloatArray | float | None = None,
    pointer: str = "/placement/power_limit_w",
) -> FloatArray:
    """Return how many times as long steps take under a power limit; analytical.

    Parameters
    ----------
    cap_w, tdp_w : ndarray or float
        Limit that is set and the board's own, watts; broadcast with the shares.
    compute_bound_share : ndarray or float
        Share of the step that arithmetic bounds, in [0, 1].
    memory_bound_share : ndarray, float or None
        Share that memory bounds; None means all the rest. What neither bounds does not slow down.

    Returns
    -------
    ndarray
        >= 1, exactly 1 from the TDP on; never rises with the cap.

    Raises
    ------
    InvalidPlacementError
        A limit lower than boards take.

    Examples
    --------
    >>> float(power_slowdown(500.0, 400.0, 1.0))
    1.0
    >>> [round(float(power_slowdown(240.0, 400.0, share)), 2) for share in (1.0, 0.5, 0.0)]
    [1.35, 1.13, 1.01]
    """
    cap, tdp = np.asarray(cap_w, dtype=np.float64), np.asarray(tdp_w, dtype=np.float64)
    _refuse_too_low(cap, tdp, pointer)
    compute = np.asarray(compute_bound_share, dtype=np.float64)
    memory = np.asarray(1 - compute if memory_bound_share is None else memory_bound_share)
    work = np.maximum(compute + memory, 1e-12)
    activity = (_COMPUTE_ACTIVITY * compute + _MEMORY_ACTIVITY * memory) / work
    clock = clock_share(cap / tdp, activity)
    slower = compute / clock + memory * clock**-_MEMORY_EXPONENT + 1 - compute - memory
    return np.asarray(np.where(cap >= tdp, 1.0, np.maximum(slower, 1.0)))


def clock_share(cap_share: FloatArray, activity: FloatArray) -> FloatArray:
    """Return the largest clock, as a share of the full one, that keeps within a limit.

    Parameters
    ----------
    cap_share : ndarray
        Limit over TDP.
    activity : ndarray
        Dynamic power of the work at full clock over the most there is, in [0, 1].

    Returns
    -------
    ndarray
        In [0.1, 1].
    """
    voltage = np.maximum(_VOLTAGE_FLOOR, 1 - _VOLTAGE_SLOPE * (1 - _CLOCKS))
    dynamic = _CLOCKS * voltage**2
    # Work that draws nothing keeps its clock.
    most = (1 - _STATIC_SHARE) * np.maximum(activity, 1e-6)
    allowed = (np.asarray(cap_share) - _STATIC_SHARE) / most
    return np.asarray(np.interp(allowed, dynamic, _CLOCKS))


def _refuse_too_low(cap_w: FloatArray, tdp_w: FloatArray, pointer: str) -> None:
    least_w = LEAST_CAP_SHARE * tdp_w
    if np.any(~np.isfinite(cap_w)) or np.any(cap_w < least_w):
        cap, least, tdp = (
            float(np.broadcast_to(value, np.broadcast_shapes(cap_w.shape, tdp_w.shape)).flat[0])
            for value in (cap_w.min(), least_w.max(), tdp_w.max())
        )
        raise InvalidPlacementError(
            f"A power limit of {cap:g} W is lower than boards of {tdp:g} W take: set at least "
            f"{least:g} W.",
            pointer=pointer,
        )

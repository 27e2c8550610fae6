r"""Least squares of a nonlinear model with few unknowns: Levenberg and Marquardt's method.

Minimises :math:`\|r(x)\|^2` by steps :math:`(J^T J + \lambda D)\,\delta = -J^T r` with
:math:`D = diag(J^T J)`. A step that lowers the sum is taken and :math:`\lambda` divided by three;
one that does not is dropped and :math:`\lambda` doubled. The Jacobian is taken by forward
differences, which is exact enough for smooth residuals of order one.

Reference: Marquardt, An Algorithm for Least-Squares Estimation of Nonlinear Parameters, 1963.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perfmodel.features.arrays import FloatArray

_DIFFERENCE = 1e-6
#: A step is the last when it gains less than this share of the sum, or of this sum.
_ENOUGH = 1e-6
_SMALL_SUM = 1e-2
_MOST_DAMPING = 1e12


def dampened(errors: FloatArray, small: float) -> FloatArray:
    r"""Return residuals whose squares grow like those of small errors and like large ones.

    .. math:: \rho(r) = 2 c^2 (\sqrt{1 + (r/c)^2} - 1)

    Parameters
    ----------
    small : float
        Where one goes over into the other, c > 0.
    """
    loss = 2 * small**2 * (np.sqrt(1 + (errors / small) ** 2) - 1)
    return np.asarray(np.sign(errors) * np.sqrt(loss), dtype=np.float64)


def least_squares(
    residuals: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    *,
    steps: int = 200,
    slopes_of: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
) -> FloatArray:
    """Return the unknowns that minimise the sum of squared residuals near a start.

    Parameters
    ----------
    residuals : callable
        From unknowns, shape (k,), to residuals, shape (n,), all finite.
    start : ndarray, shape (k,)
    steps : int
        Most steps tried.
    slopes_of : callable or None
        From unknowns and their residuals to the Jacobian, shape (n, k), where it can be had for
        less than a call of ``residuals`` for each unknown.

    Examples
    --------
    A line through (0, 1) and (2, 5):

    >>> found = least_squares(lambda x: np.array([x[0] - 1, x[0] + 2 * x[1] - 5]), np.zeros(2))
    >>> [round(float(value), 6) for value in found]
    [1.0, 2.0]
    """
    x = np.asarray(start, dtype=np.float64)
    r = residuals(x)
    damping = 1e-3
    slopes = _jacobian(residuals, x, r) if slopes_of is None else slopes_of(x, r)
    for _ in range(steps):
        step = _step(slopes, r, damping)
        candidate = residuals(x + step)
        gain = float(r @ r - candidate @ candidate)
        if not gain > 0:
            damping *= 2
            if damping > _MOST_DAMPING:
                break
            continue
        x, done = x + step, gain <= _ENOUGH * max(float(r @ r), _SMALL_SUM)
        r, damping = candidate, damping / 3
        if done:
            break
        slopes = _jacobian(residuals, x, r) if slopes_of is None else slopes_of(x, r)
    return x


def _step(slopes: FloatArray, r: FloatArray, damping: float) -> FloatArray:
    normal = slopes.T @ slopes
    scale = np.maximum(np.diag(normal), 1e-12)
    step = np.linalg.solve(normal + damping * np.diag(scale), -slopes.T @ r)
    return np.asarray(step, dtype=np.float64)


def _jacobian(
    residuals: Callable[[FloatArray], FloatArray], x: FloatArray, r: FloatArray
) -> FloatArray:
    columns = []
    for position in range(len(x)):
        moved = x.copy()
        moved[position] += _DIFFERENCE
        columns.append((residuals(moved) - r) / _DIFFERENCE)
    return np.stack(columns, axis=1)

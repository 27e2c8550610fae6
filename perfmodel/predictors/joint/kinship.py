r"""Jobs that are made alike are off alike on one device.

A device whose libraries do depthwise convolutions badly is slow on every network that has many of
them. Beside what acts on all steps of a device (:mod:`.device_beliefs`), records of it share what
goes with the make of a network::

    cov(g_i, g_j) = s^2 r(i, j) exp(-d^2 / 2),   d^2 = mean over columns of (z_i - z_j)^2

with ``z`` what a network is made of in standard deviations of the graphs learned from
(:meth:`.novelty.Novelty.shapes`), and ``r`` how far the regimes of two steps agree. How much it is
differs by device: ``s`` is that of :data:`SPREADS` that its records make most likely, beside a
half-normal prior. Zero is among them, and is what few records, and devices like others, choose:
what they say of the device is then all that they say of other jobs. A device that was trained on
has less that is peculiar left, and its spreads are smaller by as much as its effects are.

Reference: C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006,
chapter 5.
"""

from __future__ import annotations

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.predictors.joint.device_beliefs import regimes_alike

#: Standard deviations of a log time that goes with the make of a network, from none to a half.
SPREADS = (0.0, 0.1, 0.2, 0.3, 0.45)
#: Scale of the prior: a single record that is off does not say whether its device or its make is.
_USUAL_SPREAD = 0.3


def kinship(
    shapes: FloatArray, features: FloatArray, other_shapes: FloatArray, other_features: FloatArray
) -> FloatArray:
    """Return how far steps share what goes with their make, from 0 to 1, shape (steps, others).

    Parameters
    ----------
    shapes, other_shapes : ndarray, shape (steps, columns)
    features, other_features : ndarray, shape (steps, coefficients)
        From :func:`.device_beliefs.features`.

    Examples
    --------
    Two equal networks, and one that is a standard deviation away in every column:

    >>> shapes, features = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), np.ones((3, 8))
    >>> kinship(shapes[:1], features[:1], shapes, features).round(3).tolist()
    [[1.0, 1.0, 0.607]]
    """
    between = ((shapes[:, None, :] - other_shapes[None, :, :]) ** 2).mean(axis=2)
    return np.asarray(np.exp(-0.5 * between) * regimes_alike(features, other_features))


def log_posterior(spread: float, covariance: FloatArray, residuals: FloatArray) -> float:
    """Return the logarithm of how credible a spread is, up to a constant of the residuals.

    Parameters
    ----------
    covariance : ndarray, shape (records, records)
        Of the residuals under that spread.
    """
    _, size = np.linalg.slogdet(covariance)
    fit = residuals @ np.linalg.solve(covariance, residuals)
    return float(-0.5 * (fit + size + (spread / _USUAL_SPREAD) ** 2))

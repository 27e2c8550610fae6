r"""Which few measurements on a new device would shrink the error of its predictions most.

A learner explains what is particular about a device by a few coefficients: with features ``x`` of
a step and coefficients ``b`` of the device,

    ln T = ln T^ + x b + e,    b ~ N(0, diag(prior)),    e ~ N(0, noise^2).

Measuring a step with features ``x`` turns the covariance ``S`` of ``b`` into

    S - S x x' S / (noise^2 + x' S x),

whatever time comes out. The expected squared error over a population of steps with features
``z_i`` is ``mean_i z_i' S z_i`` plus noise; the plan takes, one after the other, the candidate
after which it is smallest (I-optimal design, greedily), or by which it falls most a second where
it is said how long each takes.

Reference: Atkinson, Donev and Tobias, Optimum Experimental Designs, with SAS, Oxford 2007, ch. 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step


@runtime_checkable
class ProbeChooser(Protocol):
    """A learner that can say which measurements would tell it most about a device."""

    def device_features(self, steps: Sequence[Step]) -> FloatArray:
        """Return what the residual of a device is linear in, shape (steps, features)."""

    @property
    def device_prior_(self) -> FloatArray:
        """Prior variance of each coefficient of a device never measured, shape (features,)."""

    @property
    def noise_(self) -> float:
        """Standard deviation of a log time that no coefficient of a device explains, > 0."""


#: Keeps the covariance of features invertible where one of them is the same for all.
_RIDGE = 1e-4


def probe_order(
    candidates: FloatArray,
    prior: FloatArray,
    noise: float | FloatArray,
    k: int,
    *,
    population: FloatArray | None = None,
    cost_s: FloatArray | None = None,
) -> list[int]:
    """Return the k candidates to measure, best first.

    Parameters
    ----------
    candidates : ndarray, shape (candidates, features)
        Features of what could be measured.
    prior : ndarray, shape (features,) or (features, features)
        Prior variance of each coefficient, >= 0, or their covariance.
    noise : float or ndarray, shape (candidates,)
        Standard deviation of the log time of each candidate beside its features, > 0: what is
        hard to predict tells little about its device.
    k : int
        How many, >= 1; at most all candidates.
    population : ndarray, shape (steps, features), optional
        Features of what will be asked; the candidates by default.
    cost_s : ndarray, shape (candidates,), optional
        Seconds that measuring each takes, > 0; the same for all by default.

    Returns
    -------
    list of int
        Positions among the candidates, no one twice.

    Raises
    ------
    InvalidInputError
        k below one, or noise that is not positive.

    Examples
    --------
    Two unknown coefficients, of which the second is the less certain one:

    >>> probe_order(np.eye(2), np.array([1.0, 4.0]), 0.1, 2)
    [1, 0]
    >>> probe_order(np.eye(2), np.array([1.0, 4.0]), 0.1, 2, cost_s=np.array([1.0, 10.0]))
    [0, 1]
    """
    _check(k, noise)
    asked = candidates if population is None else population
    moment = asked.T @ asked / max(len(asked), 1)
    covariance = _as_covariance(prior)
    free = np.ones(len(candidates), dtype=np.bool_)
    cost = 1.0 if cost_s is None else cost_s
    chosen: list[int] = []
    for _ in range(min(k, len(candidates))):
        moved = candidates @ covariance
        spread = np.square(noise) + np.einsum("ij,ij->i", moved, candidates)
        # trace(M S x x' S) / (noise^2 + x' S x): what the mean variance loses by measuring x.
        gain = np.einsum("ij,jk,ik->i", moved, moment, moved) / spread / cost
        best = int(np.argmax(np.where(free, gain, -1.0)))
        chosen.append(best)
        free[best] = False
        covariance = covariance - np.outer(moved[best], moved[best]) / spread[best]
    return chosen


def _as_covariance(prior: FloatArray) -> FloatArray:
    given = np.asarray(prior, dtype=np.float64)
    return np.diag(given) if given.ndim == 1 else given


def prior_of(chooser: ProbeChooser, device: str) -> FloatArray:
    """Return what a chooser knows of the coefficients of a device before a plan.

    Parameters
    ----------
    chooser : ProbeChooser
        May say with a method ``device_covariance(device)`` how coefficients hang together, and
        what records it has taken into account leave of them, as
        :class:`~perfmodel.predictors.joint.joint.JointPredictor` does.

    Returns
    -------
    ndarray, shape (features, features)
    """
    covariance = getattr(chooser, "device_covariance", None)
    return _as_covariance(chooser.device_prior_ if covariance is None else covariance(device))


def _check(k: int, noise: float | FloatArray) -> None:
    if k < 1:
        raise InvalidInputError(f"k must be at least 1, got {k}.")
    if not np.all(np.asarray(noise) > 0):
        raise InvalidInputError(f"The noise must be positive, got {noise}.")


def expected_variance(
    measured: FloatArray, prior: FloatArray, noise: float | FloatArray, population: FloatArray
) -> float:
    """Return the mean variance of ``x b`` over a population after some measurements.

    Parameters
    ----------
    measured : ndarray, shape (measurements, features)
    prior : ndarray, shape (features,) or (features, features)
        Prior variances, >= 0, or the covariance.
    noise : float or ndarray, shape (measurements,)
    population : ndarray, shape (steps, features)

    Examples
    --------
    One coefficient with variance 1, measured once with noise 1: 1 / (1 + 1).

    >>> one = np.ones((1, 1))
    >>> expected_variance(one, np.ones(1), 1.0, one)
    0.5
    """
    covariance = narrowed(_as_covariance(prior), measured, noise)
    return float(np.einsum("ij,jk,ik->i", population, covariance, population).mean())


def narrowed(covariance: FloatArray, measured: FloatArray, noise: float | FloatArray) -> FloatArray:
    """Return the covariance of the coefficients of a device after some measurements.

    Parameters
    ----------
    covariance : ndarray, shape (features, features)
        Before them.
    measured : ndarray, shape (measurements, features)
    noise : float or ndarray, shape (measurements,)
    """
    shared = measured @ covariance
    spread = np.diag(np.square(np.broadcast_to(np.asarray(noise), len(measured))))
    after: FloatArray = covariance - shared.T @ np.linalg.solve(
        shared @ measured.T + spread, shared
    )
    return after


def noise_with_misfit(features: FloatArray, noise: float | FloatArray) -> FloatArray:
    r"""Return the noise of each candidate, larger the further it lies from the others.

    A step that is unlike all others has the most leverage in a linear design, and is where the
    residual of a device is least linear. With ``d`` the Mahalanobis distance from the centre of
    the ``p`` features that vary, the variance is ``noise^2 (1 + d^2 / p)``: twice the noise at a
    typical distance.

    Parameters
    ----------
    features : ndarray, shape (candidates, features)
    noise : float or ndarray, shape (candidates,)
        Standard deviation of a log time beside its device, > 0.

    Returns
    -------
    ndarray, shape (candidates,)

    Examples
    --------
    >>> noise_with_misfit(np.array([[-1.0], [0.0], [0.0], [0.0], [1.0]]), 0.1).round(3).tolist()
    [0.173, 0.1, 0.1, 0.1, 0.173]
    """
    telling = features[:, (features != features[:1]).any(axis=0)]
    size = telling.shape[1]
    if size == 0:
        return np.broadcast_to(np.asarray(noise, dtype=np.float64), len(features)).copy()
    centred = telling - telling.mean(axis=0)
    inverse = np.linalg.inv(np.atleast_2d(np.cov(telling.T)) + _RIDGE * np.eye(size))
    distance = np.einsum("ij,jk,ik->i", centred, inverse, centred)
    return np.asarray(noise * np.sqrt(1.0 + distance / size))

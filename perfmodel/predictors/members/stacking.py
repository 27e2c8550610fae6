"""Weights of an ensemble: a non-negative mix of logarithms that adds up to one."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray

#: Steps between 0 and 1 that a weight may take.
_GRID = 20
#: A member whose error is this many times that of the best gets no weight.
WORST_RATIO = 4.0
#: How strongly weights are drawn to equality, in units of the error.
_EVENNESS = 0.01
#: A member further than this factor from the median of all is left out of an answer.
OUTLIER_FACTOR = 8.0


def fit_weights(answers_s: FloatArray, times_s: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mix of members with the smallest mean relative error.

    ``T = exp(sum_m w_m log T_m)`` with ``w_m >= 0`` and ``sum_m w_m = 1``; all mixes in steps of
    1/20 are tried, so the result is the best one, and the same every time.

    Parameters
    ----------
    answers_s : ndarray, shape (samples, members)
        Answers for samples that the member has not learned from.
    times_s, weights : ndarray, shape (samples,)

    Returns
    -------
    ndarray, shape (members,)

    Raises
    ------
    TrainingError
        No member gives finite, positive answers.

    Examples
    --------
    The first member is exact, the second always 10 times too slow.

    >>> times = np.array([1.0, 2.0, 3.0])
    >>> fit_weights(np.stack([times, 10 * times], axis=1), times, np.ones(3)).tolist()
    [1.0, 0.0]
    """
    members = answers_s.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        sound = np.all(np.isfinite(answers_s) & (answers_s > 0), axis=0)
    if not sound.any():
        raise TrainingError("No predictor gave finite answers on held-out samples.")
    errors = np.full(members, np.inf)
    for member in np.flatnonzero(sound):
        relative = np.abs(answers_s[:, member] / times_s - 1.0)
        errors[member] = np.average(relative, weights=weights)
    kept = np.flatnonzero(errors <= WORST_RATIO * errors.min() + 1e-12)
    mixes = _simplex(len(kept))
    logs = np.log(answers_s[:, kept])
    mixed = np.exp(logs @ mixes.T) / times_s[:, None]
    score = np.average(np.abs(mixed - 1.0), axis=0, weights=weights)
    score = score + _EVENNESS * score.min() * (mixes**2).sum(axis=1)
    found = np.zeros(members)
    found[kept] = mixes[int(score.argmin())]
    return found


def _simplex(members: int) -> FloatArray:
    """All vectors of ``members`` multiples of 1/20 that add up to one."""
    bars = combinations(range(_GRID + members - 1), members - 1)
    rows = [np.diff([-1, *bar, _GRID + members - 1]) - 1 for bar in bars]
    return np.array(rows, dtype=np.float64) / _GRID


def mix(answers_s: FloatArray, weights: FloatArray) -> FloatArray:
    """Mix the answers of members, leaving out those that are no numbers or far from the rest.

    Parameters
    ----------
    answers_s : ndarray, shape (workloads, members)
    weights : ndarray, shape (members,)
        >= 0, at least one above 0.

    Returns
    -------
    ndarray, shape (workloads,)
        Finite and > 0 where at least one member of a workload is; NaN elsewhere.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(np.isfinite(answers_s) & (answers_s > 0), np.log(answers_s), np.nan)
    usable = np.isfinite(logs) & (weights > 0)
    if logs.shape[1] >= 3:
        filled = np.where(np.isfinite(logs), logs, np.inf)
        counts = np.maximum(np.isfinite(logs).sum(axis=1), 1)
        middle = np.take_along_axis(np.sort(filled, axis=1), ((counts - 1) // 2)[:, None], axis=1)
        near = np.abs(np.where(np.isfinite(logs), logs, np.inf) - middle) <= np.log(OUTLIER_FACTOR)
        usable = np.where((usable & near).any(axis=1, keepdims=True), usable & near, usable)
    share = np.where(usable, weights, 0.0)
    total = share.sum(axis=1)
    mixed = (share * np.where(usable, logs, 0.0)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: FloatArray = np.exp(np.where(total > 0, mixed / total, np.nan))
    return result

r"""What stands beside the completion of job types: matrix completion of rates.

*Completion* follows the description of Gavel's estimator: rates of a job over a reference rate are
a matrix of jobs by places with most entries missing. It is completed by factors of rank 10,
alternating ridge regressions with penalty 0.01, and cut to what such a share can be::

    min |mask * (R - U V^T)|^2 + mu (|U|^2 + |V|^2)

*Nearest reference* goes on as the estimator does: the row is a fingerprint, the reference job with
the smallest cosine distance to it lends its values.

Two that Gavel does not have: the same factors in logarithms around effects of job and place, and
those effects alone.

Reference: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads, OSDI 2020, section 6; Salakhutdinov and Mnih, Probabilistic Matrix Factorization, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import BoolArray, FloatArray

_RANK, _PENALTY, _ROUNDS = 10, 1e-2, 50
#: Prior deviations of the level of a job and of a place, and of what is left, in log time.
_JOB, _PLACE, _REST = 2.0, 1.0, 0.2


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Known entries of a table of jobs by places.

    Parameters
    ----------
    values : ndarray, shape (jobs, places)
        Anything where they are not known.
    known : ndarray of bool, shape (jobs, places)
    """

    values: FloatArray
    known: BoolArray


def factorised(matrix: Matrix, *, rank: int = _RANK, penalty: float = _PENALTY) -> FloatArray:
    """Complete a matrix by factors of low rank, alternating ridge regressions.

    Returns
    -------
    ndarray, shape (jobs, places)
    """
    rng = np.random.default_rng(0)
    jobs = rng.normal(size=(matrix.values.shape[0], rank)) / np.sqrt(rank)
    places = rng.normal(size=(matrix.values.shape[1], rank)) / np.sqrt(rank)
    for _ in range(_ROUNDS):
        jobs = _ridge(places, matrix.values, matrix.known, penalty)
        places = _ridge(jobs, matrix.values.T, matrix.known.T, penalty)
    return np.asarray(jobs @ places.T)


def _ridge(other: FloatArray, values: FloatArray, known: BoolArray, penalty: float) -> FloatArray:
    counted = known.astype(np.float64)
    normal = np.einsum("ij,jk,jl->ikl", counted, other, other)
    normal += penalty * np.eye(other.shape[1])
    right = (np.where(known, values, 0.0)) @ other
    return np.asarray(np.linalg.solve(normal, right[:, :, None])[:, :, 0])


def completed_rates(rates: Matrix) -> FloatArray:
    """Complete rates, each row over the largest one that is known of it.

    Rows without a known rate stay NaN. Shares are cut at 1 and at the smallest known one (the
    estimator cuts at 0, which as a time is infinite).
    """
    scale, shares = _shares(rates)
    floor = shares[rates.known].min()
    return np.asarray(np.clip(factorised(Matrix(values=shares, known=rates.known)), floor, 1.0)
                      * scale[:, None])  # fmt: skip


def nearest_reference(rates: Matrix) -> FloatArray:
    """Complete rates, then take those of the reference job with the nearest fingerprint.

    The reference's row is scaled to the known rates of the job.
    """
    scale, shares = _shares(rates)
    floor = shares[rates.known].min()
    filled = np.where(
        rates.known,
        shares,
        np.clip(factorised(Matrix(values=shares, known=rates.known)), floor, 1.0),
    )
    answer = np.full(filled.shape, np.nan)
    for row in np.flatnonzero(rates.known.any(axis=1)):
        reference = filled[nearest_row(filled, int(row))]
        known = rates.known[row]
        ratio = filled[row, known].mean() / reference[known].mean()
        answer[row] = reference * ratio * scale[row]
    return answer


def nearest_row(rows: FloatArray, row: int) -> int:
    """Return the other row with the smallest cosine distance to one."""
    lengths = np.linalg.norm(rows, axis=1)
    cosine = rows @ rows[row] / np.maximum(lengths * lengths[row], 1e-300)
    cosine[row] = -np.inf
    return int(np.argmax(cosine))


def _shares(rates: Matrix) -> tuple[FloatArray, FloatArray]:
    known = np.where(rates.known, rates.values, np.nan)
    scale = np.full(len(known), np.nan)
    rows = rates.known.any(axis=1)
    scale[rows] = np.nanmax(known[rows], axis=1)
    return scale, np.where(rates.known, rates.values / np.where(rows, scale, 1.0)[:, None], 0.0)


def effects_alone(rates: Matrix) -> FloatArray:
    """Complete the logarithms of rates by a level for each job and one for each place."""
    rows, columns = np.nonzero(rates.known)
    log_rate = np.log(rates.values[rows, columns])
    middle = float(log_rate.mean())
    same_row = np.equal.outer(rows, rows)
    same_column = np.equal.outer(columns, columns)
    shared = _JOB**2 * same_row + _PLACE**2 * same_column + _REST**2 * np.eye(len(rows))
    weights = np.linalg.solve(shared, log_rate - middle)
    jobs = np.bincount(rows, weights, minlength=len(rates.values)) * _JOB**2
    places = np.bincount(columns, weights, minlength=rates.values.shape[1]) * _PLACE**2
    answer = np.exp(middle + jobs[:, None] + places[None, :])
    return np.asarray(np.where(rates.known.any(axis=1, keepdims=True), answer, np.nan))


def completed_logs(rates: Matrix) -> FloatArray:
    """Complete the logarithms of rates around effects of job and place by factors of rank 2."""
    base = effects_alone(rates)
    rest = np.where(rates.known, np.log(np.where(rates.known, rates.values, 1.0) / base), 0.0)
    factors = factorised(Matrix(values=rest, known=rates.known), rank=2, penalty=0.3)
    return np.asarray(base * np.exp(factors))

r"""Share the time of accelerators among jobs: one linear program for several policies.

:math:`X_{rk}` is the share of its time that row :math:`r`, a job or a pair of jobs, spends on kind
:math:`k`. Of every job :math:`j` with :math:`s_j` accelerators

.. math::

    u_j = \sum_{r \ni j} \sum_k g_{jrk} X_{rk}, \qquad
    \sum_{r \ni j} \sum_k X_{rk} \le 1, \qquad
    \sum_r s_r X_{rk} \le c_k

where :math:`g` is what a policy makes of rates. Fair policies maximise the least :math:`u_j`, and
by what is left the mean of all, each beside its best; others maximise the sum. Of several solutions
that are equally good the mean of a few is taken, drawn by chance: a solver left alone would always
take the first kind, which is no better than any other to whoever does not know kinds.

Reference: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads, OSDI 2020, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cluster_simulation.rounds import FloatArray
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import block_array, coo_array

IntArray = npt.NDArray[np.int64]

#: Weight of the mean of all, each beside its best, beside the least, which must hardly change.
_MEAN_WEIGHT = 1e-2
#: How far chance moves a gain in the objective; no constraint knows of it.
_CHANCE = 1e-2
#: Solutions that are drawn, unless the first two are the same.
_DRAWS = 4


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What may run: jobs alone, and pairs.

    Parameters
    ----------
    members : ndarray of int, shape (rows, 2)
        Positions of jobs; the second is -1 for a job alone.
    rates : ndarray, shape (rows, 2, kinds)
        Of each member.
    """

    members: IntArray
    rates: FloatArray


def share_time(
    rows: Rows,
    gains: FloatArray,
    accelerators: FloatArray,
    capacity: Sequence[int],
    *,
    fair: bool,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the share of its time that each row gets on each kind.

    Parameters
    ----------
    gains : ndarray, shape (rows, 2, kinds)
        What a member gains by running there all the time; 0 for all members where the row does
        not run.
    accelerators : ndarray, shape (jobs,)
    fair : bool
        Maximise the least gain of a job, not the sum.
    rng : Generator
        Draws among solutions that are equally good.

    Returns
    -------
    ndarray, shape (rows, kinds)
    """
    jobs, kinds = len(accelerators), len(capacity)
    row, kind = np.nonzero(gains[:, 0] > 0)
    columns = np.arange(len(row))
    members, gain = rows.members[row], gains[row, :, kind]
    there = members >= 0
    job, column, gain = members[there], np.repeat(columns, there.sum(axis=1)), gain[there]
    # Of every job beside its best, and all beside what the least of the jobs can have at best:
    # both are near 1, however far apart gains are.
    best = np.zeros(jobs)
    np.maximum.at(best, job, gain)
    relative, gain = gain / best[job], gain / best[best > 0].min()
    # A job that runs nowhere would hold the least gain at zero.
    runs = np.isin(np.arange(jobs), job).astype(np.float64)
    left = block_array(
        [
            [coo_array((np.ones(len(job)), (job, column)), shape=(jobs, len(row))), None],
            [coo_array((accelerators[members[:, 0]], (kind, columns)), (kinds, len(row))), None],
            [coo_array((-gain, (job, column)), shape=(jobs, len(row))), runs[:, None]],
        ],
        format="csr",
    )
    limits = LinearConstraint(left, ub=np.concatenate([np.ones(jobs), capacity, np.zeros(jobs)]))
    value, least = (_MEAN_WEIGHT / jobs * relative, 1.0) if fair else (gain, 0.0)
    together = np.bincount(column, value, minlength=len(row))
    found: list[FloatArray] = []
    for _ in range(_DRAWS):
        moved = together * (1 + _CHANCE * rng.random(len(row)))
        # A linear program: milp gets to the solver in half of the time that linprog takes.
        solved = milp(-np.append(moved, least), constraints=limits)
        if solved.x is None:
            # Presolving may lose its way among gains that are far apart.
            solved = milp(-np.append(moved, least), constraints=limits, options={"presolve": False})
        if solved.x is None:
            raise ValueError(f"The shares of {jobs} jobs were not found: {solved.message}")
        found.append(solved.x[:-1])
        if len(found) == 2 and np.allclose(*found, atol=1e-6):
            break
    shares = np.zeros((len(rows.members), kinds))
    shares[row, kind] = np.mean(found, axis=0)
    return shares

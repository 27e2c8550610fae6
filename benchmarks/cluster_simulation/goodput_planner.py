r"""Choose a configuration for every job each round: an integer program over goodputs.

Of the goodputs :math:`G_{jc}` of job :math:`j` beside its least, each to the power of :math:`p`,

.. math:: \max_{x \in \{0, 1\}} \sum_{jc} x_{jc} \left(\lambda - (G_{jc} / \min_c G_{jc})^p\right),
   \qquad \sum_c x_{jc} \le 1, \qquad \sum_{jc} n_c x_{jc} \le c_k

with :math:`p = -1/2` and :math:`\lambda = 1.1`: a job that runs anywhere is worth more than one
that runs well. Within a configuration the job takes the batch size that is believed to be best.
Left out: what a restart costs; the choice is kept until a job arrives or is done.

Reference: Jayaram Subramanya et al., Sia: Heterogeneity-aware, goodput-optimized ML-cluster
scheduling, SOSP 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cluster_simulation.allocation import IntArray
from cluster_simulation.rounds import Arrival, FloatArray, Placed
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

_POWER, _WAITING = -0.5, 1.1
#: How far chance moves a value, so that nothing but chance tells equal configurations apart.
_CHANCE = 1e-3
#: Of the sum that a solution may be off, so that no round takes long.
_GAP = 2e-3


class GoodputPlanner:
    """Plans rounds by goodput.

    Parameters
    ----------
    goodput : ndarray, shape (applications, configurations, batch sizes)
        As the policy believes; 0 where a job does not run.
    kinds, accelerators : sequence of int
        Of each configuration.
    """

    def __init__(
        self,
        goodput: FloatArray,
        kinds: Sequence[int],
        accelerators: Sequence[int],
        trace: Sequence[Arrival],
        capacity: Sequence[int],
    ) -> None:
        self._goodput, self._trace, self._capacity = goodput.copy(), trace, tuple(capacity)
        self._kinds, self._accelerators = tuple(kinds), tuple(accelerators)
        self._rng = np.random.default_rng(0)
        self._jobs: tuple[int, ...] = ()
        self._plan: list[Placed] = []

    def failed(self, placed: Placed) -> None:
        """Never run the application so again."""
        column, size = divmod(placed.setting, self._goodput.shape[2])
        self._goodput[self._trace[placed.jobs[0]].subject, column, size] = 0.0
        self._jobs = ()

    def plan(self, active: Sequence[int], remaining: FloatArray) -> list[Placed]:
        """Return the configuration of each job that gets one."""
        if self._jobs != tuple(active):
            self._jobs = tuple(active)
            self._plan = self._choose()
        return self._plan

    def _choose(self) -> list[Placed]:
        subjects = [self._trace[job].subject for job in self._jobs]
        best = self._goodput.max(axis=2)[subjects]
        size = self._goodput.argmax(axis=2)[subjects]
        job, column = np.nonzero(best > 0)
        least = np.where(best > 0, best, np.inf).min(axis=1)
        value = _WAITING - (best[job, column] / least[job]) ** _POWER
        value = value * (1 + _CHANCE * self._rng.random(len(value)))
        chosen = self._solve(value, job, column)
        return [
            Placed(
                (self._jobs[job[at]],),
                self._kinds[column[at]],
                self._accelerators[column[at]],
                int(column[at] * self._goodput.shape[2] + size[job[at], column[at]]),
            )
            for at in np.flatnonzero(chosen).tolist()
        ]

    def _solve(self, value: FloatArray, job: IntArray, column: IntArray) -> FloatArray:
        columns = np.arange(len(value))
        once = coo_array((np.ones(len(value)), (job, columns)), (len(self._jobs), len(value)))
        sizes = np.array(self._accelerators, dtype=np.float64)[column]
        kinds = np.array(self._kinds)[column]
        room = coo_array((sizes, (kinds, columns)), (len(self._capacity), len(value)))
        solved = milp(
            -value,
            integrality=np.ones(len(value)),
            bounds=Bounds(0, 1),
            constraints=[
                LinearConstraint(once.tocsr(), ub=1),
                LinearConstraint(room.tocsr(), ub=self._capacity),
            ],
            options={"mip_rel_gap": _GAP},
        )
        if solved.x is None:
            raise ValueError(f"No choice for {len(self._jobs)} jobs was found: {solved.message}")
        return np.asarray(solved.x > 0.5)

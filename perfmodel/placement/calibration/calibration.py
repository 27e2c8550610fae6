r"""Calibrate a job by its observed steps, which sharpens every other placement of it.

What a job does differently from its prediction is the residual :math:`z` of
:mod:`.step_response`, a Gaussian process over steps
(:mod:`.residual_prior`). Observations :math:`y = h(z) + e` are the logarithm of
the step without its exposed communication and of the factor by which that lengthens it, where both
times are known; else the logarithm of the whole step. The residual is the most probable one, found
by Gauss and Newton's method in the space of observations (an iterated extended Kalman filter),

.. math::

    z \leftarrow m + K H^T (H K H^T + R)^{-1} (y - h(z) + H (z - m)), \qquad H = dh/dz,

as :mod:`.posterior` says. Where several residuals explain what was observed, a slow device or a
slow host, of a script or of a bare step, all of them answer (:mod:`.corrected`).

Of an error :math:`e = c + r` the part :math:`c` belongs to its cell for good and :math:`r` to the
measurement alone. What a cell has to itself is Student's: R grows with what an observation is off,
so that an outlier hardly counts elsewhere, while in its own cell it is believed the more. So a
cell that was observed is answered near its measurements, whatever else was observed. What is
peculiar to a job on one machine is Student's as well: a job unlike all others there says little of
them. Of very many cells some are weighed together, and each of the others is answered near its
measurements all the same (:mod:`.lone_cells`).

A pure function of the set of observations; their order does not matter, to the bit.

Reference: Bell and Cathey, The Iterated Kalman Filter Update as a Gauss-Newton Method, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps, correct_weighed
from perfmodel.placement.calibration.correcting.single_step import SingleSteps
from perfmodel.placement.calibration.lone_cells import LoneCells, spread_rows
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.paired_rows import PairedRows
from perfmodel.placement.calibration.posterior import Posterior, Weighed, probable
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Response

#: Cells that are weighed together where somebody waits: the time of it grows with their cube.
MOST_TOGETHER = 200
#: A residual that is less probable beside the others does not answer.
_LEAST_SHARE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What the observations of a job say about all of its steps.

    Parameters
    ----------
    observed : ObservedSteps
        Pooled: one row for each cell.
    weighed : tuple of Weighed
        All residuals that explain them, the most probable one first.
    """

    observed: ObservedSteps
    weighed: tuple[Weighed, ...]

    @property
    def posterior(self) -> Posterior:
        """The most probable residual."""
        return self.weighed[0].posterior

    def residual(self, cells: StepCells) -> FloatArray:
        """Return the most probable residual of steps, shape (fields, rows)."""
        best, pairs = self.posterior, PairedRows.of(cells, [self.posterior.seen])
        covariance = pairs.covariance(best.prior) + pairs.own(best.wider[:, None])
        moved = np.einsum("fij,fj->fi", covariance, best.coefficients)
        return np.asarray(best.prior.mean(cells) + moved)

    def device_share(self, cells: StepCells) -> FloatArray:
        """Return the share of the computation during which the device works, shape (rows,)."""
        response = Response(cells, self.posterior.prior.neutral(cells))
        return np.asarray(response(self.residual(cells)).device_share)

    def apply(self, cells: StepCells) -> CalibratedSteps:
        """Correct predicted steps.

        Parameters
        ----------
        cells : StepCells
            Of the same job, or of others that share its machine or fabric.
        """
        return correct_weighed([self.weighed], cells)

    @cached_property
    def single_steps(self) -> SingleSteps:
        """What corrects single steps, sooner than :meth:`apply` does."""
        return SingleSteps(self.weighed)


def calibrate(
    observed: ObservedSteps, prior: ResidualPrior | None = None, *, most: int | None = None
) -> Calibration:
    """Calibrate a job by its observed steps.

    Parameters
    ----------
    observed : ObservedSteps
        Of the job; steps of other jobs on the same machine or fabric, and of the job elsewhere,
        may be among them and count by what they share.
    prior : ResidualPrior or None
        The fitted one by default.
    most : int or None
        Cells that are weighed together; None: as many as answers have time for.
    """
    known, every = prior or fitted_prior(), observed.pooled()
    together = spread_rows(every.cells, most or MOST_TOGETHER)
    rows, lone = every.take(together), None
    if not together.all():
        lone = LoneCells(observed=every.take(~together), noise=known.noise)
    pairs = PairedRows.of(rows.cells)
    found = probable(rows, known, pairs, lone)
    if known.bare != 1 and not rows.cells.guessed.any():
        # Of a script or of a bare step: what was observed decides.
        bare = probable(rows, known.of_bare_steps, pairs, lone)
        found = sorted([*found, *bare], key=lambda one: one.cost)
    costs = np.array([one.cost for one in found])
    shares = np.exp((costs.min() - costs) / 2)
    shares = np.where(shares > _LEAST_SHARE * shares.sum(), shares, 0.0)
    both = zip((shares / shares.sum()).tolist(), found, strict=True)
    return Calibration(
        observed=every, weighed=tuple(Weighed(share, one) for share, one in both if share > 0)
    )

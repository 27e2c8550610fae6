r"""Calibrate a job by its observed steps, which sharpens every other placement of it.

What a job does differently from its prediction is the residual :math:`z` of
:mod:`.step_response`, a Gaussian process over steps
(:mod:`.residual_prior`). Observations :math:`y = h(z) + e` are the logarithm of
the step without its exposed communication and of the factor by which that lengthens it, where both
times are known; else the logarithm of the whole step. The residual is the most probable one, found
by Gauss and Newton's method in the space of observations (an iterated extended Kalman filter),

.. math::

    z \leftarrow m + K H^T (H K H^T + R)^{-1} (y - h(z) + H (z - m)), \qquad H = dh/dz,

as :mod:`.most_probable` says. Where several residuals explain what was observed, a slow device or a
slow host, of a script or of a bare step, all of them answer (:mod:`.corrected`).

Of an error :math:`e = c + r` the part :math:`c` belongs to its cell for good and :math:`r` to the
measurement alone. What a cell has to itself is Student's: R grows with what an observation is off,
so that an outlier hardly counts elsewhere, while in its own cell it is believed the more. So a
cell that was observed is answered near its measurements, whatever else was observed. What is
peculiar to a job on one machine is Student's as well: a job unlike all others there says little of
them.

A pure function of the set of observations; their order does not matter, to the bit.

Reference: Bell and Cathey, The Iterated Kalman Filter Update as a Gauss-Newton Method, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.correcting.corrected import (
    CalibratedSteps,
    Posterior,
    Weighed,
    correct_weighed,
)
from perfmodel.placement.calibration.correcting.paired_rows import ObservedColumns
from perfmodel.placement.calibration.correcting.single_step import SingleSteps
from perfmodel.placement.calibration.most_probable import (
    MostProbable,
    Widths,
    probable,
    spread_of,
)
from perfmodel.placement.calibration.observed_steps import Comparisons, ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Response

#: A residual that is less probable beside the others does not answer.
_LEAST_SHARE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What the observations of a job say about all of its steps.

    Parameters
    ----------
    observed : ObservedSteps
        Pooled: one row for each cell.
    coefficients : ndarray, shape (fields, rows)
        The residual is the prior mean plus the covariance with the observed rows times these.
    trust : ndarray, shape (comparisons,)
        Factor of the precision of each comparison, small for outliers.
    widths : Widths
        How much farther off than expected single jobs are on single machines.
    posterior : Posterior
        What corrects steps by this residual, many jobs at a time: :func:`.corrected.correct`.
    share : float
        How probable this residual is beside the others.
    others : tuple of Calibration
        Other residuals that explain what was observed, less probable ones.
    """

    observed: ObservedSteps
    prior: ResidualPrior
    coefficients: FloatArray
    trust: FloatArray
    widths: Widths
    posterior: Posterior
    share: float = 1.0
    others: tuple[Calibration, ...] = ()

    def residual(self, cells: StepCells) -> FloatArray:
        """Return the most probable residual of steps, shape (fields, rows)."""
        seen = self.observed.cells
        covariance = self.prior.covariance(cells, seen)
        wide = self.widths.widen(covariance, cells, seen, self.prior)
        moved = np.einsum("fij,fj->fi", wide, self.coefficients)
        return np.asarray(self.prior.mean(cells) + moved)

    def device_share(self, cells: StepCells) -> FloatArray:
        """Return the share of the computation during which the device works, shape (rows,)."""
        return Response.of(cells, self.prior.neutral(cells)).device_share(self.residual(cells))

    def apply(self, cells: StepCells) -> CalibratedSteps:
        """Correct predicted steps.

        Parameters
        ----------
        cells : StepCells
            Of the same job, or of others that share its machine or fabric.
        """
        return correct_weighed([self.weighed], cells)

    @cached_property
    def weighed(self) -> tuple[Weighed, ...]:
        """What corrects steps: all residuals, the most probable one first."""
        return tuple(Weighed(one.share, one.posterior) for one in (self, *self.others))

    @cached_property
    def single_steps(self) -> SingleSteps:
        """What corrects single steps, sooner than :meth:`apply` does."""
        return SingleSteps(self.weighed)


def calibrate(observed: ObservedSteps, prior: ResidualPrior | None = None) -> Calibration:
    """Calibrate a job by its observed steps.

    Parameters
    ----------
    observed : ObservedSteps
        Of the job; steps of other jobs on the same machine or fabric, and of the job elsewhere,
        may be among them and count by what they share.
    prior : ResidualPrior or None
        The fitted one by default.
    """
    known, rows = prior or fitted_prior(), observed.pooled()
    comparisons = Comparisons.of(rows, known.noise)
    found = _explained(rows.cells, comparisons, known)
    shares = _shares(np.array([one.cost for _, one in found]))
    first, *others = [
        Calibration(
            observed=rows,
            prior=population,
            coefficients=one.coefficients,
            trust=one.trust,
            widths=one.widths,
            posterior=_posterior(rows, comparisons, population, one),
            share=share,
        )
        for (population, one), share in zip(found, shares.tolist(), strict=True)
        if share > 0
    ]
    return replace(first, others=tuple(others))


def _explained(
    cells: StepCells, comparisons: Comparisons, prior: ResidualPrior
) -> list[tuple[ResidualPrior, MostProbable]]:
    """Return residuals that explain observed steps, of scripts and of bare steps, best first."""
    covariance = prior.covariance(cells, cells)
    found = [(prior, one) for one in probable(cells, comparisons, prior, covariance)]
    if prior.bare == 1 or cells.guessed.any():
        return found
    bare = prior.of_bare_steps
    close = probable(cells, comparisons, bare, prior.bare**2 * covariance)
    return sorted([*found, *((bare, one) for one in close)], key=lambda each: each[1].cost)


def _posterior(
    observed: ObservedSteps, comparisons: Comparisons, prior: ResidualPrior, found: MostProbable
) -> Posterior:
    """Gather what corrects steps by a residual of the observed rows."""
    cells, rows, errors = observed.cells, comparisons.rows, comparisons.errors(found.trust)
    response = Response.of(cells, prior.neutral(cells))
    channels, by_channel = response.linear(prior.mean(cells) + found.moved)
    slopes = comparisons.of_channels(by_channel)
    spread = spread_of(found.covariance[:, rows[:, None], rows], slopes)
    missing = comparisons.values - comparisons.of_channels(channels)
    return Posterior(
        prior=prior,
        columns=ObservedColumns.of(cells),
        coefficients=found.coefficients,
        wider=found.widths.wider(cells, prior),
        rows=rows,
        slopes=slopes,
        precision=np.asarray(np.linalg.inv(spread + errors)),
        own=comparisons.own(found.trust),
        weights=np.asarray(np.linalg.solve(errors, missing)),
        scatter=observed.scatter,
    )


def _shares(costs: FloatArray) -> FloatArray:
    """Return how probable residuals are beside each other; 0 for those that hardly are."""
    shares = np.exp((costs.min() - costs) / 2)
    shares = np.where(shares > _LEAST_SHARE * shares.sum(), shares, 0.0)
    return np.asarray(shares / shares.sum())

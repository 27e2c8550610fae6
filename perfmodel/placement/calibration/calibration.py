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
slow host, of a script or of a bare step, all of them answer (:mod:`.weighed`).

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

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps, Posterior
from perfmodel.placement.calibration.correcting.paired_rows import ObservedColumns
from perfmodel.placement.calibration.correcting.weighed import (
    Weighed,
    WeighedSingleSteps,
    correct_weighed,
)
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

FloatArray = npt.NDArray[np.float64]

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
    within : ndarray or None
        Prior covariance of the observed rows, where it is at hand; no information of its own.
    share : float
        How probable this residual is beside the others.
    others : tuple of Calibration
        Other residuals that explain what was observed, less probable ones.
    """

    observed: ObservedSteps
    prior: ResidualPrior
    coefficients: FloatArray
    trust: FloatArray
    widths: Widths = Widths()
    within: FloatArray | None = field(default=None, repr=False)
    share: float = 1.0
    others: tuple[Calibration, ...] = ()

    def residual(self, cells: StepCells) -> FloatArray:
        """Return the most probable residual of steps, shape (fields, rows)."""
        return self._residual(cells, self._with_observed(cells))

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

    def settled(self) -> Self:
        """Return the same without what only finding it needed, which is most of its memory."""
        light = replace(self, within=None)
        # Worked out while the covariance is at hand.
        vars(light).update(
            _comparisons=self._comparisons,
            _slopes=self._slopes,
            _precision=self._precision,
            _weights=self._weights,
            posterior=self.posterior,
        )
        return light

    def _residual(self, cells: StepCells, covariance: FloatArray) -> FloatArray:
        moved = np.einsum("fij,fj->fi", covariance, self.coefficients)
        return np.asarray(self.prior.mean(cells) + moved)

    def _with_observed(self, cells: StepCells) -> FloatArray:
        """Return the prior covariance of steps with the observed rows."""
        seen = self.observed.cells
        return self.widths.widen(self.prior.covariance(cells, seen), cells, seen, self.prior)

    @cached_property
    def posterior(self) -> Posterior:
        """What corrects steps by this residual, many jobs at a time: :func:`.corrected.correct`."""
        comparisons, cells = self._comparisons, self.observed.cells
        return Posterior(
            prior=self.prior,
            columns=ObservedColumns.of(cells),
            coefficients=self.coefficients,
            wider=self.widths.wider(cells, self.prior),
            rows=comparisons.rows,
            slopes=self._slopes,
            precision=self._precision,
            own=comparisons.own(self.trust),
            weights=self._weights,
        )

    @cached_property
    def single_steps(self) -> WeighedSingleSteps:
        """What corrects single steps, sooner than :meth:`apply` does."""
        return WeighedSingleSteps(self.weighed)

    @cached_property
    def _comparisons(self) -> Comparisons:
        return Comparisons.of(self.observed, self.prior.noise)

    @cached_property
    def _covariance(self) -> FloatArray:
        return self._with_observed(self.observed.cells) if self.within is None else self.within

    @cached_property
    def _at(self) -> tuple[FloatArray, FloatArray]:
        """Channels of the observed rows, and their derivatives by the fields."""
        cells = self.observed.cells
        response = Response.of(cells, self.prior.neutral(cells))
        return response.linear(self._residual(cells, self._covariance))

    @cached_property
    def _slopes(self) -> FloatArray:
        return self._comparisons.of_channels(self._at[1])

    @cached_property
    def _precision(self) -> FloatArray:
        rows = self._comparisons.rows
        paired = self._covariance[:, rows[:, None], rows]
        errors = self._comparisons.errors(self.trust)
        return np.asarray(np.linalg.inv(spread_of(paired, self._slopes) + errors))

    @cached_property
    def _weights(self) -> FloatArray:
        errors = self._comparisons.errors(self.trust)
        missing = self._comparisons.values - self._comparisons.of_channels(self._at[0])
        return np.asarray(np.linalg.solve(errors, missing))


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
    found = _explained(rows, known)
    shares = _shares(np.array([one.cost for _, one in found]))
    several = [
        Calibration(
            observed=rows,
            prior=population,
            coefficients=one.coefficients,
            trust=one.trust,
            widths=one.widths,
            within=one.covariance,
            share=share,
        )
        for (population, one), share in zip(found, shares.tolist(), strict=True)
        if share > 0
    ]
    others = tuple(one.settled() for one in several[1:])
    return replace(several[0], others=others).settled()


def _explained(
    rows: ObservedSteps, prior: ResidualPrior
) -> list[tuple[ResidualPrior, MostProbable]]:
    """Return residuals that explain observed steps, of scripts and of bare steps, best first."""
    comparisons = Comparisons.of(rows, prior.noise)
    covariance = prior.covariance(rows.cells, rows.cells)
    found = [(prior, one) for one in probable(rows.cells, comparisons, prior, covariance)]
    if prior.bare == 1 or rows.cells.guessed.any():
        return found
    bare = prior.of_bare_steps
    close = probable(rows.cells, comparisons, bare, prior.bare**2 * covariance)
    return sorted([*found, *((bare, one) for one in close)], key=lambda each: each[1].cost)


def _shares(costs: FloatArray) -> FloatArray:
    """Return how probable residuals are beside each other; 0 for those that hardly are."""
    shares = np.exp((costs.min() - costs) / 2)
    shares = np.where(shares > _LEAST_SHARE * shares.sum(), shares, 0.0)
    return np.asarray(shares / shares.sum())

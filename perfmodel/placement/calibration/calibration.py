r"""Calibrate a job by its observed steps, which sharpens every other placement of it.

What a job does differently from its prediction is the residual :math:`z` of
:mod:`.step_response`, a Gaussian process over steps
(:mod:`.residual_prior`). Observations :math:`y = h(z) + e` are the logarithm of
the step without its exposed communication and of the factor by which that lengthens it, where both
times are known; else the logarithm of the whole step. The residual is the most probable one, found
by Gauss and Newton's method in the space of observations (an iterated extended Kalman filter),

.. math::

    z \leftarrow m + K H^T (H K H^T + R)^{-1} (y - h(z) + H (z - m)), \qquad H = dh/dz,

as :mod:`.most_probable` says. Of an error :math:`e = c + r` the part :math:`c` belongs to its cell
for good and :math:`r` to the measurement alone. What a cell has to itself is Student's: R grows
with what an observation is off, so that an outlier hardly counts elsewhere, while in its own cell
it is believed the more. So a cell that was observed is answered near its measurements, whatever
else was observed. What is peculiar to a job on one machine is Student's as well: a job unlike all
others there says little of them.

A pure function of the set of observations; their order does not matter, to the bit.

Reference: Bell and Cathey, The Iterated Kalman Filter Update as a Gauss-Newton Method, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.most_probable import Widths, most_probable, spread_of
from perfmodel.placement.calibration.observed_steps import Comparisons, ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Response
from perfmodel.placement.step_parts import StepParts

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CalibratedSteps:
    """Steps after calibration.

    Parameters
    ----------
    log_sd : ndarray, shape (rows,)
        Standard deviation of the logarithm of a measured step; smaller near observed ones.
    learned : ndarray, shape (rows,)
        Share of the variance that the observations took away, in [0, 1].
    seen : ndarray of bool, shape (rows,)
        Whether the very cell was observed.
    """

    parts: StepParts
    log_sd: FloatArray
    learned: FloatArray
    seen: npt.NDArray[np.bool_]

    def take(self, rows: slice) -> Self:
        """Return some of the rows."""
        return type(self)(
            parts=self.parts.each(lambda part: part[rows]),
            log_sd=self.log_sd[rows],
            learned=self.learned[rows],
            seen=self.seen[rows],
        )

    def interval(self, deviations: float = DEVIATIONS) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the interval of the step time, by default of 90 %."""
        factor = np.exp(deviations * self.log_sd)
        return self.parts.step_time_s / factor, self.parts.step_time_s * factor


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
    """

    observed: ObservedSteps
    prior: ResidualPrior
    coefficients: FloatArray
    trust: FloatArray
    widths: Widths = Widths()
    within: FloatArray | None = field(default=None, repr=False)

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
        few, alike = self._distinct(cells)
        covariance = self._with_observed(few)
        residual = self._residual(few, covariance)[:, alike]
        response = Response.of(cells, self.prior.neutral(cells))
        noise, own = (
            self.prior.noise,
            self._comparisons.effects(few, self.observed.cells, self.trust),
        )
        whole = own.sum(axis=0)
        at, by_channel = response.linear(residual)
        slopes = by_channel.sum(axis=1)
        usual = noise.variances(1 - np.exp(-at[1])).sum(axis=0)
        seen = whole.any(axis=1)[alike]
        peculiar = np.where(seen, whole.sum(axis=1)[alike], usual)
        unknown = self.widths.widen_variance(self.prior.variance(few), few, self.prior)
        before = np.sum(slopes**2 * unknown[:, alike], axis=0) + peculiar
        taken = self._taken(covariance, whole, alike, slopes)
        after = np.maximum(before - taken, 0.0) + noise.repeat**2
        return CalibratedSteps(
            parts=_with_effects(response.parts(residual), self._effects(own)[:, alike]),
            log_sd=noise.inflation * np.sqrt(after),
            learned=np.clip(1 - after / (before + noise.repeat**2), 0.0, 1.0),
            seen=seen,
        )

    def _distinct(self, cells: StepCells) -> tuple[StepCells, npt.NDArray[np.int64]]:
        """Return cells of which nothing else is believed alike, and which of them each row is like.

        Most of many cells are on machines that were not observed, and told apart by their batch and
        placement alone.
        """
        observed = self.observed.cells
        known = {cell: code for code, cell in enumerate(observed.identities())}
        codes = [
            np.array([known.get(cell, -1) for cell in cells.identities()]),
            *(
                _codes(getattr(cells, n), getattr(observed, n))
                for n in ("job", "machine", "fabric")
            ),
            np.unique(cells.setting, return_inverse=True)[1],
        ]
        numbers = (cells.batch_size, cells.ranks, cells.largest_share, cells.hosts, cells.guessed)
        _, first, alike = np.unique(
            np.stack([*codes, *numbers], axis=1), axis=0, return_index=True, return_inverse=True
        )
        return cells.take(first), alike.reshape(-1)

    def _taken(
        self,
        covariance: FloatArray,
        whole: FloatArray,
        alike: npt.NDArray[np.int64],
        slopes: FloatArray,
    ) -> FloatArray:
        """Return the variance that the observations take away from each row."""
        # What a cell has to itself adds up with the fields, whatever its slopes.
        shared = np.concatenate(
            [covariance[:, :, self._comparisons.rows] * self._slopes[:, None], whole[None]]
        )
        by_fields = np.einsum("fun,gun->ufg", shared @ self._precision, shared)
        every = np.concatenate([slopes, np.ones((1, slopes.shape[1]))])
        return np.asarray(np.einsum("fi,ifg,gi->i", every, by_fields[alike], every, optimize=True))

    def settled(self) -> Self:
        """Return the same without what only finding it needed, which is most of its memory."""
        light = replace(self, within=None)
        # Worked out while the covariance is at hand.
        vars(light).update(
            _comparisons=self._comparisons,
            _slopes=self._slopes,
            _precision=self._precision,
            _weights=self._weights,
        )
        return light

    def _residual(self, cells: StepCells, covariance: FloatArray) -> FloatArray:
        moved = np.einsum("fij,fj->fi", covariance, self.coefficients)
        return np.asarray(self.prior.mean(cells) + moved)

    def _with_observed(self, cells: StepCells) -> FloatArray:
        """Return the prior covariance of steps with the observed rows."""
        seen = self.observed.cells
        return self.widths.widen(self.prior.covariance(cells, seen), cells, seen, self.prior)

    def _effects(self, own: FloatArray) -> FloatArray:
        """Return what cells keep of their errors: in the step alone, and in its growth."""
        return np.asarray(own @ self._weights)

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
    known = prior or fitted_prior()
    rows = observed.pooled()
    comparisons = Comparisons.of(rows, known.noise)
    covariance = known.covariance(rows.cells, rows.cells)
    found = most_probable(rows.cells, comparisons, known, covariance)
    if known.bare != 1 and not rows.cells.guessed.any():
        bare = known.of_bare_steps()
        close = most_probable(rows.cells, comparisons, bare, known.bare**2 * covariance)
        if close.cost < found.cost:
            known, found = bare, close
    return Calibration(
        observed=rows,
        prior=known,
        coefficients=found.coefficients,
        trust=found.trust,
        widths=found.widths,
        within=found.covariance,
    ).settled()


def _codes(words: npt.NDArray[np.str_], known: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    """Return a number for each word; -1 for all that are not known."""
    codes = {word: code for code, word in enumerate(dict.fromkeys(known.tolist()))}
    return np.array([codes.get(word, -1) for word in words.tolist()], dtype=np.int64)


def _with_effects(parts: StepParts, effects: FloatArray) -> StepParts:
    """Scale steps by what their cells keep: the step alone, and how communication lengthens it."""
    factor = np.exp(effects[0])
    alone = parts.compute_s + parts.input_stall_s + parts.overhead_s
    growth = (1 + parts.exposed_communication_s / alone) * np.exp(effects[1]) - 1
    exposed = np.where(parts.communication_s > 0, np.maximum(growth, 0.0) * alone, 0.0)
    return StepParts.of(
        parts.compute_s * factor,
        exposed_communication_s=exposed * factor,
        input_stall_s=parts.input_stall_s * factor,
        overhead_s=parts.overhead_s * factor,
        communication_s=np.maximum(parts.communication_s, exposed * factor),
    )

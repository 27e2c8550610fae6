r"""Find the most probable residual of observed steps, and how far single jobs lie off.

Gauss and Newton's method in the space of observations, with shorter steps where a whole one does
not help. Two things are Student's, not Gauss's, and are found by weighing again: errors, so that
an outlier hardly counts, and the levels of a job on one machine or fabric. Of those some are far
beyond what any spread foresees, a job that waits for its host twenty times as long on one cluster
as on others, and would be read as what the machine, or the job, is like everywhere. What is
peculiar, :math:`z` of standard deviation :math:`\sigma`, is given the wider one

.. math:: \sigma \sqrt{\max(1,\ (\nu + z^2 / \sigma^2) / (\nu + 1))}

and the residual is sought again. A job that was seen on one machine alone, with no other beside
it, leaves nothing to be told apart: there the widths stay.

Reference: Lange, Little and Taylor, Robust Statistical Modeling Using the t Distribution, 1989.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.lone_cells import LoneCells
from perfmodel.placement.calibration.observed_steps import Comparisons, ObservedSteps
from perfmodel.placement.calibration.paired_rows import Codes, ObservedColumns, PairedRows
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.step_response import Field, Responded, Response

_ITERATIONS = 12
#: Residuals of which no logarithm is further from the other's are one.
_ALIKE = 0.05
#: The last iteration is one that moves no compared logarithm by more.
_ENOUGH = 5e-3
_SHORTEST_STEP = 0.05
_SHORTEN = 0.4
#: Times that widths are set, and the relative change below which they stand still.
_ROUNDS = 3
_STILL = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """One residual that explains the observed steps of a job, and what it says of other steps.

    Parameters
    ----------
    seen : ObservedColumns
        The observed rows.
    moved : ndarray, shape (fields, observed)
        Their residual less its prior mean.
    coefficients : ndarray, shape (fields, observed)
        The residual is the prior mean plus the covariance with the observed rows times these.
    wider : ndarray, shape (fields, observed)
        What the variance of the job on the machine, or fabric, of each row is wider than expected.
    rows : ndarray of int, shape (comparisons,)
        Which observed row is compared.
    trust : ndarray, shape (comparisons,)
        Factor of the precision of each, small for outliers.
    slopes : ndarray, shape (fields, comparisons)
        Derivatives of what is compared by the residual.
    precision : ndarray, shape (comparisons, comparisons)
        Inverse covariance of what is compared.
    own : ndarray, shape (2, comparisons)
        Covariance of what an observed cell has to itself with its comparisons: of the step alone,
        and of what communication adds to it.
    weights : ndarray, shape (comparisons,)
        What is missing from the comparisons, weighed.
    scatter : ndarray, shape (observed,)
        Standard deviation of the measurements of each cell.
    cost : float
        Minus twice the logarithm of how probable the observations are, but for a constant.
    lone : LoneCells or None
        Observed cells that are not among these.
    """

    prior: ResidualPrior
    seen: ObservedColumns
    moved: FloatArray
    coefficients: FloatArray
    wider: FloatArray
    rows: Codes
    trust: FloatArray
    slopes: FloatArray
    precision: FloatArray
    own: FloatArray
    weights: FloatArray
    scatter: FloatArray
    cost: float
    lone: LoneCells | None = None

    def has_seen(self, cell: tuple[object, ...]) -> bool:
        """Return whether a cell was observed itself, by its identity."""
        return cell in self.seen.cells or (self.lone is not None and cell in self.lone.at)

    @cached_property
    def form(self) -> tuple[object, ...]:
        """Those that are alike in it can be worked on together."""
        return id(self.prior), self.coefficients.shape[1], self.rows.tobytes()


class Weighed(NamedTuple):
    """One residual that explains the observations.

    Parameters
    ----------
    share : float
        How probable it is beside the others of the job, in (0, 1]; together they are 1.
    """

    share: float
    posterior: Posterior


def probable(
    observed: ObservedSteps,
    prior: ResidualPrior,
    pairs: PairedRows,
    lone: LoneCells | None = None,
) -> list[Posterior]:
    """Return residuals that explain observed steps, the most probable one first.

    A step that is longer than predicted may wait for its device, its host, its loaders or for what
    it communicates. Where one is predicted to take longest, small changes of the others change
    nothing: so residuals are sought from each end, and each that is unlike the others is one.

    Parameters
    ----------
    observed : ObservedSteps
        Pooled.
    pairs : PairedRows
        Of their cells with themselves.
    lone : LoneCells or None
        Observed cells beside these.
    """
    search = _Search(observed, prior, pairs)
    found = [replace(search.from_residual(start), lone=lone) for start in search.starts()]
    different: list[Posterior] = []
    for one in sorted(found, key=lambda one: one.cost):
        if all(np.abs(one.moved - other.moved).max() > _ALIKE for other in different):
            different.append(one)
    return different


class _Search:
    """The search for residuals of observed steps under one prior."""

    def __init__(self, observed: ObservedSteps, prior: ResidualPrior, pairs: PairedRows) -> None:
        self._observed, self._prior, self._pairs = observed, prior, pairs
        self._compared = compared = Comparisons.of(observed, prior.noise)
        #: Variance of what is missing from each, as a rule.
        self._usual = compared.variance + compared.repeat
        self._mean = prior.mean(observed.cells)
        self._response = Response(observed.cells, prior.neutral(observed.cells))
        self._covariance = pairs.covariance(prior)
        #: Where no level is peculiar, none is wider.
        self._own = np.where(prior.own_levels > 0, prior.own_levels, 1.0)

    def starts(self) -> list[FloatArray]:
        """Return residuals to seek from: what is expected, and all by one thing that is longer.

        The host, the loaders, or the communication where its time was logged.
        """
        cells = self._observed.cells
        # Of several jobs some may wait for their hosts and some not.
        if len(set(cells.job.tolist())) > 1:
            return [self._mean]
        bounds = {Field.HOST: cells.host_s}
        if (cells.input_s > 0).all():
            bounds[Field.FEED] = cells.input_s
        starts, alone = [self._mean], self._compared.mix[0] > 0
        rows = self._compared.rows[alone]
        for field, least_s in bounds.items():
            # Steps take as long as observed because of this one.
            start = self._mean.copy()
            start[field, rows] = self._compared.values[alone] - np.log(least_s[rows])
            starts.append(start)
        logged = cells.communicates & (self._observed.sync_time_s > 0)
        if logged.any():
            parts, sync_s = cells.parts.take(logged), self._observed.sync_time_s[logged]
            # What is predicted to be hidden besides what is not.
            hidden_s = parts.communication_s - parts.exposed_communication_s
            start = self._mean.copy()
            start[Field.COMMUNICATION, logged] = np.log((sync_s + hidden_s) / parts.communication_s)
            starts.append(start)
        return starts

    def from_residual(self, start: FloatArray) -> Posterior:
        """Return what is found from a residual, with widths under which it is probable."""
        found = self._sought(start, np.zeros(self._mean.shape))
        cells = self._observed.cells
        places = set(zip(cells.job.tolist(), cells.machine.tolist(), strict=True))
        # One job on one machine leaves nothing to be told apart.
        tells_apart = len(places) > 1 and not math.isinf(self._prior.freedom)
        for _ in range(_ROUNDS if tells_apart else 0):
            wider = self._wider(found)
            if np.all(np.abs(np.log((self._own + wider) / (self._own + found.wider))) < 2 * _STILL):
                break
            found = self._sought(start, wider)
        return found

    def _wider(self, found: Posterior) -> FloatArray:
        """Return how much wider variances are to be for what is peculiar to be probable."""
        own, freedom = self._prior.own_levels, self._prior.freedom
        shared = self._pairs.own(found.coefficients[:, None]).sum(axis=2)
        odd = ((own + found.wider) * shared) ** 2 / self._own
        return np.asarray(own * np.maximum((freedom + odd) / (freedom + 1) - 1, 0.0))

    def _sought(self, start: FloatArray, wider: FloatArray) -> Posterior:
        """Return the most probable residual under some widths, sought from another one."""
        compared, mean, covariance = self._compared, self._mean, self._covariance
        if wider.any():
            covariance = covariance + self._pairs.own(wider[:, None])
        paired = covariance[:, compared.rows[:, None], compared.rows]
        coefficients, residual = np.zeros(mean.shape), mean
        at, here = start, self._response(start)
        missing = self._missing(here)
        trust = self._trust(missing)
        for _ in range(_ITERATIONS):
            errors, before = compared.errors(trust), here.channels
            slopes = compared.of_channels(here.by_channel)
            target = missing + np.einsum("fj,fj->j", slopes, (at - mean)[:, compared.rows])
            weights = np.linalg.solve(spread_of(paired, slopes) + errors, target)
            pulls = [np.bincount(compared.rows, one, mean.shape[1]) for one in slopes * weights]
            step = np.stack(pulls) - coefficients
            moved = np.einsum("fij,fj->fi", covariance, step)
            length, misfit = 1.0, _misfit(errors)
            # A whole step away from where it was linearised, or the share of one that helps.
            most = math.inf
            if at is residual:
                most = misfit(missing) + np.sum(coefficients * (residual - mean))
            while True:
                at, tried = residual + length * moved, coefficients + length * step
                here = self._response(at)
                missing = self._missing(here)
                cost = misfit(missing) + np.sum(tried * (at - mean))
                if cost <= most or length <= _SHORTEST_STEP:
                    break
                length *= _SHORTEN
            coefficients, residual = tried, at
            trust = self._trust(missing)
            if np.abs(here.channels - before).max() < _ENOUGH:
                break
        return self._posterior(here, residual, coefficients, wider, trust, paired)

    def _posterior(
        self,
        here: Responded,
        residual: FloatArray,
        coefficients: FloatArray,
        wider: FloatArray,
        trust: FloatArray,
        paired: FloatArray,
    ) -> Posterior:
        """Gather what a residual says of other steps, and how probable it is."""
        compared, prior, moved = self._compared, self._prior, residual - self._mean
        slopes = compared.of_channels(here.by_channel)
        spread = spread_of(paired, slopes)
        missing, errors = self._missing(here), compared.errors(trust)
        odd, freedom = missing**2 / self._usual, prior.noise.freedom
        misfit = (freedom + 1) * np.sum(np.log1p(odd / freedom))
        volume = np.linalg.slogdet(spread + compared.errors(np.ones(len(missing))))[1]
        return Posterior(
            prior=prior,
            seen=self._pairs.observed[0],
            moved=moved,
            coefficients=coefficients,
            wider=wider,
            rows=compared.rows,
            trust=trust,
            slopes=slopes,
            precision=np.asarray(np.linalg.inv(spread + errors)),
            own=compared.own(trust),
            weights=np.asarray(np.linalg.solve(errors, missing)),
            scatter=self._observed.scatter,
            cost=float(misfit + volume + np.sum(coefficients * moved)),
        )

    def _missing(self, here: Responded) -> FloatArray:
        """Return what the compared numbers are above those of steps."""
        return self._compared.values - self._compared.of_channels(here.channels)

    def _trust(self, missing: FloatArray) -> FloatArray:
        """Return the weights of Student's distribution; nobody is trusted more than a Gaussian."""
        freedom = self._prior.noise.freedom
        return np.minimum((freedom + 1) / (freedom + missing**2 / self._usual), 1.0)


def _misfit(errors: FloatArray) -> Callable[[FloatArray], float]:
    """Return x to x^T errors^-1 x, where nothing has more than one partner."""
    variance = np.diag(errors)
    others = errors - np.diag(variance)
    rows = np.arange(len(errors))
    partner = np.where(others.any(axis=1), np.abs(others).argmax(axis=1), rows)
    shared, theirs = others[rows, partner], variance[partner]
    # The inverse of two by two; both of a couple bring their half of it.
    inside = variance * theirs - shared**2
    return lambda x: float(np.sum((x * x * theirs - x * x[partner] * shared) / inside))


def spread_of(paired: FloatArray, slopes: FloatArray) -> FloatArray:
    """Return how the prior spreads the comparisons: H K H^T."""
    total = np.zeros(paired.shape[1:])
    for one, slope in zip(paired, slopes, strict=True):
        total += slope[:, None] * one * slope
    return total

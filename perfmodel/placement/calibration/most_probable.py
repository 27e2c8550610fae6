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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.observed_steps import Comparisons
from perfmodel.placement.calibration.residual_prior import Noise, ResidualPrior
from perfmodel.placement.calibration.residual_terms import OF_MACHINE
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field, Response

#: A field, a job, and the machine or fabric it ran on.
Group = tuple[Field, str, str]

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


@dataclass(frozen=True)
class Widths:
    """How many times as far as expected jobs lie off on single machines and fabrics.

    Parameters
    ----------
    by_group : mapping of (Field, str, str) to float
        Factors of standard deviations, > 1; those that are left out are 1.
    """

    by_group: Mapping[Group, float] = field(default_factory=lambda: MappingProxyType({}))

    def widen(
        self, covariance: FloatArray, a: StepCells, b: StepCells, prior: ResidualPrior
    ) -> FloatArray:
        """Return the covariance of the residuals of two sets of steps, shape (fields, a, b)."""
        wide = covariance.copy() if self.by_group else covariance
        for one in {group[0] for group in self.by_group}:
            groups = {group: code for code, group in enumerate(self.by_group)}
            rows = [np.array([groups.get(g, -1) for g in _groups(one, c)]) for c in (a, b)]
            same = (rows[0][:, None] == rows[1]) & (rows[0][:, None] >= 0)
            extra = np.array([width**2 - 1 for width in self.by_group.values()])
            wide[one] += _own_sd(prior, one) ** 2 * same * extra[rows[1]]
        return wide

    def wider(self, cells: StepCells, prior: ResidualPrior) -> FloatArray | None:
        """Return how much more jobs vary on the machine or fabric of each step than expected.

        Returns
        -------
        ndarray, shape (fields, rows), or None
            Variances, 0 where it is as expected; None where it is everywhere.
        """
        if not self.by_group:
            return None
        return np.stack(
            [
                [
                    _own_sd(prior, one) ** 2 * (self.by_group.get(group, 1.0) ** 2 - 1)
                    for group in _groups(one, cells)
                ]
                for one in Field
            ]
        )


@dataclass(frozen=True, kw_only=True)
class MostProbable:
    """The most probable residual and what it was found with.

    Parameters
    ----------
    coefficients : ndarray, shape (fields, rows)
        The residual is the prior mean plus the covariance with the observed rows times these.
    trust : ndarray, shape (comparisons,)
        Factor of the precision of each comparison, small for outliers.
    covariance : ndarray, shape (fields, rows, rows)
        Of the observed rows under these widths.
    cost : float
        Minus twice the logarithm of how probable the observations are, but for a constant.
    """

    coefficients: FloatArray
    trust: FloatArray
    widths: Widths
    covariance: FloatArray
    cost: float

    def is_unlike(self, other: MostProbable) -> bool:
        """Tell whether the residual of any observed step is another one."""
        return bool(np.abs(self.moved - other.moved).max() > _ALIKE)

    @cached_property
    def moved(self) -> FloatArray:
        """The residual of the observed rows less its prior mean, shape (fields, rows)."""
        return np.asarray(np.einsum("fij,fj->fi", self.covariance, self.coefficients))


def most_probable(
    cells: StepCells, comparisons: Comparisons, prior: ResidualPrior, covariance: FloatArray
) -> MostProbable:
    """Return the most probable residual of observed steps; as the first of :func:`probable`."""
    return probable(cells, comparisons, prior, covariance)[0]


def probable(
    cells: StepCells, comparisons: Comparisons, prior: ResidualPrior, covariance: FloatArray
) -> list[MostProbable]:
    """Return residuals that explain observed steps, the most probable one first.

    A step that is longer than predicted may wait for its device, its host or its loaders. Where one
    is predicted to take longest, small changes of the others change nothing: so residuals are
    sought from each end, and each that is unlike the others is one.

    Parameters
    ----------
    covariance : ndarray, shape (fields, rows, rows)
        Of the residuals of the cells under the prior, nothing widened.
    """
    mean = prior.mean(cells)
    problem = _Problem(
        response=Response.of(cells, prior.neutral(cells)),
        comparisons=comparisons, prior=prior, mean=mean,
    )  # fmt: skip
    found = [
        _from(start, cells, problem, covariance) for start in _starts(cells, comparisons, mean)
    ]
    different: list[MostProbable] = []
    for one in sorted(found, key=lambda one: one.cost):
        if all(one.is_unlike(other) for other in different):
            different.append(one)
    return different


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """What residuals are sought for, whatever the widths."""

    response: Response
    comparisons: Comparisons
    prior: ResidualPrior
    mean: FloatArray


def _from(
    start: FloatArray, cells: StepCells, problem: _Problem, covariance: FloatArray
) -> MostProbable:
    """Return what is found from a residual, with widths under which it is probable."""
    prior, widths, wide = problem.prior, Widths(), covariance
    cost, coefficients, trust = _sought(problem, wide, start)
    for _ in range(_ROUNDS if _tells_apart(cells, prior) else 0):
        found = _widths(cells, prior, coefficients, widths)
        if _stand_still(found, widths):
            break
        widths, wide = found, found.widen(covariance, cells, cells, prior)
        cost, coefficients, trust = _sought(problem, wide, start)
    return MostProbable(
        coefficients=coefficients, trust=trust, widths=widths, covariance=wide, cost=cost
    )


def _tells_apart(cells: StepCells, prior: ResidualPrior) -> bool:
    """Say whether more than one job, or one job on more than one machine, was observed."""
    places = zip(cells.job.tolist(), cells.machine.tolist(), strict=True)
    return not math.isinf(prior.freedom) and len(set(places)) > 1


def _widths(
    cells: StepCells, prior: ResidualPrior, coefficients: FloatArray, before: Widths
) -> Widths:
    """Return the widths under which what is peculiar is as probable as Student says."""
    found: dict[Group, float] = {}
    for one in Field:
        sums: dict[Group, float] = {}
        for group, each in zip(_groups(one, cells), coefficients[one].tolist(), strict=True):
            sums[group] = sums.get(group, 0.0) + each
        for group, total in sums.items():
            off = _own_sd(prior, one) * before.by_group.get(group, 1.0) ** 2 * total
            width = math.sqrt((prior.freedom + off**2) / (prior.freedom + 1))
            found |= {group: width} if width > 1 else {}
    return Widths(found)


def _stand_still(found: Widths, before: Widths) -> bool:
    return all(
        abs(math.log(found.by_group.get(group, 1.0) / before.by_group.get(group, 1.0))) < _STILL
        for group in {**found.by_group, **before.by_group}
    )


def _groups(one: Field, cells: StepCells) -> list[Group]:
    places = cells.machine if one in OF_MACHINE else cells.fabric
    pairs = zip(cells.job.tolist(), places.tolist(), strict=True)
    return [(one, job, place) for job, place in pairs]


def _own_sd(prior: ResidualPrior, one: Field) -> float:
    return prior.sds.get(f"{one.name.lower()}.level.own", 0.0)


def _starts(cells: StepCells, comparisons: Comparisons, mean: FloatArray) -> list[FloatArray]:
    """Return residuals to seek from: what is expected, all by the host, all by the loaders."""
    # Of several jobs some may wait for their hosts and some not.
    if len(set(cells.job.tolist())) > 1:
        return [mean]
    starts = [mean, _bound_by(Field.HOST, cells.host_s, comparisons, mean)]
    if (cells.input_s > 0).all():
        starts.append(_bound_by(Field.FEED, cells.input_s, comparisons, mean))
    return starts


def _bound_by(
    one: Field, least_s: FloatArray, comparisons: Comparisons, mean: FloatArray
) -> FloatArray:
    """Return the residual under which steps take as long as observed because of one field."""
    alone = comparisons.mix[0] > 0
    rows = comparisons.rows[alone]
    bound = mean.copy()
    bound[one, rows] = comparisons.values[alone] - np.log(least_s[rows])
    return bound


def _sought(
    problem: _Problem, covariance: FloatArray, start: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return a cost, low where probable, with coefficients and trust; sought from a residual."""
    response, comparisons = problem.response, problem.comparisons
    prior, mean = problem.prior, problem.mean
    paired = covariance[:, comparisons.rows[:, None], comparisons.rows]
    coefficients, residual = np.zeros(mean.shape), mean
    channels, by_channel = response.linear(start)
    trust, at = _trust(comparisons, channels, prior.noise), start
    for _ in range(_ITERATIONS):
        errors = comparisons.errors(trust)
        slopes = comparisons.of_channels(by_channel)
        missing = comparisons.values - comparisons.of_channels(channels)
        target = missing + np.einsum("fj,fj->j", slopes, (at - mean)[:, comparisons.rows])
        weights = np.linalg.solve(spread_of(paired, slopes) + errors, target)
        step = _by_row(slopes * weights, comparisons, mean.shape[1]) - coefficients
        moved = np.einsum("fij,fj->fi", covariance, step)
        here, length = (mean, residual, coefficients), 1.0
        if at is residual:
            length = _length(response, comparisons, errors, here, step, moved)
        coefficients, residual = coefficients + length * step, residual + length * moved
        at, before = residual, channels
        channels, by_channel = response.linear(residual)
        trust = _trust(comparisons, channels, prior.noise)
        if np.abs(channels - before).max() < _ENOUGH:
            break
    off = comparisons.values - comparisons.of_channels(channels)
    freedom = prior.noise.freedom
    odd = off**2 / (comparisons.variance + comparisons.repeat)
    misfit = np.sum((freedom + 1) * np.log1p(odd / freedom))
    usual = comparisons.errors(np.ones(len(odd)))
    spread = spread_of(paired, comparisons.of_channels(by_channel)) + usual
    volume = np.linalg.slogdet(spread)[1]
    cost = misfit + volume + np.sum(coefficients * (residual - mean))
    return float(cost), coefficients, trust


def _length(
    response: Response,
    comparisons: Comparisons,
    errors: FloatArray,
    here: tuple[FloatArray, FloatArray, FloatArray],
    step: FloatArray,
    moved: FloatArray,
) -> float:
    """Return the share of a step that lowers the negative log probability."""
    mean, residual, coefficients = here
    misfit = _misfit(errors)

    def cost(length: float) -> float:
        z, c = residual + length * moved, coefficients + length * step
        off = comparisons.values - comparisons.of_channels(response.channels(z))
        return float(np.sum(c * (z - mean))) + misfit(off)

    now, length = cost(0.0), 1.0
    while length > _SHORTEST_STEP and cost(length) > now:
        length *= _SHORTEN
    return length


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


def _trust(comparisons: Comparisons, channels: FloatArray, noise: Noise) -> FloatArray:
    """Return the weights of Student's distribution; nobody is trusted more than a Gaussian."""
    off = comparisons.values - comparisons.of_channels(channels)
    odd = off**2 / (comparisons.variance + comparisons.repeat)
    return np.asarray(np.minimum((noise.freedom + 1) / (noise.freedom + odd), 1.0))


def spread_of(paired: FloatArray, slopes: FloatArray) -> FloatArray:
    """Return how the prior spreads the comparisons: H K H^T."""
    total = np.zeros(paired.shape[1:])
    for one, slope in zip(paired, slopes, strict=True):
        total += slope[:, None] * one * slope
    return total


def _by_row(values: FloatArray, comparisons: Comparisons, rows: int) -> FloatArray:
    total = np.zeros((len(values), rows))
    for one, value in enumerate(values):
        total[one] = np.bincount(comparisons.rows, weights=value, minlength=rows)
    return total

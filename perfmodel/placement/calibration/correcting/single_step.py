r"""The correction of a single step that was not observed itself, on plain numbers.

What :mod:`.corrected` says in columns, for the one cell that most questions ask. Of one batch on a
machine and a fabric the covariance with the observed rows :math:`j` is

.. math:: K_f(j) = \sum_m \phi_m A_{fm}(j) + \sum_g \psi_g e_g(j) B_{fg}(j)

with few numbers :math:`\phi, \psi` of the placement and two curves :math:`e` over placements. What
they are multiplied by is made once, for all steps in such :class:`Surroundings`, so that each of
them takes some microseconds. A test holds both ways to the same answers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perfmodel.lru import LruCache
from perfmodel.placement.calibration.correcting.corrected import Posterior
from perfmodel.placement.calibration.correcting.paired_rows import PairedRows, factors
from perfmodel.placement.calibration.correcting.response_numbers import SingleStep, respond
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.residual_shapes import curve_matrix, log_batch
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.step_parts import StepNumbers, StepParts

FloatArray = npt.NDArray[np.float64]

#: Shapes that are a number of the one step times that of the other: positions in :func:`_numbers`.
_NUMBERS = {"": 0, "alone": 1, "one_host": 2, "share_slope": 3, "host_slope": 4, "rank_slope": 5}
#: Shapes that are a curve, and which; the slope over ranks is multiplied by those of both as well.
_CURVES = {"hosts": 0, "rank_slope": 0, "placement": 1}
_FIRST = np.zeros(1, dtype=np.int64)

#: A field, and the position of a number of a placement.
_Key = tuple[int, int]
_Weight = tuple[int, int, float]


#: Surroundings of one posterior that are kept; one takes some twenty kilobytes.
_KEPT = 64
#: Stands for a setting that no observed row has.
_ANOTHER = "another"


class CalibratedStep(NamedTuple):
    """A step after calibration, as :class:`.CalibratedSteps` has them in columns."""

    parts: StepNumbers
    log_sd: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Surroundings:
    """What all steps of one batch on a machine, a fabric and in a setting have in common.

    Parameters
    ----------
    expected, longer : tuple of float
        The residual under which each field is as predicted, but for what depends on the
        placement, and by how much more it is expected to be.
    variance : tuple of float, sequence of (field, number, weight)
        The prior variance of each field, and what weights times squares of numbers add.
    moved : tuple of float, sequence of (field, number, weight)
        The residual of each field, and what weights times numbers add; the curves add more.
    products : sequence of (field, number)
        What each row of ``compared`` is multiplied by: a slope and a number.
    compared : ndarray, shape (products, comparisons)
    curves : sequence of (field, number)
        The same of the curves.
    exponents : ndarray, shape (features, 2 x comparisons)
        Of both curves at the rows that are compared.
    curve_moves : ndarray, shape (2 x comparisons, curves)
        What each adds to the residual.
    curve_compared : ndarray, shape (curves, 2 x comparisons)
    """

    posterior: Posterior
    expected: tuple[float, ...]
    longer: tuple[float, ...]
    variance: tuple[tuple[float, ...], Sequence[_Weight]]
    moved: tuple[tuple[float, ...], Sequence[_Weight]]
    products: Sequence[_Key]
    compared: FloatArray
    curves: Sequence[_Key]
    exponents: FloatArray
    curve_moves: FloatArray
    curve_compared: FloatArray

    @classmethod
    def of(cls, posterior: Posterior, step: SingleStep) -> Self:
        """Gather what a step has in common with others around it."""
        prior, cells = posterior.prior, _as_cells(step)
        columns, rows = posterior.columns, posterior.rows
        pairs = PairedRows.of(cells, _FIRST, [columns])
        variance, (shared, curves) = _variances(prior, step), _split(pairs, posterior)
        for one in Field if posterior.wider is not None else ():
            more = _wider(pairs, posterior, one)
            variance[one, 0] = variance.get((one, 0), 0.0) + float(more.max())
            shared[one, 0] = shared.get((one, 0), 0.0) + more
        slopes, coefficients = posterior.slopes, posterior.coefficients
        moves, compares = _by_curves(posterior, curves)
        width = 2 * len(rows)
        matrix = curve_matrix(columns.shapes).reshape(-1, 2, len(columns.guessed))
        return cls(
            posterior=posterior,
            expected=tuple(prior.neutral(cells)[:, 0].tolist()),
            longer=tuple((prior.mean(cells) - prior.neutral(cells))[:, 0].tolist()),
            variance=_apart(variance),
            moved=_apart({key: float(w @ coefficients[key[0]]) for key, w in shared.items()}),
            products=list(shared),
            compared=np.array([w[rows] * slopes[key[0]] for key, w in shared.items()]),
            curves=[(one, 5 if shape == "rank_slope" else 0) for one, shape in curves],
            exponents=matrix[:, :, rows].reshape(-1, width),
            curve_moves=moves.reshape(-1, width).T,
            curve_compared=compares.reshape(-1, width),
        )

    def correct(self, step: SingleStep) -> CalibratedStep:
        """Correct a step in these surroundings that was not observed itself."""
        numbers, features = _numbers(step)
        expected = self._expected(step)
        always, now_and_then = self.moved
        residual = [
            neutral + gap + more
            for neutral, gap, more in zip(expected, self.longer, always, strict=True)
        ]
        for one, at, weight in now_and_then:
            residual[one] += numbers[at] * weight
        near = np.exp(features @ self.exponents)
        for (one, at), move in zip(self.curves, (near @ self.curve_moves).tolist(), strict=True):
            residual[one] += numbers[at] * move
        found = respond(step, expected, residual)
        slopes = found.slopes
        always, now_and_then = self.variance
        before = sum([slope * slope * one for slope, one in zip(slopes, always, strict=True)])
        for one, at, weight in now_and_then:
            before += (slopes[one] * numbers[at]) ** 2 * weight
        noise = self.posterior.prior.noise
        exposed_share = 1 - math.exp(-found.growth)
        before += noise.compute**2 + noise.sync**2 + (noise.sync_share * exposed_share) ** 2
        shared = np.array([slopes[one] * numbers[at] for one, at in self.products]) @ self.compared
        if self.curves:
            near *= np.array([slopes[one] * numbers[at] for one, at in self.curves]) @ (
                self.curve_compared
            )
            half = len(shared)
            shared += near[:half]
            shared += near[half:]
        taken = float(shared @ self.posterior.precision @ shared)
        after = max(before - taken, 0.0) + noise.repeat**2
        return CalibratedStep(found.parts, noise.inflation * math.sqrt(after))

    def _expected(self, step: SingleStep) -> list[float]:
        expected = list(self.expected)
        means = self.posterior.prior.means
        if step.ranks == 1:
            expected[Field.SPREAD] += means.get("alone", 0.0)
        if step.hosts == 1:
            expected[Field.COMMUNICATION] += means.get("one_host", 0.0)
        return expected


def _variances(prior: ResidualPrior, step: SingleStep) -> dict[_Key, float]:
    """Return what squares of numbers of a placement are multiplied by in the prior variance."""
    found: dict[_Key, float] = defaultdict(float)
    slope = log_batch(step.batch_size) ** 2
    for term, variance in prior.variances:
        placement, batch = factors(term.shape)
        if not term.scope.startswith("guess_") and (placement != "setting" or step.setting):
            found[term.field, _NUMBERS.get(placement, 0)] += variance * (
                slope if batch == "batch_slope" else 1.0
            )
    return found


def _apart(weights: Mapping[_Key, float]) -> tuple[tuple[float, ...], list[_Weight]]:
    """Return what is added to each field whatever the placement, and the others."""
    always = tuple(weights.get((one, 0), 0.0) for one in Field)
    return always, [(one, at, w) for (one, at), w in weights.items() if at and w]


def _split(
    pairs: PairedRows, posterior: Posterior
) -> tuple[dict[_Key, FloatArray], dict[tuple[int, str], FloatArray]]:
    """Return what numbers and curves of a placement are multiplied by, at each observed row."""
    observed = posterior.columns.shapes
    theirs = (
        np.ones(len(observed.ranks)), observed.alone, (observed.hosts == 0) * 1.0, observed.share,
        observed.hosts, observed.ranks,
    )  # fmt: skip
    shared: dict[_Key, FloatArray] = defaultdict(lambda: np.zeros(len(observed.ranks)))
    curves: dict[tuple[int, str], FloatArray] = {}
    for (one, shape), weights in pairs.weights(posterior.prior).items():
        if shape in _CURVES:
            curves[one, shape] = weights[0] * theirs[_NUMBERS.get(shape, 0)]
        elif shape == "setting":
            shared[one, 0] = shared[one, 0] + weights[0] * pairs.shape(shape)[0]
        else:
            at = _NUMBERS[shape]
            shared[one, at] = shared[one, at] + weights[0] * theirs[at]
    return dict(shared), curves


def _wider(pairs: PairedRows, posterior: Posterior, one: Field) -> FloatArray:
    """Return what the job varies more there than was expected, at each observed row."""
    assert posterior.wider is not None
    wider = posterior.wider[one]
    shape = 1, len(wider)
    return np.asarray(np.broadcast_to(pairs.times(wider, "own", one), shape)[0])


def _by_curves(
    posterior: Posterior, curves: Mapping[tuple[int, str], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return what curves move, and how they vary with what is compared, at the compared rows.

    Returns
    -------
    two ndarrays, shape (curves, 2, comparisons)
        Nothing but zeros for the other of the two curves.
    """
    rows = posterior.rows
    # Each observed row moves once: it may be compared twice.
    first = np.zeros(len(rows))
    first[np.unique(rows, return_index=True)[1]] = 1.0
    found = np.zeros((2, len(curves), 2, len(rows)))
    for position, ((one, shape), weights) in enumerate(curves.items()):
        which = _CURVES[shape]
        found[0, position, which] = (weights * posterior.coefficients[one])[rows] * first
        found[1, position, which] = weights[rows] * posterior.slopes[one]
    return found[0], found[1]


def _numbers(step: SingleStep) -> tuple[tuple[float, ...], FloatArray]:
    """Return what of a placement shapes are made of: numbers, and features of the curves."""
    ranks, share = math.log(step.ranks), math.log(step.largest_share)
    hosts, spread = math.log(step.hosts), 2.0 / step.hosts
    alone, one_host = float(step.ranks == 1), float(step.hosts == 1)
    features = (1.0, spread, spread**2, share, share**2, ranks, ranks**2)
    return (1.0, alone, one_host, share, hosts, ranks), np.array(features)


def _as_cells(step: SingleStep) -> StepCells:
    """Return a row in these surroundings, without what depends on the placement."""
    parts = StepParts.of(np.array([step.parts.compute_s]))
    return StepCells.of_job(
        parts, batch_size=step.batch_size, micro_batches=step.micro_batches, ranks=2, hosts=2,
        largest_share=1, host_s=step.host_s, input_s=step.input_s, window_share=step.window_share,
        job=step.job, machine=step.machine, fabric=step.fabric, setting=step.setting,
    )  # fmt: skip


class SingleSteps:
    """Corrects single steps by one posterior; may be shared by threads."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self._words = {n: frozenset(w) for n, (w, _) in posterior.columns.words.items()}
        self._settings = {setting for *_, setting in posterior.columns.placements[0]} | {""}
        self._known: LruCache[tuple[object, ...], Surroundings] = LruCache(_KEPT)

    def correct(self, step: SingleStep) -> CalibratedStep | None:
        """Return a step as it is believed to be; None where it was observed itself."""
        if step.identity in self._posterior.columns.cells:
            return None
        words = self._words
        has_gap = self._posterior.prior.gap is not None
        # Machines and fabrics on which nothing was observed are all alike.
        key = (
            step.batch_size,
            step.job if step.job in words["job"] else "",
            step.machine if step.machine in words["machine"] or has_gap else "",
            step.fabric if step.fabric in words["fabric"] else "",
            step.setting if step.setting in self._settings else _ANOTHER,
        )
        known = self._known.get(key)
        if known is None:
            _, job, machine, fabric, setting = key
            around = step._replace(job=job, machine=machine, fabric=fabric, setting=setting)
            known = Surroundings.of(self._posterior, around)
            self._known.put(key, known)
        return known.correct(step)

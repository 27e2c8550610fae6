"""What all steps of one batch on a machine, a fabric and in a setting have in common.

Their covariances with the observed rows differ by few numbers and two curves of the placement;
what those are multiplied by is made here, once for all residuals that explain the observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.correcting.corrected import Posterior
from perfmodel.placement.calibration.correcting.paired_rows import ObservedColumns, factors
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.residual_terms import (
    BATCH_SHAPES,
    OF_MACHINE,
    ShapeColumns,
    Term,
    batch_shapes,
    curve_matrix,
    log_batch,
)
from perfmodel.placement.calibration.step_cells import SingleStep
from perfmodel.placement.calibration.step_response import Field

Codes = npt.NDArray[np.int64]

_SCOPES = ("all", "place", "job", "own")
#: Shapes that are a number of the one step times that of the other: positions in ``numbers``.
NUMBERS = {"": 0, "alone": 1, "one_host": 2, "share_slope": 3, "host_slope": 4, "rank_slope": 5}
#: Shapes that are a curve, and which; the slope over ranks is multiplied by those of both as well.
_CURVES = {"hosts": 0, "rank_slope": 0, "placement": 1}
#: In place of a number: whether the setting is the same, and is one.
_SETTING = len(NUMBERS)


class _Terms(NamedTuple):
    """Terms of a prior; those of one field and shape over placements are one.

    Parameters
    ----------
    fields, numbers, theirs : ndarray of int, shape (terms,)
        Field; number of the placement, and of the observed rows, that each is multiplied by.
    curves : ndarray of int
        Which curve the last of them are.
    of_machine : ndarray of bool, shape (terms, 1)
        Whether the place of each is the machine; else it is the fabric.
    variances : ndarray, shape (scopes, terms, shapes over batches)
    """

    fields: Codes
    numbers: Codes
    theirs: Codes
    curves: Codes
    of_machine: npt.NDArray[np.bool_]
    variances: FloatArray


@lru_cache(maxsize=64)
def _terms(variances: tuple[tuple[Term, float], ...]) -> _Terms:
    # A level of each field is one of them, for what jobs vary more than expected.
    found = {(one, ""): np.zeros((len(_SCOPES), len(BATCH_SHAPES))) for one in Field}
    for term, variance in variances:
        # A captured step is no guess.
        if not term.scope.startswith("guess_"):
            placement, batch = factors(term.shape)
            sums = found.setdefault((term.field, placement), np.zeros_like(found[Field.DEVICE, ""]))
            sums[_SCOPES.index(term.scope), BATCH_SHAPES.index(batch)] += variance
    keys = sorted(found, key=lambda key: key[1] in _CURVES)
    fields, shapes = [one for one, _ in keys], [shape for _, shape in keys]
    theirs = [_SETTING if shape == "setting" else NUMBERS.get(shape, 0) for shape in shapes]
    return _Terms(
        fields=np.array(fields, dtype=np.int64),
        numbers=np.array([NUMBERS.get(shape, 0) for shape in shapes]),
        theirs=np.array(theirs),
        curves=np.array([_CURVES[shape] for shape in shapes if shape in _CURVES], dtype=np.int64),
        of_machine=np.array([[one in OF_MACHINE] for one in fields]),
        variances=np.stack([found[key] for key in keys], axis=1),
    )


class _Beside(NamedTuple):
    """What of the observed rows steps of one batch share, wherever they are.

    Parameters
    ----------
    batch : ndarray, shape (shapes over batches, observed)
    itself : ndarray, shape (shapes over batches,)
        The same of the batch with itself.
    job, machine, fabric : ndarray, shape (observed,)
        1 where it is the same, else 0.
    theirs : ndarray, shape (numbers + 1, observed)
        Numbers of the placement of each, and whether its setting is the same.
    counts : ndarray, shape (numbers + 1,)
        1; 0 for the setting of a step that has none.
    """

    batch: FloatArray
    itself: FloatArray
    job: FloatArray
    machine: FloatArray
    fabric: FloatArray
    theirs: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, columns: ObservedColumns, shapes: ShapeColumns, step: SingleStep) -> Self:
        batch = log_batch(step.batch_size)
        known, at = columns.batches
        seen = np.array([log_batch(one) for one in known])
        setting = (shapes.setting == step.setting) & (step.setting != "")
        theirs = (
            np.ones(len(at)), shapes.alone, shapes.hosts == 0, shapes.share, shapes.hosts,
            shapes.ranks, setting,
        )  # fmt: skip
        return cls(
            batch=batch_shapes(batch, seen)[:, at],
            itself=batch_shapes(batch, np.array([batch]))[:, 0],
            job=columns.which_are("job", step.job),
            machine=columns.which_are("machine", step.machine),
            fabric=columns.which_are("fabric", step.fabric),
            theirs=np.array(theirs, dtype=np.float64),
            counts=np.array([1.0] * len(NUMBERS) + [float(step.setting != "")]),
        )


class OneResidual(NamedTuple):
    """What one residual says of the steps of :class:`Surroundings`.

    Parameters
    ----------
    variance : ndarray, shape (terms,)
        Prior variances, for numbers of 1.
    moves : ndarray, shape (fields, numbers + 3 x observed)
        The residual, for numbers and curves of 1; the last are curves times logarithms of ranks.
    compared, curved : ndarray, shape (terms, comparisons)
        Covariance of terms with what is compared, for slopes, numbers and curves of 1; the latter
        of the last terms, which are multiplied by a curve as well.
    precision : ndarray, shape (comparisons, comparisons)
        Inverse covariance of what is compared.
    """

    variance: FloatArray
    moves: FloatArray
    compared: FloatArray
    curved: FloatArray
    precision: FloatArray

    @classmethod
    def of(cls, one: Posterior, beside: _Beside, machine: str) -> Self:
        """Gather it for steps that share what stands beside them with the observed rows."""
        terms = _terms(one.prior.variances)
        every, place, job, own = terms.variances @ beside.batch
        there = np.where(terms.of_machine, beside.machine, beside.fabric)
        weights = every + job * beside.job + (place + own * beside.job) * there
        weights *= beside.theirs[terms.theirs]
        variance = terms.variances.sum(axis=0) @ beside.itself * beside.counts[terms.theirs]
        if one.wider is not None:
            # The first terms are the levels of all fields.
            wider = one.wider * beside.job * there[: len(Field)]
            weights[: len(Field)] += wider
            variance[: len(Field)] += wider.max(axis=1)
        straight = len(variance) - len(terms.curves)
        compared = weights[:, one.rows] * one.slopes[terms.fields]
        moved = weights * one.coefficients[terms.fields]
        moves = np.concatenate([_expected(one.prior, machine), _curved(terms, moved)], axis=1)
        to = terms.fields[:straight], terms.numbers[:straight]
        np.add.at(moves, to, moved[:straight].sum(axis=1))
        curved = compared[straight:]
        return cls(variance, moves, compared[:straight], curved, one.precision)

    def left(self, terms: FloatArray, curves: FloatArray) -> float:
        """Return the variance that what was observed leaves of the logarithm of a step.

        Parameters
        ----------
        terms : ndarray, shape (terms,)
            Slopes of the step times its numbers.
        curves : ndarray, shape (curved terms, comparisons)
        """
        # By ``dot``, which takes half as long as ``@`` where arrays are small.
        straight = len(self.compared)
        shared = terms[:straight].dot(self.compared)
        if len(self.curved):
            shared += terms[straight:].dot(self.curved * curves)
        taken = shared.dot(self.precision).dot(shared)
        return float((terms * terms).dot(self.variance) - taken)


def _expected(prior: ResidualPrior, machine: str) -> FloatArray:
    """Return what is expected of each field, shape (fields, numbers)."""
    found = np.zeros((len(Field), len(NUMBERS)))
    found[:, 0] = [prior.means.get(one.name.lower(), 0.0) for one in Field]
    found[Field.SPREAD, NUMBERS["alone"]] = prior.means.get("alone", 0.0)
    found[Field.COMMUNICATION, NUMBERS["one_host"]] = prior.means.get("one_host", 0.0)
    for one, longer in (prior.gap.on(machine) if prior.gap else {}).items():
        found[one, 0] += longer
    return found


def _curved(terms: _Terms, moved: FloatArray) -> FloatArray:
    """Return what observed rows move by both curves, and by the first one times the ranks."""
    rows, first = moved.shape[1], len(moved) - len(terms.curves)
    found = np.zeros((len(Field), 3, rows))
    for key, curve in enumerate(terms.curves.tolist(), start=first):
        found[terms.fields[key], 2 if terms.numbers[key] else curve] += moved[key]
    return found.reshape(len(Field), 3 * rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Surroundings:
    """What all steps of one batch on a machine, a fabric and in a setting have in common.

    Parameters
    ----------
    fields, numbers : ndarray of int, shape (terms,)
        Field of each term of the prior, and the number of a placement it is multiplied by.
    curves : ndarray of int, shape (curved terms, comparisons)
        Where in both curves those stand that the last terms are multiplied by as well.
    exponents : ndarray, shape (features, 2 x observed)
        Of both curves.
    residuals : tuple of OneResidual
        All that explain what was observed.
    """

    fields: Codes
    numbers: Codes
    curves: Codes
    exponents: FloatArray
    residuals: tuple[OneResidual, ...]

    @classmethod
    def of(cls, posteriors: Sequence[Posterior], step: SingleStep) -> Self:
        """Gather what a step has in common with others around it.

        Parameters
        ----------
        posteriors : sequence of Posterior
            Of one job: all that explain the same observations.
        """
        first = posteriors[0]
        shapes, terms = first.columns.shapes, _terms(first.prior.variances)
        beside = _Beside.of(first.columns, shapes, step)
        return cls(
            fields=terms.fields,
            numbers=terms.numbers,
            curves=len(shapes.ranks) * terms.curves[:, None] + first.rows,
            exponents=curve_matrix(shapes),
            residuals=tuple([OneResidual.of(one, beside, step.machine) for one in posteriors]),
        )

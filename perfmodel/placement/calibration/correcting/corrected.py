r"""Predicted steps after calibration: many jobs at a time, each by what was observed of it.

Steps that several residuals explain: all of them answer, each as probable as it is.

A step that takes longer than predicted may have a slow device, a slow host or slow loaders, and one
observation cannot tell which. With shares :math:`w_m` and what each residual makes of another step,
:math:`\log T_m` with standard deviation :math:`s_m`,

.. math:: \log T = \sum_m w_m \log T_m, \qquad
          s^2 = \sum_m w_m \left(s_m^2 + (\log T_m - \log T)^2\right).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.lone_cells import Told
from perfmodel.placement.calibration.paired_rows import Codes, PairedRows
from perfmodel.placement.calibration.posterior import Posterior, Weighed
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Responded, Response
from perfmodel.placement.estimate import StepParts

#: Pairs of a step and an observed row that are worked on together: as many as caches hold.
_PAIRS_AT_ONCE = 50_000


@dataclass(frozen=True, kw_only=True)
class CalibratedSteps(Columns):
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

    def interval(self, deviations: float = DEVIATIONS) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the interval of the step time, by default of 90 %."""
        factor = np.exp(deviations * self.log_sd)
        return self.parts.step_time_s / factor, self.parts.step_time_s * factor


def correct(
    posteriors: Sequence[Posterior], cells: StepCells, which: Codes | None = None
) -> CalibratedSteps:
    """Correct predicted steps.

    Parameters
    ----------
    posteriors : sequence of Posterior
        Of the jobs of the steps, or of others that share their machine or fabric.
    which : ndarray of int, shape (rows,), or None
        Which of them each step rests on; None: the first.
    """
    if which is None:
        return _correct(posteriors[:1], cells, np.zeros(len(cells), dtype=np.int64))
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for code, one in enumerate(posteriors):
        alike[one.form].append(code)
    parts, places = [], []
    for codes in alike.values():
        of_form = np.flatnonzero(np.isin(which, codes)) if len(alike) > 1 else np.arange(len(which))
        # Steps of one posterior one after the other.
        of_form = of_form[np.argsort(which[of_form], kind="stable")]
        most = max(_PAIRS_AT_ONCE // posteriors[codes[0]].coefficients.shape[1], 1)
        for start in range(0, len(of_form), most):
            rows = of_form[start : start + most]
            used, local = np.unique(which[rows], return_inverse=True)
            known = [posteriors[code] for code in used.tolist()]
            parts.append(_correct(known, cells.take(rows), local))
            places.append(rows)
    return CalibratedSteps.join(parts).take(np.argsort(np.concatenate(places)))


def _correct(known: Sequence[Posterior], cells: StepCells, which: Codes) -> CalibratedSteps:
    """Correct the steps of posteriors of one form, each of which has some, in their order."""
    prior, noise = known[0].prior, known[0].prior.noise
    pairs = PairedRows.of(cells, [one.seen for one in known], which)
    covariance, unknown = pairs.covariance(prior), prior.variance(cells)
    wider = np.stack([one.wider for one in known], axis=1)
    if wider.any():
        extra = pairs.own(wider[:, which])
        covariance += extra
        unknown += extra.max(axis=2)
    coefficients = np.stack([one.coefficients for one in known], axis=1)
    moved = [
        np.einsum("rn,rn->r", each, by_job[which])
        for each, by_job in zip(covariance, coefficients, strict=True)
    ]
    found = Response(cells, prior.neutral(cells))(prior.mean(cells) + np.stack(moved))
    slopes, own = np.array(found.by_step), _own(pairs, known, which)
    usual = noise.variances(1 - np.exp(-found.channels[1])).sum(axis=0)
    peculiar = np.where(own.seen, own.whole.sum(axis=1), usual)
    before = np.sum(slopes**2 * unknown, axis=0) + peculiar
    shared = _shared(covariance, slopes, known, which) + own.whole
    left = np.maximum(before - _taken(shared, known, which), 0.0)
    for row, told in _lone(cells, known, which, found, covariance, unknown):
        own.seen[row], own.effects[:, row], own.scatter[row] = True, told.effects, told.scatter
        left[row] = told.variance
    after = left + noise.repeat**2
    # A cell whose measurements disagree is not known better than they agree.
    apart = np.maximum(own.scatter**2 - noise.repeat**2, 0.0)
    return CalibratedSteps(
        parts=_with_effects(found.parts, own.effects),
        log_sd=np.sqrt(noise.inflation**2 * after + apart),
        learned=np.clip(1 - after / (before + noise.repeat**2), 0.0, 1.0),
        seen=own.seen,
    )


def _shared(
    covariance: FloatArray, slopes: FloatArray, known: Sequence[Posterior], which: Codes
) -> FloatArray:
    """Return the covariance of steps with what is compared that the fields make."""
    rows, by_job = known[0].rows, np.stack([one.slopes for one in known], axis=1)
    every = len(rows) == covariance.shape[2] and bool(np.all(rows == np.arange(len(rows))))
    total = np.zeros((len(which), len(rows)))
    for each, slope, compared in zip(covariance, slopes, by_job, strict=True):
        total += (each if every else each[:, rows]) * slope[:, None] * compared[which]
    return total


def _taken(shared: FloatArray, known: Sequence[Posterior], which: Codes) -> FloatArray:
    """Return the variance that the observations take away from each step."""
    ends = np.searchsorted(which, np.arange(len(known)), side="right").tolist()
    starts = [0, *ends[:-1]]
    weighed = np.empty_like(shared)
    for one, start, end in zip(known, starts, ends, strict=True):
        np.matmul(shared[start:end], one.precision, out=weighed[start:end])
    return np.asarray(np.einsum("rc,rc->r", weighed, shared))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Own:
    """What observed cells have to themselves.

    Parameters
    ----------
    whole : ndarray, shape (rows, comparisons)
        Its covariance with what is compared.
    effects : ndarray, shape (2, rows)
        What it was: in the step alone, and in its growth.
    scatter : ndarray, shape (rows,)
        Standard deviation of its measurements.
    """

    seen: npt.NDArray[np.bool_]
    whole: FloatArray
    effects: FloatArray
    scatter: FloatArray


def _own(pairs: PairedRows, known: Sequence[Posterior], which: Codes) -> _Own:
    rows, columns = pairs.cells
    compared = known[0].rows
    seen = np.zeros(len(which), dtype=np.bool_)
    whole, effects = np.zeros((len(which), len(compared))), np.zeros((2, len(which)))
    scatter = np.zeros(len(which))
    seen[rows] = True
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        one = known[which[row]]
        own = one.own * (compared == column)
        whole[row] = own.sum(axis=0)
        effects[:, row] = own @ one.weights
        scatter[row] = one.scatter[column]
    return _Own(seen=seen, whole=whole, effects=effects, scatter=scatter)


def _lone(
    cells: StepCells,
    known: Sequence[Posterior],
    which: Codes,
    found: Responded,
    covariance: FloatArray,
    unknown: FloatArray,
) -> Iterator[tuple[int, Told]]:
    """Return the rows that were observed beside what is weighed together, and what they say."""
    if all(one.lone is None for one in known):
        return
    channels, by_channel = found.channels, found.by_channel
    for row, (code, cell) in enumerate(zip(which.tolist(), cells.identities(), strict=True)):
        one = known[code]
        at = None if one.lone is None else one.lone.at.get(cell)
        if one.lone is None or at is None:
            continue
        slopes = by_channel[:, :, row]
        shared = np.einsum("fc,fj,fj->cj", slopes, covariance[:, row, one.rows], one.slopes)
        spread = (slopes.T * unknown[:, row]) @ slopes - shared @ one.precision @ shared.T
        yield row, one.lone.tell(at, channels[:, row], spread)


def _with_effects(parts: StepParts, effects: FloatArray) -> StepParts:
    """Scale steps by what their cells keep: the step alone, and how communication lengthens it.

    Of all communication as much is left as they show and hide: no more than computing takes.
    """
    factor = np.exp(effects[0])
    alone = parts.compute_s + parts.input_stall_s + parts.overhead_s
    growth = (1 + parts.exposed_communication_s / alone) * np.exp(effects[1]) - 1
    exposed = np.where(parts.communication_s > 0, np.maximum(growth, 0.0) * alone, 0.0) * factor
    compute = parts.compute_s * factor
    return StepParts.of(
        compute,
        exposed_communication_s=exposed,
        input_stall_s=parts.input_stall_s * factor,
        overhead_s=parts.overhead_s * factor,
        communication_s=np.clip(parts.communication_s, exposed, exposed + compute),
    )


def correct_weighed(
    jobs: Sequence[Sequence[Weighed]], cells: StepCells, which: Codes | None = None
) -> CalibratedSteps:
    """Correct predicted steps, as :func:`.correct`.

    Parameters
    ----------
    jobs : sequence of sequence of Weighed
        Of each job all that explains its observations.
    which : ndarray of int, shape (rows,), or None
        Which of the jobs each step belongs to; None: the first.
    """
    codes = np.zeros(len(cells), dtype=np.int64) if which is None else which
    counts = np.array([len(job) for job in jobs])
    each = [one for job in jobs for one in job]
    posteriors = [one.posterior for one in each]
    # Each step as often as residuals explain its job.
    answers = counts[codes]
    rows, starts = np.repeat(np.arange(len(codes)), answers), np.cumsum(answers) - answers
    of_job = (np.cumsum(counts) - counts)[codes]
    asked = np.arange(len(rows)) - np.repeat(starts - of_job, answers)
    found = correct(posteriors, cells.take(rows), asked)
    shares = np.array([one.share for one in each])[asked]
    step_s = found.parts.step_time_s
    log = np.add.reduceat(shares * np.log(step_s), starts)
    apart = np.log(step_s) - log[rows]
    variance = np.add.reduceat(shares * (found.log_sd**2 + apart**2), starts)
    factor = np.exp(log) / np.add.reduceat(shares * step_s, starts)
    return CalibratedSteps(
        parts=found.parts.each(lambda part: factor * np.add.reduceat(shares * part, starts)),
        log_sd=np.sqrt(variance),
        learned=np.add.reduceat(shares * found.learned, starts),
        seen=found.seen[starts],
    )

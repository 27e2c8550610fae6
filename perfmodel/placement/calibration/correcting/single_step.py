r"""The correction of a single step that was not observed itself, on plain numbers.

What :mod:`.corrected` says in columns, for the one cell that most questions ask. Of one batch on a
machine and a fabric the covariance with the observed rows :math:`j` is

.. math:: K_f(j) = \sum_m \phi_m A_{fm}(j) + \sum_g \psi_g e_g(j) B_{fg}(j)

with few numbers :math:`\phi, \psi` of the placement and two curves :math:`e` over placements. What
they are multiplied by is made once, for all steps in such :class:`.Surroundings`, so that each of
them takes some microseconds. How it answers to a residual, :func:`respond`, is what
:mod:`.step_response` says in columns, which take ten times as long for one step. Tests hold both
ways to the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.correcting.corrected import Weighed
from perfmodel.placement.calibration.correcting.surroundings import Surroundings
from perfmodel.placement.calibration.residual_prior import Noise
from perfmodel.placement.calibration.step_cells import SingleStep
from perfmodel.placement.calibration.step_response import (
    CORNER,
    FIXED_S,
    LEAST_HIDDEN,
    MOST_LOG,
    MOST_TAIL,
    SOFTNESS,
    Field,
)
from perfmodel.placement.estimate import StepNumbers


class Responded(NamedTuple):
    """A step under a residual.

    Parameters
    ----------
    growth : float
        Logarithm of the factor by which exposed communication lengthens the step.
    slopes : list of float
        Derivatives of the logarithm of the step by the fields.
    """

    parts: StepNumbers
    growth: float
    slopes: list[float]


class _Communication(NamedTuple):
    """Communication under a residual, and the derivatives of its exposed part."""

    communication_s: float = 0.0
    exposed_s: float = 0.0
    by_communication: float = 0.0
    by_tail: float = 0.0
    by_window: float = 0.0


def respond(step: SingleStep, expected: Sequence[float], residual: Sequence[float]) -> Responded:
    """Return a step under a residual, as :meth:`.Response.linear` and :meth:`.Response.parts`.

    Parameters
    ----------
    expected : sequence of float
        The residual under which it takes as long as predicted, one of each field.
    """
    # Fields in their order: names take a third of the time of positions by name.
    usual_device, usual_host, _, usual_spread, usual_fixed, *_ = expected
    device, host, feed, spread, fixed, communication, tail, window = _bounded(residual)
    before = step.parts
    worked, _ = _worked(step, usual_device, usual_host, usual_spread)
    scale = before.compute_s / (worked + FIXED_S * math.exp(usual_fixed))
    worked, device_share = _worked(step, device, host, spread)
    worked *= scale
    fixed_s = scale * FIXED_S * math.exp(fixed)
    busy_s = worked + fixed_s
    beside = (step.input_s * math.exp(feed) / busy_s) ** CORNER
    compute_s, busy_share = busy_s * (1 + beside) ** (1 / CORNER), 1 / (1 + beside)
    found = _Communication()
    if step.communicates:
        found = _communication(step, communication, tail, window, compute_s)
    alone_s = compute_s + before.input_stall_s + before.overhead_s
    here_s = compute_s * busy_share
    by_fixed = here_s * fixed_s / busy_s
    worked = here_s - by_fixed
    # What computation grows by widens the window as well.
    step_s = alone_s + found.exposed_s
    longer = (1 + found.by_window / compute_s) / step_s
    slopes = [
        longer * worked * device_share,
        longer * worked * (1 - device_share),
        longer * (compute_s - here_s),
        longer * worked,
        longer * by_fixed,
        found.by_communication / step_s,
        found.by_tail / step_s,
        found.by_window / step_s,
    ]
    parts = StepNumbers(
        compute_s, found.exposed_s, before.input_stall_s, before.overhead_s, found.communication_s
    )
    return Responded(parts, math.log1p(found.exposed_s / alone_s), slopes)


def _bounded(residual: Sequence[float]) -> Sequence[float]:
    if max(residual) <= MOST_LOG and min(residual) >= -MOST_LOG:
        return residual
    return [max(-MOST_LOG, min(MOST_LOG, one)) for one in residual]


def _worked(step: SingleStep, device: float, host: float, spread: float) -> tuple[float, float]:
    """Return the time that device or host work, and the share of it that is the device's."""
    by_device = CORNER * (math.log(step.parts.compute_s) + device)
    by_host = CORNER * (math.log(step.host_s) + host)
    longer = max(by_device, by_host) + math.log1p(math.exp(-abs(by_device - by_host)))
    return math.exp(longer / CORNER + spread), math.exp(by_device - longer)


def _communication(
    step: SingleStep, communication: float, later: float, wider: float, compute_s: float
) -> _Communication:
    """Return communication under the residual of itself, of its tail and of the window."""
    total, exposed = step.parts.communication_s, step.parts.exposed_communication_s
    window = step.window_share * step.parts.compute_s
    beyond = _exceeds(total, window)
    tail = min(max((exposed - beyond) / max(total - beyond, 1e-12), 1e-3), 0.95)
    law = tail * total + _exceeds((1 - tail) * total, window)
    anchor = min(max(exposed / law, 0.5), 2.0)
    hidden = (1 - tail) ** math.exp(min(later, MOST_TAIL))
    tail = 1 - max(hidden, LEAST_HIDDEN)
    total *= math.exp(communication)
    window = step.window_share * compute_s * math.exp(wider)
    hideable = (1 - tail) * total
    over, soft = hideable - window, 4 * SOFTNESS**2 * hideable
    root = max(math.sqrt(over**2 + soft * hideable), 1e-300)
    by_hideable, by_window = 0.5 * (1 + (over + soft) / root), -0.5 * (1 + over / root)
    moved = -(1 - tail) * math.log(1 - tail) * (later < MOST_TAIL)
    return _Communication(
        communication_s=total,
        exposed_s=min(anchor * (tail * total + _exceeds(hideable, window)), total),
        by_communication=anchor * (tail * total + by_hideable * hideable),
        by_tail=anchor * (1 - by_hideable) * total * moved,
        by_window=anchor * by_window * window,
    )


def _exceeds(communication_s: float, window_s: float) -> float:
    over = communication_s - window_s
    soft = 2 * SOFTNESS * communication_s
    return 0.5 * (over + math.sqrt(over**2 + soft**2))


#: Surroundings of one job that are kept; one takes some twenty kilobytes.
_KEPT = 64
#: Stands for a setting that no observed row has.
_ANOTHER = "another"


class CalibratedStep(NamedTuple):
    """A step after calibration, as :class:`.CalibratedSteps` has them in columns."""

    parts: StepNumbers
    log_sd: float


class SingleSteps:
    """Corrects single steps of a job; may be shared by threads.

    Parameters
    ----------
    job : sequence of Weighed
        All that explains the observations of the job.
    """

    def __init__(self, job: Sequence[Weighed]) -> None:
        self._shares = [one.share for one in job]
        self._posteriors = posteriors = [one.posterior for one in job]
        first = posteriors[0]
        self._cells = first.columns.cells
        self._words = {n: frozenset(w) for n, (w, _) in first.columns.words.items()}
        self._settings = {setting for *_, setting in first.columns.placements[0]} | {""}
        self._has_gap = any(one.prior.gap is not None for one in posteriors)
        self._means, self._noise = first.prior.means, first.prior.noise
        self._expected = [self._means.get(one.name.lower(), 0.0) for one in Field]
        self._known: LruCache[tuple[object, ...], Surroundings] = LruCache(_KEPT)

    def correct(self, step: SingleStep) -> CalibratedStep | None:
        """Return a step as it is believed to be; None where it was observed itself."""
        if step.identity in self._cells:
            return None
        around, (numbers, features) = self._around(step), _numbers(step)
        near = np.exp(features.dot(around.exponents))
        curves, weights = near.take(around.curves), numbers.take(around.numbers)
        moving = np.concatenate([numbers, near, numbers[-1] * near[: len(near) // 2]])
        expected, found = self._expected_of(step), []
        for one in around.residuals:
            responded = respond(step, expected, one.moves.dot(moving).tolist())
            terms = np.array(responded.slopes).take(around.fields) * weights
            log_sd = _log_sd(self._noise, responded, one.left(terms, curves))
            found.append(CalibratedStep(responded.parts, log_sd))
        return found[0] if len(found) == 1 else _together(self._shares, found)

    def _around(self, step: SingleStep) -> Surroundings:
        words = self._words
        # Machines and fabrics on which nothing was observed are all alike.
        key = (
            step.batch_size,
            step.job if step.job in words["job"] else "",
            step.machine if step.machine in words["machine"] or self._has_gap else "",
            step.fabric if step.fabric in words["fabric"] else "",
            step.setting if step.setting in self._settings else _ANOTHER,
        )
        known = self._known.get(key)
        if known is None:
            _, job, machine, fabric, setting = key
            around = step._replace(job=job, machine=machine, fabric=fabric, setting=setting)
            known = Surroundings.of(self._posteriors, around)
            self._known.put(key, known)
        return known

    def _expected_of(self, step: SingleStep) -> list[float]:
        """Return the residual under which the step takes as long as predicted."""
        expected = list(self._expected)
        if step.ranks == 1:
            expected[Field.SPREAD] += self._means.get("alone", 0.0)
        if step.hosts == 1:
            expected[Field.COMMUNICATION] += self._means.get("one_host", 0.0)
        return expected


def _together(shares: Sequence[float], found: Sequence[CalibratedStep]) -> CalibratedStep:
    """Return the weighed mean of answers; as :mod:`.corrected`."""
    logs = [math.log(one.parts.step_time_s) for one in found]
    log = sum(share * each for share, each in zip(shares, logs, strict=True))
    mean_s = sum(share * one.parts.step_time_s for share, one in zip(shares, found, strict=True))
    variance = sum(
        share * (one.log_sd**2 + (each - log) ** 2)
        for share, one, each in zip(shares, found, logs, strict=True)
    )
    weights = [share * math.exp(log) / mean_s for share in shares]
    columns = zip(*(one.parts for one in found), strict=True)
    parts = [
        sum(weight * value for weight, value in zip(weights, column, strict=True))
        for column in columns
    ]
    return CalibratedStep(StepNumbers(*parts), math.sqrt(variance))


def _log_sd(noise: Noise, found: Responded, unknown: float) -> float:
    """Return the standard deviation of a step from the variance that is left of its residual."""
    exposed_share = 1 - math.exp(-found.growth)
    cell = noise.compute**2 + noise.sync**2 + (noise.sync_share * exposed_share) ** 2
    return noise.inflation * math.sqrt(max(unknown + cell, 0.0) + noise.repeat**2)


def _numbers(step: SingleStep) -> tuple[FloatArray, FloatArray]:
    """Return what of a placement shapes are made of: numbers, and features of the curves."""
    ranks, share = math.log(step.ranks), math.log(step.largest_share)
    hosts, spread = math.log(step.hosts), 2.0 / step.hosts
    alone, one_host = float(step.ranks == 1), float(step.hosts == 1)
    numbers = (1.0, alone, one_host, share, hosts, ranks)
    features = (1.0, spread, spread**2, share, share**2, ranks, ranks**2)
    both = np.array(numbers + features)
    return both[: len(numbers)], both[len(numbers) :]

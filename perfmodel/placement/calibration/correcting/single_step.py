r"""The correction of a single step that was not observed itself, on plain numbers.

What :mod:`.corrected` says in columns, for the one cell that most questions ask. Of one batch on a
machine and a fabric the covariance with the observed rows :math:`j` is

.. math:: K_f(j) = \sum_m \phi_m A_{fm}(j) + \sum_g \psi_g e_g(j) B_{fg}(j)

with few numbers :math:`\phi, \psi` of the placement and two curves :math:`e` over placements. What
they are multiplied by is made once, for all steps in such :class:`.Surroundings`, so that each of
them takes some microseconds. A test holds both ways to the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.correcting.response_numbers import (
    Responded,
    SingleStep,
    respond,
)
from perfmodel.placement.calibration.correcting.surroundings import Surroundings
from perfmodel.placement.calibration.correcting.weighed import Weighed
from perfmodel.placement.calibration.residual_prior import Noise
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.step_parts import StepNumbers

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
    """Return the weighed mean of answers; as :mod:`.weighed`."""
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

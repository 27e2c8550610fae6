r"""The correction of a single step that was not observed itself, on plain numbers.

What :mod:`.corrected` says in columns, for the one cell that most questions ask. Of one batch on a
machine, a fabric and in a setting the covariance with the observed rows :math:`j` is

.. math:: K_f(j) = \sum_p W_{fp}(j)\ placement_p(j),

where :math:`W` sums the terms of the prior over scopes and batches. It is made once for all steps
in such surroundings, so that each of them takes some microseconds. Tests hold both ways to the
same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from perfmodel.features.arrays import FloatArray, PlainNumbers
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.paired_rows import features_of
from perfmodel.placement.calibration.posterior import Weighed
from perfmodel.placement.calibration.residual_prior import (
    OWN,
    PLACEMENT_SHAPES,
    PLACES,
    batch_shapes,
    placement_features,
    placement_shapes,
)
from perfmodel.placement.calibration.step_cells import SingleStep
from perfmodel.placement.calibration.step_response import Field, Response
from perfmodel.placement.estimate import StepNumbers

#: Surroundings of one job that are kept; each takes a kilobyte for each compared number.
_KEPT = 32
#: Stands for a setting that no observed row has.
_ANOTHER = "another"
_SETTING = PLACEMENT_SHAPES.index("setting")


class CalibratedStep(NamedTuple):
    """A step after calibration, as :class:`.CalibratedSteps` has them in columns."""

    parts: StepNumbers
    log_sd: float


class _Surroundings(NamedTuple):
    """What all steps of one batch on a machine, a fabric and in a setting have in common.

    Parameters
    ----------
    mean : ndarray, shape (2, residuals, fields)
        What is expected of each field: of several ranks, and of one.
    moves : ndarray, shape (residuals, fields, shapes x placements)
        The residual less that, for shapes of 1 with each placement that was observed.
    variance : ndarray, shape (residuals, fields, slopes)
        Prior variances.
    compared : ndarray, shape (residuals, terms, comparisons)
        Covariances with what is compared, for shapes of 1.
    """

    mean: FloatArray
    moves: FloatArray
    variance: FloatArray
    compared: FloatArray


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
        self._seen, rows = posteriors[0].seen, posteriors[0].rows
        self._words = {name: frozenset(known) for name, (known, _) in self._seen.shared.items()}
        placements, which = self._seen.shared["placement"]
        self._place, (self._there, settings) = which[rows], features_of(placements)
        self._setting, self._settings = settings[self._place], {*settings.tolist(), ""}
        self._ones = np.ones((1, len(placements)))
        # A term is a shape that a field has; what is peculiar to a job runs over no placements.
        has = np.any([one.prior.variances[0].any(axis=(1, 2)) for one in posteriors], axis=0)
        has[:, 0] = True
        self._fields, self._shapes = np.nonzero(has)
        self._pairs = self._shapes[:, None] * len(placements) + self._place
        # Of a job that is said to be a script; all residuals share it.
        self._gap = posteriors[0].prior.gap
        self._noise, means = posteriors[0].prior.noise, posteriors[0].prior.means
        expected = np.tile([means.get(one.name.lower(), 0.0) for one in Field], (2, 1))
        expected[1, Field.SPREAD] += means.get("alone", 0.0)
        #: Of several ranks, and of one.
        self._expected = expected.tolist()
        self._known: LruCache[tuple[object, ...], _Surroundings] = LruCache(_KEPT)

    def correct(self, step: SingleStep) -> CalibratedStep | None:
        """Return a step as it is believed to be; None where it was observed itself."""
        if self._posteriors[0].has_seen(step.identity):
            return None
        around = self._around(step)
        here = placement_features(step.ranks, step.hosts, step.largest_share, PlainNumbers)
        shapes = placement_shapes(here[:, None], self._there, self._ones).ravel()
        kind = int(step.ranks == 1)
        residuals = around.moves.dot(shapes) + around.mean[kind]
        if self._gap is not None and (link := self._gap.over(step.machine, step.fabric)):
            there = step.ranks, step.hosts, step.largest_share
            for field, longer in link.mean(*there, PlainNumbers).items():
                residuals[:, field] += longer
        variances, pairs = around.variance.dot(here[:-1] ** 2), shapes.take(self._pairs)
        response, found = Response(step, self._expected[kind]), []
        for at, posterior in enumerate(self._posteriors):
            responded = response(residuals[at].tolist())
            slopes = np.array(responded.by_step)
            shared = slopes.take(self._fields).dot(around.compared[at] * pairs)
            taken = shared.dot(posterior.precision).dot(shared)
            left = float((slopes * slopes).dot(variances[at]) - taken)
            parts, noise = responded.parts, self._noise
            exposed_share = parts.exposed_communication_s / parts.step_time_s
            cell = noise.compute**2 + noise.sync**2 + (noise.sync_share * exposed_share) ** 2
            log_sd = noise.inflation * math.sqrt(max(left + cell, 0.0) + noise.repeat**2)
            found.append(CalibratedStep(parts, log_sd))
        return found[0] if len(found) == 1 else _together(self._shares, found)

    def _around(self, step: SingleStep) -> _Surroundings:
        words = self._words
        # Machines and fabrics on which nothing was observed are all alike.
        key = (
            step.batch_size,
            step.job if step.job in words["job"] else "",
            step.machine if step.machine in words["machine"] or self._gap else "",
            step.link if step.link in words["link"] else "",
            step.fabric if step.fabric in words["fabric"] else "",
            step.setting if step.setting in self._settings else _ANOTHER,
        )
        known = self._known.get(key)
        if known is None:
            known = self._surroundings(*key)
            self._known.put(key, known)
        return known

    def _surroundings(
        self, batch_size: float, job: str, machine: str, link: str, fabric: str, setting: str
    ) -> _Surroundings:
        rows, here = self._posteriors[0].rows, np.array([batch_size])
        known, which = self._seen.shared["batch"]
        batches = batch_shapes(here, np.array(known)[which[rows]])
        itself = batch_shapes(here, here)[:, 0]
        same_setting = (self._setting == setting) & (setting != "")
        same = {}
        stated = {"job": job, "machine": machine, "link": link, "fabric": fabric}
        for name, word in stated.items():
            words, have = self._seen.shared[name]
            code = words.index(word) if word in words else -1
            same[name] = (have[rows] == code).astype(np.float64)
        places = [same[PLACES[field]] for field in Field]
        every = np.ones(len(rows))
        scopes = np.stack([[every, at, same["job"], same["job"] * at] for at in places])
        # A row whose step is compared in two parts moves others once.
        times = np.bincount(rows)[rows]
        there = self._place[:, None] == np.arange(self._ones.shape[1])
        found = []
        for one in self._posteriors:
            # A captured step is no guess.
            variances = one.prior.variances[0]
            weights = np.einsum("fsbp,fsj,bj->fpj", variances, scopes, batches, optimize=True)
            weights[:, _SETTING] *= same_setting
            variance = np.einsum("fsbp,b->fp", variances, itself)
            variance[:, _SETTING] *= setting != ""
            wider = one.wider[:, rows] * scopes[:, OWN]
            weights[:, 0] += wider
            # Curves, and the setting, are 1 of a step with itself.
            variance[:, 0] += wider.max(axis=1) + variance[:, -3:].sum(axis=1)
            mean = np.array(self._expected)
            for field, longer in (self._gap.on(machine) if self._gap else {}).items():
                mean[:, field] += longer
            moves = (weights * (one.coefficients[:, rows] / times)[:, None]) @ there
            compared = (weights * one.slopes[:, None])[self._fields, self._shapes]
            slopes = variance[:, : len(self._there) - 1]
            found.append((mean, moves.reshape(len(Field), -1), slopes, compared))
        means, *others = (np.array(each) for each in zip(*found, strict=True))
        return _Surroundings(means.swapaxes(0, 1), *others)


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

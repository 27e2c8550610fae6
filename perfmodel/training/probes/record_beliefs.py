r"""What a learner believes of records of a device before they are measured, and what each tells.

Residuals of steps, ``ln(measured / answered)``, are one Gaussian under the belief with which a
learner takes records in (for the joint predictor that of
:mod:`~perfmodel.predictors.joint.device_records`: effects of the device, makes of networks, jobs).
Measuring step ``x`` leaves of the covariance ``V``

    V'_{ij} = V_{ij} - V_{ix} V_{xj} / V_{xx},

whatever time comes out. What that tells of an answer ``z`` is ``ln(V_{zz} / V'_{zz}) / 2``, and the
next step is the one that tells most a second, summed over what is cared for. Where beliefs differ
(how much goes with the make of a network is not known beforehand) it is their mean.

An answer counts by the ratio in which its variance falls. The fall itself would count those most
that are least certain, and steps that are unlike all others would be measured first for their own
sake, where beliefs hold least.

Reference: D. J. C. MacKay, "Information-based objective functions for active data selection",
Neural Computation 4, 1992 (mean marginal information gain).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step
from perfmodel.predictors.joint.device_records import DeviceRecords
from perfmodel.predictors.joint.job_memory import cell_of, job_key
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.kinship import SPREADS, kinship, log_posterior
from perfmodel.training.probes.probe_plan import ProbeChooser, noise_with_misfit, prior_of

#: Of its variance, what is left of an answer at least: rounding would tell the more.
_LEAST_LEFT = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordBelief:
    """One belief about the residuals of steps.

    Parameters
    ----------
    weight : float
        How credible it is beside others, > 0.
    covariance : ndarray, shape (steps, steps)
        Of residuals as they would be measured, the noise of each record included.
    """

    weight: float
    covariance: FloatArray

    def after(self, count: int) -> RecordBelief:
        """Return the belief about the other steps once the first ones have been measured."""
        known, shared = self.covariance[:count, :count], self.covariance[:count, count:]
        left = self.covariance[count:, count:] - shared.T @ np.linalg.solve(known, shared)
        return RecordBelief(weight=self.weight, covariance=left)


def record_beliefs(chooser: ProbeChooser, steps: Sequence[Step]) -> list[RecordBelief]:
    """Return what is believed of steps on one device, beside the records that are known of it.

    Parameters
    ----------
    chooser : ProbeChooser
        The joint predictor is asked how it would take records in; of any other learner it is
        known what the residual of a device is linear in.
    """
    if isinstance(chooser, JointPredictor):
        return _of_joint(chooser, steps)
    features = np.asarray(chooser.device_features(steps), dtype=np.float64)
    prior = prior_of(chooser, steps[0].accelerator.name)
    noise = noise_with_misfit(features, chooser.noise_)
    covariance = features @ prior @ features.T + np.diag(noise**2)
    return [RecordBelief(weight=1.0, covariance=covariance)]


def _of_joint(learner: JointPredictor, steps: Sequence[Step]) -> list[RecordBelief]:
    device, known = steps[0].accelerator.name, learner.known_
    new, before = _as_records(learner, steps), known.records.get(device)
    records = new if before is None else before.joined(new)
    beliefs = known.beliefs if before is None else known.beliefs.without([device])
    features, effect = records.features, beliefs.before_records(device)
    noise = records.noise(known.memory_of(device, recorded=True), known.job_variance(device))
    scatter = 1.0 if before is None else before.scatter
    alone = features @ effect.covariance @ features.T + scatter * noise + np.diag(records.doubt)
    makes = kinship(records.shapes, features, records.shapes, features)
    if before is not None:
        whole = alone + before.spread**2 * makes
        return [RecordBelief(weight=1.0, covariance=whole).after(len(before.jobs))]
    unlearned = beliefs.unlearned(device)
    # Before any record, as credible as the prior lets each spread be, up to a constant.
    none, nothing = np.zeros((0, 0)), np.zeros(0)
    return [
        RecordBelief(
            weight=float(np.exp(log_posterior(spread, none, nothing))),
            covariance=alone + spread**2 * unlearned * makes,
        )
        for spread in SPREADS
    ]


def _as_records(learner: JointPredictor, steps: Sequence[Step]) -> DeviceRecords:
    """Return steps as the records that they would become, with no residuals."""
    asked, nothing = learner.ask(steps), np.zeros(len(steps))
    return DeviceRecords(
        jobs=tuple(job_key(step) for step in steps),
        cells=np.array([cell_of(step) for step in steps], dtype=np.int64),
        features=learner.device_features(steps),
        residuals=nothing,
        scale=asked.members.scale,
        weight=np.ones(len(steps)),
        doubt=nothing,
        shapes=asked.shapes,
    )


def telling_order(
    beliefs: Sequence[RecordBelief],
    candidates: int,
    most: int,
    *,
    cost_s: FloatArray | None = None,
) -> list[int]:
    """Return the steps to measure, best first.

    Parameters
    ----------
    beliefs : sequence of RecordBelief
        About the candidates and, after them, what is cared for.
    candidates : int
        How many of the steps can be measured.
    most : int
        How many are put in order.
    cost_s : ndarray, shape (candidates,), optional
        Seconds that measuring each takes, > 0; the same for all by default.

    Returns
    -------
    list of int
        Positions among the candidates.

    Examples
    --------
    Two candidates, of which the second shares more with the one answer that is cared for:

    >>> shared = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.6], [0.3, 0.6, 1.0]])
    >>> telling_order([RecordBelief(weight=1.0, covariance=shared)], 2, 2)
    [1, 0]
    """
    # Rows of all steps, columns of the candidates: nothing else is looked at.
    shared = [one.covariance[:, :candidates].copy() for one in beliefs]
    variance = [np.diag(one.covariance)[candidates:].copy() for one in beliefs]
    free, chosen = np.ones(candidates, dtype=np.bool_), list[int]()
    for _ in range(min(most, candidates)):
        told = np.zeros(candidates)
        for belief, covariance, own in zip(beliefs, shared, variance, strict=True):
            told += belief.weight * _told(covariance, own)
        told = told if cost_s is None else told / cost_s
        best = int(np.argmax(np.where(free, told, -1.0)))
        chosen.append(best)
        free[best] = False
        for covariance, own in zip(shared, variance, strict=True):
            column = covariance[:, best] / covariance[best, best] ** 0.5
            own -= column[candidates:] ** 2
            covariance -= np.outer(column, column[:candidates])
            # Measured: what it shares is gone, and it is not divided by again.
            covariance[best, best] = 1.0
    return chosen


def _told(covariance: FloatArray, own: FloatArray) -> FloatArray:
    """Return what measuring each candidate tells of all that is cared for, in nats."""
    candidates = covariance.shape[1]
    fall = covariance[candidates:] ** 2 / np.diag(covariance[:candidates])
    left = 1.0 - np.minimum(fall / own[:, None], 1.0 - _LEAST_LEFT)
    return np.asarray(-0.5 * np.log(left).sum(axis=0))

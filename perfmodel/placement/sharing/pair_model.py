r"""How much longer steps take beside another job: a law, and what pairs teach on top of it.

The law. A job with device share :math:`u_i` beside one with :math:`u_j` waits for it during the
part of its step that needs the accelerator, as long as the other has work there, and the longer,
the longer the other's steps are beside its own:

.. math:: S_{ij} = 1 + \kappa\, u_i^p\, u_j^q\, (T_j / T_i)^\gamma .

:math:`\kappa = p = q = 1` and :math:`\gamma = 0` are two jobs that get equal slices of time in
turn; that form, unfitted, is the answer for time slicing. For jobs whose kernels may run beside
each other (MPS) the four constants are fitted to measured pairs.

What is left. Jobs of a family that was measured in pairs on the same kind of accelerator also have
a learned residual :math:`\log S_{ij} - \log law`: the mean of a Gaussian process over subject and
partner, whose likeness of two jobs is

.. math:: k = [family = family'](w\, e^{-|\log_2 b - \log_2 b'| / l} + 1 - w)

and whose covariance is the sum of a constant, a part of the subject, one of the partner, and one
of both. Its weights are learned per kind of accelerator; other kinds have the law alone.

Limits: whole accelerators. Contention for the cores and loaders of the host is in the residual
only.

Reference for the pairs: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep
Learning Workloads, OSDI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.sharing.job_load import Loads

#: Longest and shortest partner that the law tells apart, as a ratio of step times.
_MOST_RATIO = 400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PairLaw:
    """Constants of the law.

    Parameters
    ----------
    scale, subject_power, partner_power, ratio_power : float
        All >= 0; the law's kappa, p, q and gamma.
    """

    scale: float = 1.0
    subject_power: float = 1.0
    partner_power: float = 1.0
    ratio_power: float = 0.0

    def log_slowdown(self, subjects: Loads, partners: Loads) -> FloatArray:
        """Return the logarithm of the slowdown of each subject beside its partner."""
        ratio = np.clip(partners.step_time_s / subjects.step_time_s, 1 / _MOST_RATIO, _MOST_RATIO)
        shares = (
            subjects.device_share**self.subject_power * partners.device_share**self.partner_power
        )
        return np.asarray(np.log1p(self.scale * shares * ratio**self.ratio_power))


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """How alike two jobs are taken to be, and how much each part of the residual varies.

    Parameters
    ----------
    length : float
        Doublings of the batch size over which the likeness falls to 1/e, > 0.
    batch_part : float
        Part of the likeness that the batch size decides, in [0, 1].
    constant, subject, partner, both : float
        Variances of the parts of the residual, in log slowdown.
    """

    length: float = 3.0
    batch_part: float = 0.7
    constant: float = 0.06
    subject: float = 0.1
    partner: float = 0.1
    both: float = 0.2

    def jobs(
        self,
        families: npt.ArrayLike,
        log2_batch: FloatArray,
        other_families: npt.ArrayLike,
        other_log2_batch: FloatArray,
    ) -> FloatArray:
        """Return the likeness of every job to every other, shape (jobs, others)."""
        same = np.array(families, dtype=str)[:, None] == np.array(other_families, dtype=str)
        apart = np.abs(log2_batch[:, None] - other_log2_batch[None, :])
        alike = self.batch_part * np.exp(-apart / self.length) + 1 - self.batch_part
        return np.asarray(np.where(same, alike, 0.0))

    def mean(self, subject: FloatArray, partner: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the mean of the residual.

        Parameters
        ----------
        subject, partner : ndarray, shape (pairs, known)
            Likeness to the known jobs.
        weights : ndarray, shape (known, known)
            Learned weights, subjects along the first axis.
        """
        by_subject = subject @ weights.sum(axis=1)
        by_partner = partner @ weights.sum(axis=0)
        both = ((subject @ weights) * partner).sum(axis=1)
        parts = self.subject * by_subject + self.partner * by_partner + self.both * both
        return np.asarray(self.constant * weights.sum() + parts)


@dataclass(frozen=True, kw_only=True)
class PairModel:
    """The law and, per kind of accelerator, the residual that was learned on it.

    Parameters
    ----------
    log2_batch : ndarray, shape (known,)
    weights : mapping of str to ndarray, shape (known, known)
        By catalogue name of the accelerator.
    """

    law: PairLaw
    likeness: Likeness
    families: tuple[str, ...]
    log2_batch: FloatArray
    weights: Mapping[str, FloatArray]

    def slowdown(self, subjects: Loads, partners: Loads, kind: str) -> FloatArray:
        """Return the slowdown of each subject beside its partner, >= 1."""
        log_slowdown = self.law.log_slowdown(subjects, partners)
        weights = self.weights.get(kind)
        if weights is not None:
            known = self.families, self.log2_batch
            alike = [
                self.likeness.jobs(loads.families, loads.log2_batch, *known)
                for loads in (subjects, partners)
            ]
            both_known = alike[0].any(axis=1) & alike[1].any(axis=1)
            residual = self.likeness.mean(alike[0], alike[1], weights)
            log_slowdown = log_slowdown + np.where(both_known, residual, 0.0)
        return np.asarray(np.maximum(np.exp(log_slowdown), 1.0))

    def to_constants(self) -> dict[str, Any]:
        """Return the model as plain JSON values."""
        return {
            "law": {name: round(getattr(self.law, name), 6) for name in PairLaw.__slots__},
            "likeness": {name: getattr(self.likeness, name) for name in Likeness.__slots__},
            "families": list(self.families),
            "log2_batch": [round(float(b), 6) for b in self.log2_batch],
            "weights": {kind: np.round(w, 5).tolist() for kind, w in self.weights.items()},
        }

    @classmethod
    def from_constants(cls, constants: Mapping[str, Any]) -> PairModel:
        """Read back what :meth:`to_constants` gave."""
        return cls(
            law=PairLaw(**constants["law"]),
            likeness=Likeness(**constants["likeness"]),
            families=tuple(constants["families"]),
            log2_batch=np.array(constants["log2_batch"], dtype=np.float64),
            weights={
                kind: np.array(w, dtype=np.float64) for kind, w in constants["weights"].items()
            },
        )

r"""Two jobs on one accelerator: how much longer the steps of each take.

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

Limits: whole accelerators of one host; no figure for three jobs was measured, their excesses are
added. Contention for CPU cores and loaders is in the residual only.

Reference for the pairs: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep
Learning Workloads, OSDI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.placement.fitted import fitted
from perfmodel.placement.job_load import JobLoad, Loads
from perfmodel.types import Basis

FloatArray = npt.NDArray[np.float64]

#: Device memory that the CUDA context and libraries of one process take.
_CONTEXT_BYTES = 450e6
#: Longest and shortest partner that the law tells apart, as a ratio of step times.
_MOST_RATIO = 400.0


class Sharing(StrEnum):
    """How jobs share an accelerator."""

    MPS = "mps"
    TIME_SLICING = "time_slicing"


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
        families: Sequence[str | None],
        log2_batch: FloatArray,
        other_families: Sequence[str | None],
        other_log2_batch: FloatArray,
    ) -> FloatArray:
        """Return the likeness of every job to every other, shape (jobs, others)."""
        # Compared as texts: None is a family of its own that equals nothing measured.
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
        both = np.einsum("pi,ij,pj->p", subject, weights, partner, optimize=True)
        parts = self.subject * by_subject + self.partner * by_partner + self.both * both
        return np.asarray(self.constant * weights.sum() + parts)


@dataclass(frozen=True, kw_only=True)
class PairModel:
    """The law and, per kind of accelerator, the residual that was learned on it.

    Parameters
    ----------
    law : PairLaw
    likeness : Likeness
    families : tuple of str
        Of the known jobs.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Colocation:
    """Two jobs on one accelerator, both directions.

    Parameters
    ----------
    slowdowns : tuple of (float, float)
        How many times as long a step of the first takes beside the second, and of the second
        beside the first; >= 1.
    ranges : tuple of ((float, float), (float, float))
        Lowest and highest slowdown of each; nine in ten lie within.
    step_times_s : tuple of (float, float)
    memory_bytes : float or None
        Of both with their contexts; None where one is unknown.
    fits : bool or None
        Whether that is within the accelerator's memory.
    basis : Basis
    """

    slowdowns: tuple[float, float]
    ranges: tuple[tuple[float, float], tuple[float, float]]
    step_times_s: tuple[float, float]
    memory_bytes: float | None
    fits: bool | None
    basis: Basis


def colocate(
    first: JobLoad,
    second: JobLoad,
    accelerator: AcceleratorSpec,
    *,
    sharing: Sharing = Sharing.MPS,
) -> Colocation:
    """Return what two jobs do to each other on one accelerator.

    Parameters
    ----------
    first, second : JobLoad
        Each as it is alone on this accelerator.
    accelerator : AcceleratorSpec
    sharing : Sharing

    Returns
    -------
    Colocation
        Swapping the jobs swaps the answers.
    """
    subjects, partners = Loads.of([first, second]), Loads.of([second, first])
    slow = slowdowns(subjects, partners, accelerator.name, sharing=sharing)
    basis = basis_of_pair(first, second, accelerator.name, sharing=sharing)
    low, high = interval_factors(basis)
    memory = _memory_bytes([first, second])
    return Colocation(
        slowdowns=(float(slow[0]), float(slow[1])),
        ranges=(_range(float(slow[0]), low, high), _range(float(slow[1]), low, high)),
        step_times_s=(first.step_time_s * float(slow[0]), second.step_time_s * float(slow[1])),
        memory_bytes=memory,
        fits=None if memory is None else memory <= accelerator.memory_bytes,
        basis=basis,
    )


def slowdowns(
    subjects: Loads, partners: Loads, kind: str, *, sharing: Sharing = Sharing.MPS
) -> FloatArray:
    """Return the slowdown of each subject beside its partner.

    Parameters
    ----------
    subjects, partners : Loads
        Of one length, each as it is alone.
    kind : str
        Catalogue name of the accelerator.
    sharing : Sharing

    Returns
    -------
    ndarray, shape (pairs,)
        >= 1.
    """
    if sharing is Sharing.TIME_SLICING:
        return np.asarray(np.exp(PairLaw().log_slowdown(subjects, partners)))
    return _pair_model().slowdown(subjects, partners, kind)


def slowdown_beside(
    subject: JobLoad, partners: Sequence[JobLoad], kind: str, *, sharing: Sharing = Sharing.MPS
) -> float:
    """Return the slowdown of a job beside any number of others; their excesses over 1 add up.

    Parameters
    ----------
    subject : JobLoad
    partners : sequence of JobLoad
        None of them: 1.
    kind : str
        Catalogue name of the accelerator.
    sharing : Sharing

    Returns
    -------
    float
        >= 1; never falls with another partner.
    """
    if not partners:
        return 1.0
    subjects = Loads.of([subject] * len(partners))
    alone_with_each = slowdowns(subjects, Loads.of(partners), kind, sharing=sharing)
    return 1.0 + float((alone_with_each - 1.0).sum())


def basis_of_pair(
    first: JobLoad, second: JobLoad, kind: str, *, sharing: Sharing = Sharing.MPS
) -> Basis:
    """Return what a pair's answer rests on: learned on this kind, on another, or an equation."""
    model = _pair_model()
    if sharing is Sharing.TIME_SLICING:
        return Basis.ANALYTICAL
    known = first.family in model.families and second.family in model.families
    return Basis.INTERPOLATED if known and kind in model.weights else Basis.EXTRAPOLATED


def interval_factors(basis: Basis) -> tuple[float, float]:
    """Return what to multiply a slowdown with for the ends of its 90 % interval.

    Parameters
    ----------
    basis : Basis
        As :func:`basis_of_pair` returns it.

    Returns
    -------
    tuple of (float, float)
        From pairs left out, or from a kind of accelerator left out.
    """
    known = basis is Basis.INTERPOLATED
    low, high = fitted("colocation")["spread"]["interpolated" if known else "extrapolated"]
    return float(np.exp(low)), float(np.exp(high))


def family_of(name: str) -> str | None:
    """Return the measured family of a model reference or job type's family, or None.

    Examples
    --------
    >>> family_of("zoo/resnet50-v1.5"), family_of("ResNet-50"), family_of("timm/vit_tiny")
    ('ResNet-50', 'ResNet-50', None)
    """
    constants = fitted("colocation")
    if name in constants["families"]:
        return name
    family = constants["models"].get(name)
    return None if family is None else str(family)


def known_device_share(family: str, batch_size: int, kind: str) -> float | None:
    """Return the device share of a measured family, interpolated in the logarithm of the batch.

    Parameters
    ----------
    family : str
        As :func:`family_of` returns it.
    batch_size : int
    kind : str
        Catalogue name of the accelerator.

    Returns
    -------
    float or None
        None for a family or a kind of accelerator that was not measured.
    """
    constants = fitted("colocation")
    shares = constants["device_share"].get(kind)
    rows = [i for i, known in enumerate(constants["families"]) if known == family]
    if shares is None or not rows:
        return None
    rows.sort(key=lambda i: float(constants["log2_batch"][i]))
    batches = [constants["log2_batch"][i] for i in rows]
    return float(np.interp(np.log2(batch_size), batches, [shares[i] for i in rows]))


def _range(slowdown: float, low: float, high: float) -> tuple[float, float]:
    return max(1.0, slowdown * low), slowdown * high


def _memory_bytes(loads: Sequence[JobLoad]) -> float | None:
    total = 0.0
    for load in loads:
        if load.memory_bytes is None:
            return None
        total += load.memory_bytes + _CONTEXT_BYTES
    return total


@cache
def _pair_model() -> PairModel:
    return PairModel.from_constants(fitted("colocation"))

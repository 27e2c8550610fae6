r"""Steps of a device that were measured since training, kept so that their jobs are known there.

Records of a device say how it differs from what is predicted for it (:mod:`.device_beliefs`), and
how each job that was measured differs from that. Both are one Gaussian process: residuals ``u`` of
the records beside what is answered without them, features ``X``, effects ``w`` of the device, and
``e`` of cells, of which those of one job share what :mod:`.job_memory` says::

    u = X w + e,   w ~ N(0, prior),   e ~ N(0, C),   C given the cells of training
    E[u*] = x* E[w] + E[e* | e = u - X E[w]]

So a record moves all answers for its device through ``w``, and those for its own job further;
answers for other devices stay as they are.

Tails are heavy: a record that is off by far more than the others says little about them. Its
variance ``c`` is divided by ``tau = (nu + 1) / (nu + e^2 / c)`` where that is below 1 (Student's
errors, by iterated weighting: K. Lange et al., "Robust statistical modeling using the t
distribution", 1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.predictors.joint.device_beliefs import DeviceEffect
from perfmodel.predictors.joint.job_memory import JobMemory, Recalled, matches

#: Degrees of freedom of Student's errors, and rounds after which weights no longer change.
_FREEDOM, _ROUNDS = 4.0, 10


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceRecords:
    """Records of one device.

    Parameters
    ----------
    jobs : tuple of str
        Architecture key of each record.
    cells : ndarray of int64, shape (records, matches)
        From :func:`~.job_memory.cell_of`.
    features : ndarray, shape (records, coefficients)
        From :func:`~.device_beliefs.features`.
    residuals : ndarray, shape (records,)
        log(measured / answered), without what any record of the device says.
    scale : ndarray, shape (records,)
        Standard deviation of what is usually left in the regime of each.
    weight : ndarray, shape (records,)
        Of the samples, > 0.
    doubt : ndarray, shape (records,)
        Variance of each beyond its own, which what it is off adds.
    """

    jobs: tuple[str, ...]
    cells: IntArray
    features: FloatArray
    residuals: FloatArray
    scale: FloatArray
    weight: FloatArray
    doubt: FloatArray

    def joined(self, other: DeviceRecords) -> DeviceRecords:
        """Return these records and others of the device."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _ARRAYS
        }
        return DeviceRecords(jobs=self.jobs + other.jobs, **arrays)

    def noise(self, memory: JobMemory, job_variance: float) -> FloatArray:
        """Return ``C`` of the records, shape (records, records), without their doubts.

        Parameters
        ----------
        job_variance : float
            Of the log time of a job on this device, beyond what its cells elsewhere leave.
        """
        covariance = np.zeros((len(self.jobs), len(self.jobs)))
        for job, own in self._by_job.items():
            scale = self.scale[own]
            shared = memory.expect(job, self.cells[own]) * np.outer(scale, scale)
            covariance[np.ix_(own, own)] = shared + job_variance
        root = np.sqrt(self.weight)
        return np.asarray(covariance / np.outer(root, root))

    def doubted(self, prior: DeviceEffect, noise: FloatArray) -> Self:
        """Return the records with the doubt that their residuals cast on each."""
        own = np.diag(noise)
        doubt = np.zeros(len(own))
        for _ in range(_ROUNDS):
            effect = prior.given(self.features, self.residuals, noise + np.diag(doubt))
            off = self.residuals - self.features @ effect.mean
            tau = (_FREEDOM + 1.0) / (_FREEDOM + off**2 / own)
            doubt = own * (1.0 / np.minimum(tau, 1.0) - 1.0)
        return replace(self, doubt=doubt)

    def recall(
        self,
        recalled: Recalled,
        job: str,
        cell: IntArray,
        scale: float,
        memory: JobMemory,
        effect: DeviceEffect,
        job_variance: float,
    ) -> Recalled | None:
        """Return what the records of a job say beside their device's effect and other cells.

        Parameters
        ----------
        recalled : Recalled
            What cells of training say.

        Returns
        -------
        Recalled or None
            Its mean is to be added beside that of ``recalled``; None where no record is of the job.
        """
        own = self._by_job.get(job)
        if own is None:
            return None
        scales = np.append(self.scale[own], scale)
        together = memory.expect(job, np.concatenate([self.cells[own], cell[None, :]]))
        covariance = together * np.outer(scales, scales) + job_variance
        known = covariance[:-1, :-1] + np.diag(self.doubt[own])
        weights = np.linalg.solve(known, covariance[:-1, -1])
        left = self.residuals[own] - self.features[own] @ effect.mean
        variance = covariance[-1, -1] - float(weights @ covariance[:-1, -1])
        _, alike = matches(self.cells[own], cell)
        return Recalled(
            mean=float(weights @ left) / scale,
            variance=max(variance / scale**2, 0.02 * recalled.prior_variance),
            prior_variance=recalled.prior_variance,
            cells=recalled.cells + len(own),
            on_device=True,
            alike=alike or recalled.alike,
        )

    @cached_property
    def _by_job(self) -> dict[str, IntArray]:
        found: dict[str, list[int]] = {}
        for position, job in enumerate(self.jobs):
            found.setdefault(job, []).append(position)
        return {job: np.array(own) for job, own in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"jobs": list(self.jobs), **{name: getattr(self, name).tolist() for name in _ARRAYS}}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> DeviceRecords:
        """Read back what :meth:`to_dict` gave.

        Raises
        ------
        ValueError
            Columns of different lengths.
        """
        jobs = tuple(str(job) for job in stored["jobs"])
        arrays: dict[str, Any] = {
            name: np.array(stored[name], dtype=np.int64 if name == "cells" else np.float64)
            for name in _ARRAYS
        }
        if {len(array) for array in arrays.values()} != {len(jobs)}:
            raise ValueError("its records of a device do not fit together")
        return cls(jobs=jobs, **arrays)


_ARRAYS: Sequence[str] = tuple(f.name for f in fields(DeviceRecords) if f.name != "jobs")

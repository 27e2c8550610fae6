r"""Steps of a device that were measured since training, kept so that their jobs are known there.

Records of a device say how it differs from what is predicted for it (:mod:`.device_beliefs`), what
goes with the make of a network there (:mod:`.kinship`), and how each job that was measured differs
from that. All are one Gaussian process: residuals ``u`` of the records beside what is answered
without them, features ``X``, effects ``w`` of the device, ``g`` of makes, and ``e`` of cells, of
which those of one job share what :mod:`.job_memory` says::

    u = X w + g + e,   w ~ N(0, prior),   g ~ N(0, s^2 K),   e ~ N(0, C given cells of training)
    E[u*] = x* E[w] + E[g* + e* | g + e = u - X E[w]]

So a record moves all answers for its device through ``w``, those for networks made like its own
further, and those for its own job further still; answers for other devices stay as they are.

How far cells lie off is not the same on all devices: records of one spread by ``f`` times the
variance ``c`` that is usual, which they say themselves, beside a prior of ``nu`` records that lie
as is usual; never by less, since a few may agree by chance. And tails are heavy: a record that is
off by far more than the others says little about them. Its variance is divided by ``tau = (nu + 1)
/ (nu + e^2 / (f c))`` where that is below 1 (Student's errors, by iterated weighting: K. Lange et
al., "Robust statistical modeling using the t distribution", 1989)::

    f = max(1, (nu + sum tau E[e^2] / c) / (nu + records))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.predictors.joint.device_beliefs import DeviceEffect
from perfmodel.predictors.joint.job_memory import JobMemory, Recalled, matches
from perfmodel.predictors.joint.kinship import SPREADS, kinship, log_posterior

#: Degrees of freedom of Student's errors, which is also how many usual records stand beside those
#: of a device, and rounds after which weights no longer change.
_FREEDOM, _ROUNDS = 4.0, 10


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedCell:
    """A step that is asked about, as records of its device look at it; see :class:`DeviceRecords`.

    Parameters
    ----------
    features, shape : ndarray, shape (1, coefficients) and (1, columns)
    """

    job: str
    cell: IntArray
    scale: float
    features: FloatArray
    shape: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceRecords:
    """Records of one device.

    Parameters
    ----------
    jobs : tuple of str
        Of each record, from :func:`~.job_memory.job_key`.
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
    shapes : ndarray, shape (records, columns)
        What each network is made of, from :meth:`.novelty.Novelty.shapes`.
    spread : float
        Standard deviation of what goes with the make of a network on this device.
    scatter : float
        How many times the usual variance cells of this device lie off with.
    """

    jobs: tuple[str, ...]
    cells: IntArray
    features: FloatArray
    residuals: FloatArray
    scale: FloatArray
    weight: FloatArray
    doubt: FloatArray
    shapes: FloatArray
    spread: float = 0.0
    scatter: float = 1.0

    def joined(self, other: DeviceRecords) -> DeviceRecords:
        """Return these records and others of the device."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _ARRAYS
        }
        return DeviceRecords(jobs=self.jobs + other.jobs, **arrays)

    def noise(self, memory: JobMemory, job_variance: float) -> FloatArray:
        """Return the usual ``C`` of the records, shape (records, records), without their doubts.

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

    def weighed(self, prior: DeviceEffect, noise: FloatArray, unlearned: float) -> Self:
        """Return the records with the spread of makes that explains them best, scatter and doubts.

        Parameters
        ----------
        noise : ndarray, shape (records, records)
            From :meth:`noise`.
        unlearned : float
            Share of what is peculiar to the device, makes among it, that training has left.
        """
        off = self.residuals - self.features @ prior.mean
        effects = self.features @ prior.covariance @ self.features.T
        makes = self._kinship
        found = []
        for spread in SPREADS:
            left = spread * unlearned**0.5
            explained = effects + left**2 * makes
            scatter, doubt = _scattered(off, explained, noise)
            whole = explained + scatter * noise + np.diag(doubt)
            found.append((log_posterior(spread, whole, off), left, scatter, doubt))
        _, spread, scatter, doubt = max(found, key=lambda one: one[0])
        return replace(self, spread=spread, scatter=scatter, doubt=doubt)

    def covariance(self, memory: JobMemory, job_variance: float) -> FloatArray:
        """Return the covariance of all that the effects of the device leave, with doubts.

        Returns
        -------
        ndarray, shape (records, records)
        """
        noise = self.scatter * self.noise(memory, job_variance)
        return np.asarray(noise + self.spread**2 * self._kinship + np.diag(self.doubt))

    def recall(
        self,
        recalled: Recalled,
        asked: AskedCell,
        memory: JobMemory,
        effect: DeviceEffect,
        job_variance: float,
    ) -> Recalled:
        """Return what records of a job, and of jobs made like it, say beside their device.

        Its mean is to be added beside that of ``recalled``.
        """
        own = self._by_job.get(asked.job, np.zeros(0, dtype=np.int64))
        scales = np.append(self.scale[own], asked.scale)
        together = memory.expect(asked.job, np.vstack([self.cells[own], asked.cell]))
        covariance = self.scatter * (together * np.outer(scales, scales) + job_variance)
        to_asked = (
            self.spread**2
            * kinship(asked.shape, asked.features, self.shapes, self.features).ravel()
        )
        to_asked[own] += covariance[:-1, -1]
        weights = cho_solve(self._factored(memory, job_variance), to_asked)
        left = self.residuals - self.features @ effect.mean
        variance = float(covariance[-1, -1]) + self.spread**2 - float(weights @ to_asked)
        # Of a job without a record here, whoever asks adds that.
        variance -= 0.0 if len(own) else job_variance
        _, alike = matches(self.cells[own], asked.cell)
        return Recalled(
            mean=float(weights @ left) / asked.scale,
            variance=max(variance / asked.scale**2, 0.02 * recalled.prior_variance),
            prior_variance=recalled.prior_variance,
            cells=recalled.cells + len(own),
            on_device=bool(len(own)) or recalled.on_device,
            alike=alike or recalled.alike,
        )

    def _factored(self, memory: JobMemory, job_variance: float) -> tuple[FloatArray, bool]:
        """Return the covariance as it is solved with, worked out once: nothing of it changes."""
        if "_factor" not in self.__dict__:
            self.__dict__["_factor"] = cho_factor(self.covariance(memory, job_variance))
        found: tuple[FloatArray, bool] = self.__dict__["_factor"]
        return found

    @cached_property
    def _kinship(self) -> FloatArray:
        return kinship(self.shapes, self.features, self.shapes, self.features)

    @cached_property
    def _by_job(self) -> dict[str, IntArray]:
        found: dict[str, list[int]] = {}
        for position, job in enumerate(self.jobs):
            found.setdefault(job, []).append(position)
        return {job: np.array(own) for job, own in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        known = {"jobs": list(self.jobs), "spread": self.spread, "scatter": self.scatter}
        return known | arrays

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
        # Those of before scatter was learned are kept as they are.
        scatter = float(stored.get("scatter", 1.0))
        return cls(jobs=jobs, spread=float(stored["spread"]), scatter=scatter, **arrays)


_ARRAYS: Sequence[str] = tuple(
    f.name for f in fields(DeviceRecords) if f.name not in ("jobs", "spread", "scatter")
)


def _scattered(
    off: FloatArray, explained: FloatArray, noise: FloatArray
) -> tuple[float, FloatArray]:
    """Return how far residuals scatter, and the doubt that they cast on each record."""
    usual, scatter, doubt = np.diag(noise), 1.0, np.zeros(len(off))
    for _ in range(_ROUNDS):
        beside = scatter * noise + np.diag(doubt)
        gain = np.linalg.solve(explained + beside, beside).T
        left = gain @ off
        square = left**2 + np.diag(beside - gain @ beside)
        tau = np.minimum((_FREEDOM + 1.0) / (_FREEDOM + left**2 / (scatter * usual)), 1.0)
        seen = (_FREEDOM + tau @ (square / usual)) / (_FREEDOM + len(off))
        scatter = max(float(seen), 1.0)
        doubt = scatter * usual * (1.0 / tau - 1.0)
    return scatter, doubt

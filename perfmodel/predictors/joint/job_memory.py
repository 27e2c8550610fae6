r"""What other cells of the same job say: kriging of residuals.

A job is an architecture at an input size on one kind of device; a cell of it is one device with one
group of settings.
The residual of a cell (logarithm of measured over predicted time, by a predictor that has not
seen the family of the job) is taken as a sum of random effects::

    r_i = a_job + sum_m b_{job, value of m at i} + noise,   m in MATCHES

so that two cells of one job share ``s_0 + sum_m s_m [m agrees]`` of variance. The variances are
fitted by non-negative least squares to the products of residuals of pairs of cells. The answer
for a new cell is the mean of its effects given the cells that were measured, and what variance
that leaves (simple kriging; G. Matheron, "Principles of geostatistics", 1963).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.releases import torch_version
from perfmodel.features.steps.sketch import architecture_key
from perfmodel.features.steps.step import Step
from perfmodel.types import Framework

#: What two cells of a job may have in common.
MATCHES = ("device", "mode", "compiler", "layout", "software", "precision", "batch", "all")

_PAIRS_PER_JOB = 120
#: Standardised residuals beyond this do not say how much cells share.
_CLIP = 4.0
#: Shares of the fitted noise that are tried, and cells on which.
_NOISE_SHARES = (1.0, 0.4, 0.15, 0.05)
_CELLS_ASKED = 2_000
#: PyTorch versions between which kernels changed much.
_ERAS = (1.95, 2.75)
#: Releases that stand for the eras between them.
_RELEASES = ("1.13.0", "2.4.0", "2.9.0")
#: Between the architecture and the kind of device in the key of a job.
_ON = "@"
#: Codes of other frameworks begin here; the order of the words of Framework is kept by files.
_FRAMEWORK = 100


def job_key(step: Step) -> str:
    """Return the key of the job of a step: its architecture, and the kind of its device.

    What is peculiar to an architecture on GPUs lies in other libraries than what is on CPUs.
    """
    return f"{architecture_key(step.sketch, step.batch_size)}{_ON}{step.accelerator.kind}"


def architecture_of(job: str) -> str:
    """Return the architecture in the key of a job.

    Examples
    --------
    >>> architecture_of("0123456789abcdef@gpu")
    '0123456789abcdef'
    """
    return job.partition(_ON)[0]


def cell_of(step: Step) -> tuple[int, ...]:
    """Return the codes of a step that :data:`MATCHES` compares, all but ``all``."""
    return (
        code_of(step.accelerator.name),
        code_of(step.mode.value),
        code_of(step.compiler.value),
        code_of(step.memory_format.value),
        software_code(step.software),
        code_of(step.precision.value.removeprefix("amp_").replace("bf16", "fp16")),
        int(np.round(np.log2(step.batch_size))),
    )


def software_code(software: Mapping[str, str]) -> int:
    """Return the era of PyTorch, from 0 on, or a number of another framework.

    Examples
    --------
    >>> software_code({"torch": "1.13.0"}), software_code({}), software_code({"framework": "jax"})
    (0, 1, 105)
    """
    framework = Framework.of(software)
    if framework is not Framework.PYTORCH:
        return _FRAMEWORK + list(Framework).index(framework)
    version = torch_version(software)
    return sum(version > era for era in _ERAS)


def software_of_code(code: int) -> dict[str, str]:
    """Return software that has a code."""
    if code >= _FRAMEWORK:
        return {"framework": list(Framework)[code - _FRAMEWORK].value}
    return {"torch": _RELEASES[code]}


#: Where some of them stand.
_DEVICE, _MODE, _COMPILER, _PRECISION = 0, 1, 2, 5


def code_of(text: str) -> int:
    """Return a number of a text that is the same in every process."""
    value = 0
    for character in text.encode():
        value = (value * 131 + character) % 2_147_483_647
    return value


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """What the memory says about one step.

    Parameters
    ----------
    mean : float
        To be added to the logarithm of the predicted time.
    variance : float
        Of the residual after that.
    prior_variance : float
        Of the residual of a job without any measured cell.
    cells : int
        Measured cells of the job.
    on_device : bool
        One of them lies on the device that is asked about.
    alike : bool
        One of those was compiled alike and computes as precisely.
    devices : int
        On how many devices the job was measured in this mode.
    """

    mean: float
    variance: float
    prior_variance: float
    cells: int
    on_device: bool = False
    alike: bool = False
    devices: int = 0


class JobMemory:
    """Residuals of measured cells by job.

    Attributes
    ----------
    variances_ : ndarray, shape (1 + len(MATCHES),)
        Of the job and of each match.
    noise_ : float
        Variance of one cell that nothing shares.
    """

    def __init__(self) -> None:
        self._inverses: dict[str, FloatArray] = {}

    def fit(self, jobs: Sequence[str], cells: IntArray, residuals: FloatArray) -> JobMemory:
        """Keep residuals and learn what cells of a job share.

        Parameters
        ----------
        jobs : sequence of str
            Of each cell, from :func:`job_key`.
        cells : ndarray of int64, shape (cells, len(MATCHES) - 1)
            From :func:`cell_of`.
        residuals : ndarray, shape (cells,)
            log(measured / predicted) by a predictor that has not seen the job.
        """
        names = np.array(jobs)
        order = np.argsort(names, kind="stable")
        first = np.flatnonzero(np.r_[True, names[order][1:] != names[order][:-1]])
        groups = np.split(order, first[1:])
        clipped = np.clip(residuals, -_CLIP, _CLIP)
        self.variances_, total = _fit_variances(groups, cells, clipped)
        self.noise_ = max(total - float(self.variances_.sum()), 0.05 * total, 1e-5)
        self._inverses = {}
        self.cells_ = {str(names[group[0]]): (cells[group], residuals[group]) for group in groups}
        return self

    @property
    def prior_variance_(self) -> float:
        """Variance of the residual of an unknown job."""
        return float(self.variances_.sum()) + self.noise_

    def without_cells(self) -> JobMemory:
        """Return a memory that expects the same of jobs and knows the cells of none."""
        empty = copy.copy(self)
        empty.cells_, empty._inverses = {}, {}
        return empty

    def between(self, other: JobMemory, share: float) -> JobMemory:
        """Return the memory of what is answered between two predictors, of the same cells.

        Parameters
        ----------
        share : float
            Of this one, in [0, 1].
        """
        mixed = JobMemory()
        mixed.variances_ = share * self.variances_ + (1.0 - share) * other.variances_
        mixed.noise_ = share * self.noise_ + (1.0 - share) * other.noise_
        mixed.cells_ = {
            job: (cells, share * own + (1.0 - share) * other.cells_[job][1])
            for job, (cells, own) in self.cells_.items()
        }
        return mixed

    def likeness(self, job: str, cell: IntArray) -> FloatArray:
        """Return the share of the variance of a job that a cell has in common with each known one.

        Parameters
        ----------
        job : str
            One that was measured.
        cell : ndarray of int64, shape (len(MATCHES) - 1,)

        Returns
        -------
        ndarray, shape (cells of the job,)
            In [0, 1]; all 1 where nothing tells the cells of a job apart.
        """
        total = float(self.variances_.sum())
        known, _ = self.cells_[job]
        if total <= 0:
            return np.ones(len(known))
        return np.asarray(_shared(known, cell[None, :])[:, 0] @ self.variances_ / total)

    def recall(self, job: str, cell: IntArray) -> Recalled:
        """Return what the cells of a job say about one of its cells."""
        known = self.cells_.get(job)
        prior = self.prior_variance_
        if known is None:
            return Recalled(mean=0.0, variance=prior, prior_variance=prior, cells=0)
        return self._krige(*known, self._inverse(job), cell)

    def expect(self, job: str, cells: IntArray) -> FloatArray:
        """Return the covariance of the residuals of cells of a job that are about to be measured.

        Parameters
        ----------
        cells : ndarray of int64, shape (cells, len(MATCHES) - 1)

        Returns
        -------
        ndarray, shape (cells, cells)
            Given the cells that were measured; with the noise of each.
        """
        own = self._covariance(cells)
        known = self.cells_.get(job)
        if known is None:
            return own
        shared = _shared(known[0], cells) @ self.variances_
        return np.asarray(own - shared.T @ self._inverse(job) @ shared)

    def _inverse(self, job: str) -> FloatArray:
        """Return the inverse covariance of a job's cells, which every answer needs again."""
        found = self._inverses.get(job)
        if found is None:
            found = np.asarray(np.linalg.inv(self._covariance(self.cells_[job][0])))
            self._inverses[job] = found
        return found

    def _krige(
        self, cells: IntArray, residuals: FloatArray, inverse: FloatArray, cell: IntArray
    ) -> Recalled:
        prior = self.prior_variance_
        to_cell = _shared(cells, cell[None, :])[:, 0] @ self.variances_
        weights = inverse @ to_cell
        on_device, alike = matches(cells, cell)
        return Recalled(
            mean=float(weights @ residuals),
            variance=max(prior - float(weights @ to_cell), 0.02 * prior),
            prior_variance=prior,
            cells=len(cells),
            on_device=on_device,
            alike=alike,
            devices=len(set(cells[cells[:, _MODE] == cell[_MODE], _DEVICE].tolist())),
        )

    def _covariance(self, cells: IntArray) -> FloatArray:
        """Return the covariance of the residuals of cells of one job, their noise included."""
        shared: FloatArray = _shared(cells, cells) @ self.variances_
        shared[np.diag_indices(len(cells))] += self.noise_
        return shared

    def listen_across_devices(self) -> None:
        """Take the noise under which cells of other devices say most about a cell.

        Products of residuals overstate it: a few jobs that are far off make all cells seem noisy,
        and a cell is believed too little by those that have just a few.
        """
        rng = np.random.default_rng(0)
        places = [(job, i) for job, (cells, _) in self.cells_.items() for i in range(len(cells))]
        chosen = [places[i] for i in rng.permutation(len(places))[:_CELLS_ASKED]]
        fitted = self.noise_

        asked: dict[str, list[int]] = {}
        for job, i in chosen:
            asked.setdefault(job, []).append(i)

        def error(share: float) -> float:
            self.noise_ = share * fitted
            told = {
                (job, i): recalled
                for job, own in asked.items()
                for i, recalled in zip(own, self.left_out(job, own, device=True), strict=True)
            }
            errors = [
                min(abs(self.cells_[job][1][i] - told[job, i].mean), _CLIP)
                for job, i in chosen
                if told[job, i].cells
            ]
            return float(np.mean(errors)) if errors else share

        self.noise_ = fitted * min(_NOISE_SHARES, key=error)
        self._inverses = {}

    def left_out(self, job: str, positions: Sequence[int], *, device: bool) -> list[Recalled]:
        """Return what the other cells of a job say about some: all others, or other devices."""
        cells, residuals = self.cells_[job]
        prior = self.prior_variance_
        # All cells of a device hear the same ones of others.
        inverses: dict[int, FloatArray] = {}
        found = []
        for position in positions:
            own = int(cells[position, _DEVICE]) if device else position
            keep = (cells[:, _DEVICE] if device else np.arange(len(cells))) != own
            if not keep.any():
                found.append(Recalled(mean=0.0, variance=prior, prior_variance=prior, cells=0))
                continue
            others = cells[keep]
            if own not in inverses:
                inverses[own] = np.asarray(np.linalg.inv(self._covariance(others)))
            found.append(self._krige(others, residuals[keep], inverses[own], cells[position]))
        return found


def matches(cells: IntArray, cell: IntArray) -> tuple[bool, bool]:
    """Tell whether some cells have one on the device of a cell, and one that is computed alike."""
    same = cells == cell
    alike = same[:, [_DEVICE, _COMPILER, _PRECISION]].all(axis=1)
    return bool(same[:, _DEVICE].any()), bool(alike.any())


def _shared(left: IntArray, right: IntArray) -> FloatArray:
    """Which effects two cells have in common, shape (left, right, 1 + len(MATCHES))."""
    same = left[:, None, :] == right[None, :, :]
    constant = np.ones((*same.shape[:2], 1), dtype=np.bool_)
    everything = same.all(axis=2, keepdims=True)
    return np.concatenate([constant, same, everything], axis=2).astype(np.float64)


def _fit_variances(
    groups: Sequence[IntArray], cells: IntArray, residuals: FloatArray
) -> tuple[FloatArray, float]:
    # Imported here: answers need no scipy.
    from scipy.optimize import nnls

    rng = np.random.default_rng(0)
    designs, products = [], []
    for group in groups:
        if len(group) < 2:
            continue
        a = rng.choice(len(group), size=_PAIRS_PER_JOB)
        b = rng.choice(len(group), size=_PAIRS_PER_JOB)
        a, b = group[a[a != b]], group[b[a != b]]
        same = cells[a] == cells[b]
        designs.append(
            np.concatenate([np.ones((len(a), 1)), same, same.all(axis=1, keepdims=True)], axis=1)
        )
        products.append(residuals[a] * residuals[b])
    total = float(np.mean(residuals**2))
    if not designs:
        return np.zeros(1 + len(MATCHES)), total
    variances, _ = nnls(np.concatenate(designs), np.concatenate(products))
    return variances, total

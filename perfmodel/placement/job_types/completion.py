r"""Answer cells of job types by measured cells that resemble them.

The logarithm of a step time is Gaussian around a mean that is linear in facts of the cell (batch
size, speed of the device, accelerators, hosts), with the covariance of
:mod:`.cell_covariance`. Given measured cells ``y`` with noise ``s^2``::

    mean     = m(asked) + K(asked, known) (K(known, known) + s^2 I)^-1 (y - m(known))
    variance = diag K(asked, asked) - K(asked, known) (...)^-1 K(known, asked)

Tables differ in how regular they are, which their own cells tell: with ``k`` known cells the
variance is scaled by ``(n0 + r' (K + s^2 I)^-1 r) / (n0 + k)``, ``r = y - m(known)``, which is 1
where they scatter as expected.

Mean, variances and noise are fitted on public tables; no cell of those tables is kept. Cells of
other jobs on the same cluster say what devices and links do there, cells of the same name at other
batch sizes say most of the rest.

Left out: what the job is (a graph answers better), memory, and the step's parts. Replicas are
data-parallel; other plans are only recognised when the same plan was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import refused
from perfmodel.placement.job_types.cell_covariance import covariance, own_variance, same_cells
from perfmodel.placement.job_types.cell_likeness import FEATURES, features
from perfmodel.placement.job_types.job_type_cells import JobTypeCells
from perfmodel.types import Basis

#: Known cells that one answer rests on at most: the solution grows with their cube.
MOST_CELLS = 800
#: Share of true values inside an interval.
COVERAGE = 0.9
#: How an answer is known: its cell, its job, its job type at other batch sizes, or none of them.
RUNGS = ("cell", "job_many", "job_few", "name", "none")
_MANY = 3
#: Known cells that the expected scatter of a table counts for, beside the cells themselves.
_SCALE_CELLS = 10.0
_NEAREST = 3
#: Choices of known cells of any tables that are kept solved; one takes five megabytes at most.
_MOST_SOLVED = 16


@dataclass(frozen=True, kw_only=True)
class JobTypePrior:
    """What is believed of job types before any cell of a table is known.

    Parameters
    ----------
    mean : ndarray, shape (features,)
        Coefficients of :data:`.cell_likeness.FEATURES`.
    variances : mapping of str to float
        Of the effects.
    noise_variance : float
        Of one measurement around the cell's own level.
    quantiles : mapping of str to float
        For each of :data:`RUNGS`, how many standard deviations hold :data:`COVERAGE` of the
        true values.
    """

    mean: FloatArray
    variances: Mapping[str, float]
    noise_variance: float
    quantiles: Mapping[str, float]

    @classmethod
    def from_constants(cls, constants: Mapping[str, Any]) -> JobTypePrior:
        """Read a prior; raises DamagedArtifactError where a part is missing or is no number."""
        with refused("job types"):
            return cls(
                mean=np.array([float(constants["mean"][name]) for name in FEATURES]),
                variances={name: float(std) ** 2 for name, std in constants["deviations"].items()},
                noise_variance=float(constants["noise"]) ** 2,
                quantiles={rung: float(constants["quantiles"][rung]) for rung in RUNGS},
            )

    @classmethod
    @cache
    def shipped(cls) -> JobTypePrior:
        """Return the prior that was fitted on public tables; read once per process."""
        return cls.from_constants(fitted("job_types"))


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Step times of the asked cells, in the order of the question.

    Parameters
    ----------
    median_s, low_s, high_s : ndarray, shape (cells,)
        Seconds of one step; the interval holds the coverage of :data:`COVERAGE`.
    basis : tuple of Basis
        ``measured`` for a known cell, ``interpolated`` for a known job on a known device,
        ``extrapolated`` where only the name is known or the device is new to it, ``default``
        where nothing of the name is known.
    nearest : ndarray of int, shape (cells, 3)
        Positions of the known cells that resemble it most, best first; -1 where there is none.
    """

    median_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray
    basis: tuple[Basis, ...]
    nearest: IntArray


class JobTypeTable:
    """Measured cells, ready to answer for others.

    Parameters
    ----------
    cells : JobTypeCells
        May be empty; the same cell may come several times.
    step_time_s : ndarray, shape (cells,)
        Measured, > 0.
    prior : JobTypePrior or None
        None: the shipped one.

    Raises
    ------
    InvalidInputError
        Step times that are none, or not one for each cell.
    """

    def __init__(
        self, cells: JobTypeCells, step_time_s: npt.ArrayLike, prior: JobTypePrior | None = None
    ) -> None:
        times = np.asarray(step_time_s, dtype=np.float64)
        if times.shape != (len(cells),):
            raise InvalidInputError(
                f"Each known cell needs one step time; got {times.shape} for {len(cells)} cells."
            )
        if not (np.isfinite(times) & (times > 0)).all():
            raise InvalidInputError("A measured step_time_s must be a number above 0.")
        self.cells = cells
        self.step_time_s = times
        self.prior = prior if prior is not None else JobTypePrior.shipped()

    def complete(self, asked: JobTypeCells) -> Completion:
        """Answer cells by the known ones."""
        rows = _chosen(self.cells, asked)
        given = _given(self, rows.tobytes())
        known = given.known
        mean, variance, shared = given.conditional(asked)
        rungs = _rungs(known, asked)
        quantile = np.array([self.prior.quantiles[rung] for rung in RUNGS])[rungs]
        width = quantile * np.sqrt(variance)
        return Completion(
            median_s=np.exp(mean),
            low_s=np.exp(mean - width),
            high_s=np.exp(mean + width),
            basis=_basis(known, asked, rungs),
            nearest=_nearest(shared, rows),
        )


@lru_cache(maxsize=_MOST_SOLVED)
def _given(table: JobTypeTable, rows: bytes) -> _Given:
    """Return some of the known cells of a table, solved."""
    chosen = np.frombuffer(rows, dtype=np.int64)
    log_s = np.log(table.step_time_s[chosen])
    return _Given.of(table.cells.take(chosen), log_s, table.prior)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Given:
    """Known cells with what does not depend on the asked ones."""

    known: JobTypeCells
    prior: JobTypePrior
    within: FloatArray
    inverse: FloatArray
    weights: FloatArray
    scale: float

    @classmethod
    def of(cls, known: JobTypeCells, log_s: FloatArray, prior: JobTypePrior) -> _Given:
        within = covariance(known, known, prior.variances)
        rest = log_s - features(known) @ prior.mean
        noisy = within + prior.noise_variance * np.eye(len(known))
        inverse = np.asarray(np.linalg.inv(noisy), dtype=np.float64)
        weights = inverse @ rest
        scale = (_SCALE_CELLS + float(rest @ weights)) / (_SCALE_CELLS + len(known))
        return cls(
            known=known, prior=prior, within=np.diag(within).copy(), inverse=inverse,
            weights=weights, scale=scale,
        )  # fmt: skip

    def conditional(self, asked: JobTypeCells) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean and variance of a measurement, and correlations with known cells."""
        prior = self.prior
        between = covariance(asked, self.known, prior.variances)
        own = own_variance(asked, prior.variances)
        mean = features(asked) @ prior.mean + between @ self.weights
        variance = own - np.einsum("ij,ij->i", between @ self.inverse, between)
        correlation = between / np.sqrt(np.outer(own, self.within))
        variance = (np.maximum(variance, 0.0) + prior.noise_variance) * self.scale
        return mean, variance, correlation


def _chosen(known: JobTypeCells, asked: JobTypeCells) -> IntArray:
    """Return which known cells to answer from: those of the asked names, then an even choice."""
    if len(known) <= MOST_CELLS:
        return np.arange(len(known))
    own = np.isin(known.job_type, np.unique(asked.job_type))
    # Cells of an asked device say more of it than those of others.
    device = np.isin(known.accelerator, np.unique(asked.accelerator))
    chosen: list[IntArray] = []
    left = MOST_CELLS
    for rank in (own & device, own & ~device, ~own & device, ~own & ~device):
        rows = np.flatnonzero(rank)
        take = min(left, len(rows))
        if take:
            chosen.append(rows[np.linspace(0, len(rows) - 1, take).astype(np.int64)])
        left -= take
    return np.sort(np.concatenate(chosen))


def _rungs(known: JobTypeCells, asked: JobTypeCells) -> IntArray:
    """Return the position in RUNGS of how each asked cell is known."""
    by_name, by_job = _counts(known)
    rungs = np.array(
        [
            _rung(by_name.get(name, 0), by_job.get((name, batch), 0))
            for name, batch in zip(asked.job_type.tolist(), asked.batch_size.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    rungs[same_cells(asked, known)[0]] = RUNGS.index("cell")
    return rungs


def _counts(known: JobTypeCells) -> tuple[dict[str, int], dict[tuple[str, float], int]]:
    by_name: dict[str, int] = {}
    by_job: dict[tuple[str, float], int] = {}
    for name, batch in zip(known.job_type.tolist(), known.batch_size.tolist(), strict=True):
        by_name[name] = by_name.get(name, 0) + 1
        by_job[name, batch] = by_job.get((name, batch), 0) + 1
    return by_name, by_job


def _rung(of_name: int, of_job: int) -> int:
    if of_job:
        return RUNGS.index("job_many" if of_job >= _MANY else "job_few")
    return RUNGS.index("name" if of_name else "none")


def _basis(known: JobTypeCells, asked: JobTypeCells, rungs: IntArray) -> tuple[Basis, ...]:
    seen = set(
        zip(
            known.job_type.tolist(), known.batch_size.tolist(), known.accelerator.tolist(),
            known.settings.tolist(), known.partner_type.tolist(), strict=True,
        )
    )  # fmt: skip
    wanted = zip(
        asked.job_type.tolist(), asked.batch_size.tolist(), asked.accelerator.tolist(),
        asked.settings.tolist(), asked.partner_type.tolist(), strict=True,
    )  # fmt: skip
    return tuple(
        _word(RUNGS[rung], key in seen) for rung, key in zip(rungs.tolist(), wanted, strict=True)
    )


def _word(rung: str, device_seen: bool) -> Basis:
    if rung == "cell":
        return Basis.MEASURED
    if rung == "none":
        return Basis.DEFAULT
    return Basis.INTERPOLATED if device_seen else Basis.EXTRAPOLATED


def _nearest(correlation: FloatArray, rows: IntArray) -> IntArray:
    asked, known = correlation.shape
    nearest = np.full((asked, _NEAREST), -1, dtype=np.int64)
    count = min(_NEAREST, known)
    if count:
        top = np.argpartition(-correlation, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(correlation, top, axis=1), axis=1, kind="stable")
        nearest[:, :count] = rows[np.take_along_axis(top, order, axis=1)]
    return nearest


def nearest_labels(table: JobTypeTable, completion: Completion, row: int) -> Sequence[str]:
    """Return the known cells nearest to one asked cell, for people."""
    return [table.cells.label(int(at)) for at in completion.nearest[row] if at >= 0]

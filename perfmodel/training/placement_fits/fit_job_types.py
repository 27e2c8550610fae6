r"""Fit what is believed of job types: mean, variances of effects, noise and quantiles.

The variances maximise the marginal likelihood of whole tables around a broad guess::

    sum over tables log N(y; F b, K(v) + s^2 I)  -  sum over v (log v - log guess)^2 / (2 w^2)

by Adam on ``log v`` with the exact gradient. ``b`` is solved by generalised least squares under a
wide prior, so that tables with a level of their own do not pull it far. The noise of one
measurement comes from repeats of a cell. Quantiles come from cells left out, by how the job of
the cell was known.

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 5;
Kingma and Ba, Adam, 2015.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.job_types.cell_covariance import cell_keys, covariance, variance_names
from perfmodel.placement.job_types.cell_likeness import FEATURES, features
from perfmodel.placement.job_types.completion import COVERAGE, RUNGS, JobTypePrior, JobTypeTable
from perfmodel.training.placement_fits.fitted_file import document
from perfmodel.training.placement_rows.job_type_records import (
    MeasuredCells,
    gavel_cells,
    joined,
    sia_cells,
    thinned,
)

SOURCE = (
    "stanford-futuredata/gavel simulation_throughputs.json (MIT); siasosp23/artifacts "
    "sia-simulator/traces (no licence stated)"
)

#: Standard deviations believed before any table is read, in log time: jobs differ much in level,
#: names less in how they respond to a device or to hosts, batch sizes of one name little.
_GUESS: Mapping[str, Mapping[str, float]] = {
    "table": {
        "one": 2.0, "batch": 1.0, "speed": 0.5, "device": 0.5, "several": 0.5, "crossing": 0.7,
        "count": 1.0, "wire": 0.2, "device_several": 0.3, "device_crossing": 0.3,
        "device_count": 0.3, "crossing_count": 0.3, "cell": 0.15, "batch_several": 0.3,
        "device_batch": 0.1,
    },
    "name": {
        "one": 1.5, "batch": 0.5, "speed": 0.3, "device": 0.4, "several": 0.3, "crossing": 0.3,
        "count": 0.3, "wire": 0.1, "device_several": 0.3, "device_crossing": 0.3,
        "device_count": 0.2, "crossing_count": 0.2, "cell": 0.1, "batch_several": 0.2,
        "device_batch": 0.2,
    },
    "batch": {
        "one": 0.3, "batch": 0.05, "speed": 0.1, "device": 0.3, "several": 0.2, "crossing": 0.2,
        "count": 0.2, "wire": 0.05, "device_several": 0.2, "device_crossing": 0.2,
        "device_count": 0.2, "crossing_count": 0.1, "cell": 0.15, "batch_several": 0.05,
        "device_batch": 0.05,
    },
}  # fmt: skip
_ITSELF, _SETTINGS, _PAIR, _PAIR_DEVICE = 0.08, 0.3, 0.15, 0.08
#: How far, in natural logarithms of a variance, a fit may leave the guess (one deviation).
_WIDTH = 1.0
#: Coefficients of the mean are believed to be 0 but for this deviation.
_MEAN_STD = 1.0
#: Deviations that hold 90 % of a normal distribution.
_STEPS, _RATE = 80, 0.15
_PER_DEVICE = 16
_PAIRS_PER_DEVICE = 25


def guess() -> dict[str, float]:
    """Return the variances believed before any table is read, by name."""
    plain = {f"{level}.{name}": std for level, of in _GUESS.items() for name, std in of.items()}
    rest = {"itself": _ITSELF, "settings": _SETTINGS}
    for name in variance_names():
        if name.startswith("pair"):
            rest[name] = _PAIR_DEVICE if name.startswith("pair_device") else _PAIR
    return {name: std**2 for name, std in {**plain, **rest}.items()}


def fit_prior(tables: Sequence[MeasuredCells], noise_variance: float) -> JobTypePrior:
    """Fit mean and variances on whole tables; quantiles are those of a normal distribution.

    Parameters
    ----------
    tables : sequence of MeasuredCells
        Effects of a table are drawn anew for each.
    """
    start, names = guess(), variance_names()
    log_guess = np.log([start[name] for name in names])
    parts = [_parts(table, names) for table in tables]
    log_v = log_guess.copy()
    first, second = np.zeros(len(names)), np.zeros(len(names))
    for step in range(1, _STEPS + 1):
        slope = -(log_v - log_guess) / _WIDTH**2
        mean = _mean(tables, parts, np.exp(log_v), noise_variance)
        for table, part in zip(tables, parts, strict=True):
            rest = table.log_s - features(table.cells) @ mean
            slope += _slope(part, rest, np.exp(log_v), noise_variance)
        first, second = 0.9 * first + 0.1 * slope, 0.98 * second + 0.02 * slope**2
        pace = _RATE * min(1.0, 2.0 * (1 - step / _STEPS))
        log_v += pace * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.98**step)) + 1e-9)
    return JobTypePrior(
        mean=_mean(tables, parts, np.exp(log_v), noise_variance),
        variances=dict(zip(names, np.exp(log_v).tolist(), strict=True)),
        noise_variance=noise_variance,
        quantiles=dict.fromkeys(RUNGS, DEVIATIONS),
    )


def _parts(table: MeasuredCells, names: Sequence[str]) -> FloatArray:
    return np.stack([covariance(table.cells, table.cells, {name: 1.0}) for name in names])


def _slope(
    parts: FloatArray, rest: FloatArray, variances: FloatArray, noise_variance: float
) -> FloatArray:
    """Return the gradient of the log likelihood of one table by log variances."""
    inverse = np.linalg.inv(_whole(parts, variances, noise_variance))
    weights = inverse @ rest
    pull = np.outer(weights, weights) - inverse
    return np.asarray(0.5 * variances * np.tensordot(parts, pull, ([1, 2], [0, 1])))


def _whole(parts: FloatArray, variances: FloatArray, noise_variance: float) -> FloatArray:
    return np.asarray(np.tensordot(variances, parts, 1) + noise_variance * np.eye(parts.shape[1]))


def _mean(
    tables: Sequence[MeasuredCells],
    parts: Sequence[FloatArray],
    variances: FloatArray,
    noise_variance: float,
) -> FloatArray:
    normal, right = np.eye(len(FEATURES)) / _MEAN_STD**2, np.zeros(len(FEATURES))
    for table, part in zip(tables, parts, strict=True):
        facts = features(table.cells)
        solved = np.linalg.solve(_whole(part, variances, noise_variance), facts)
        normal, right = normal + solved.T @ facts, right + solved.T @ table.log_s
    return np.asarray(np.linalg.solve(normal, right))


def repeat_variance(table: MeasuredCells) -> float:
    """Return the variance of repeated measurements of a cell, pooled over cells.

    The median over cells of the variance, times the ratio of mean to median of a chi-square of
    one degree: a few cells with a stray repeat do not count.
    """
    by_key: dict[tuple[object, ...], list[float]] = {}
    for key, value in zip(cell_keys(table.cells), table.log_s.tolist(), strict=True):
        by_key.setdefault(key, []).append(value)
    pairs = [(v[0] - v[1]) ** 2 / 2 for v in by_key.values() if len(v) > 1]
    return float(np.median(pairs)) / 0.4549 if pairs else 0.02**2


def calibrated(
    prior: JobTypePrior, tables: Sequence[MeasuredCells], *, seeds: int = 4
) -> JobTypePrior:
    """Set quantiles by cells left out: what share of them an interval has to hold."""
    prior = replace(prior, quantiles=dict.fromkeys(RUNGS, DEVIATIONS))
    by_table = [_table_quantiles(prior, table, seeds) for table in tables]
    # The widest of the tables: a new one may be as irregular as any of them.
    quantiles = {rung: max(one[rung] for one in by_table) for rung in RUNGS}
    # A cell measured again differs by noise alone, which is normal enough.
    return replace(prior, quantiles={**quantiles, "cell": DEVIATIONS})


def _table_quantiles(prior: JobTypePrior, table: MeasuredCells, seeds: int) -> dict[str, float]:
    scores: dict[str, list[FloatArray]] = {rung: [] for rung in RUNGS}
    for seed in range(seeds):
        for rung, value in _scores(prior, table, np.random.default_rng(seed)):
            scores[rung].append(value)
    return {rung: _quantile(values) for rung, values in scores.items()}


def _quantile(values: Sequence[FloatArray]) -> float:
    if not values:
        return DEVIATIONS
    return max(float(np.quantile(np.concatenate(values), COVERAGE)), 1.0)


def _scores(
    prior: JobTypePrior, table: MeasuredCells, rng: np.random.Generator
) -> list[tuple[str, FloatArray]]:
    """Return standardised residuals of cells left out, by rung."""
    found = []
    cells = table.cells
    for name in np.unique(cells.job_type):
        named = np.flatnonzero(cells.job_type == name)
        batch = rng.choice(np.unique(cells.batch_size[named]))
        of_job = named[cells.batch_size[named] == batch]
        others = np.flatnonzero(cells.job_type != name)
        rest = np.setdiff1d(named, of_job)
        found += [("none", _standardised(prior, table, others, of_job))]
        if len(rest):
            found += [("name", _standardised(prior, table, np.r_[others, rest], of_job))]
        for rung, count in (("job_few", 1), ("job_many", 4)):
            if len(of_job) > count:
                own = rng.permutation(of_job)
                keep = others if rng.random() < 0.5 else np.r_[others, rest]
                seen = np.r_[keep, own[:count]]
                found += [(rung, _standardised(prior, table, seen, own[count:]))]
    return found


def _standardised(
    prior: JobTypePrior,
    table: MeasuredCells,
    known: npt.NDArray[np.int64],
    asked: npt.NDArray[np.int64],
) -> FloatArray:
    seen, held = table.take(known), table.take(asked)
    answer = JobTypeTable(seen.cells, seen.step_time_s, prior).complete(held.cells)
    off = np.abs(held.log_s - np.log(answer.median_s))
    return np.asarray(off / np.log(answer.high_s / answer.median_s) * DEVIATIONS)


def training_tables(data: Path) -> tuple[list[MeasuredCells], float]:
    """Return the tables that a prior is fitted on, and the noise of one measurement."""
    rng = np.random.default_rng(0)
    sia = sia_cells(data)
    alone, together = gavel_cells(data), gavel_cells(data, shared=True)
    pairs = together.take(together.cells.is_shared > 0)
    gavel = joined(alone, thinned(pairs, _PAIRS_PER_DEVICE, rng))
    return [gavel, thinned(sia, _PER_DEVICE, rng)], repeat_variance(sia)


def fit(data: Path) -> dict[str, Any]:
    """Fit the prior of job types on the public tables of a folder."""
    tables, noise_variance = training_tables(data)
    prior = calibrated(fit_prior(tables, noise_variance), tables)
    return document(
        "job_types", constants(prior), SOURCE, sum(len(table.log_s) for table in tables)
    )


def constants(prior: JobTypePrior) -> dict[str, Any]:
    """Return a prior as plain JSON values, deviations in natural logarithms of a time."""
    return {
        "mean": {n: round(v, 6) for n, v in zip(FEATURES, prior.mean.tolist(), strict=True)},
        "deviations": {name: round(v**0.5, 6) for name, v in prior.variances.items()},
        "noise": round(prior.noise_variance**0.5, 6),
        "quantiles": {name: round(value, 6) for name, value in prior.quantiles.items()},
    }

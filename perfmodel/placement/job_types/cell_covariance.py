r"""How much two cells of job types have in common: the covariance behind their completion.

The logarithm of a step time is a sum of effects, each drawn once for all cells that share it::

    k(i, j) = sum over levels l and effects e of  v[l, e]  J_l(i, j)  C_e(i, j)

A level says which jobs share an effect (all of a table, those of one name, those of one name at
close batch sizes); an effect says on which cells it acts (those of a device, of several
accelerators, across hosts, ...). The slowdown beside another job has effects of its own, shared by
levels of the job and of its partner. A table with such a covariance has low rank but for what
belongs to one cell alone.

Reference: Goovaerts, Geostatistics for Natural Resources Evaluation, 1997 (linear model of
coregionalisation).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.job_types.cell_likeness import (
    LEVELS,
    Kinds,
    doublings,
    effects,
    equal,
    jobs_of,
    levels,
    partners_of,
    places_of,
)
from perfmodel.placement.job_types.job_type_cells import JobTypeCells

#: Effects of a place at every batch size, and those that grow with the logarithm of it.
STEADY: Mapping[str, str] = {
    name: name
    for name in (
        "one", "speed", "device", "several", "crossing", "count", "wire", "device_several",
        "device_crossing", "device_count", "crossing_count", "cell",
    )
}  # fmt: skip
GROWING: Mapping[str, str] = {
    "batch": "one", "device_batch": "device", "batch_several": "several",
}  # fmt: skip
#: Levels of a job and of its partner that share a part of the slowdown.
PAIRS = (
    ("table", "table"), ("name", "table"), ("batch", "table"), ("table", "name"),
    ("table", "batch"), ("name", "name"), ("batch", "batch"),
)  # fmt: skip
#: Other settings of a placement, and one cell's own deviation.
ALONE = ("settings", "itself")


def variance_names() -> tuple[str, ...]:
    """Return the names of all variances: ``"name.device"``, ``"pair.name.table"``, ..."""
    plain = [f"{level}.{effect}" for level in LEVELS for effect in (*STEADY, *GROWING)]
    pairs = [f"{kind}.{job}.{other}" for kind in ("pair", "pair_device") for job, other in PAIRS]
    return (*plain, *ALONE, *pairs)


def covariance(a: JobTypeCells, b: JobTypeCells, variances: Mapping[str, float]) -> FloatArray:
    """Return the covariance of the log step times of two sets of cells, (len(a), len(b)).

    Parameters
    ----------
    variances : mapping of str to float
        By :func:`variance_names`; one that is missing is 0.
    """
    jobs, places = (jobs_of(a), jobs_of(b)), (places_of(a), places_of(b))
    left, right = a.take(jobs[0].first), b.take(jobs[1].first)
    alike = levels(left.job_type, left.batch_size, right.job_type, right.batch_size)
    grown = np.outer(doublings(left.batch_size), doublings(right.batch_size))
    acts = effects(a.take(places[0].first), b.take(places[1].first))
    total = np.zeros((len(a), len(b)))
    for level in LEVELS:
        for chosen, share in ((STEADY, alike[level]), (GROWING, alike[level] * grown)):
            amount = _amount(chosen, level, acts, variances)
            if np.any(amount):
                total += _spread(share, *jobs) * _spread(amount, *places)
    _add_settings(total, a, b, variances)
    _add_slowdown(total, a, b, variances, alike, jobs)
    _add_itself(total, a, b, variances)
    return total


def _spread(between_kinds: FloatArray, rows: Kinds, columns: Kinds) -> FloatArray:
    # Columns first, while the rows are few; the rows are then copied whole.
    return between_kinds[:, columns.index][rows.index]


def own_variance(cells: JobTypeCells, variances: Mapping[str, float]) -> FloatArray:
    """Return the variance of the log step time of each cell, shape (cells,)."""
    kinds = places_of(cells)
    places = cells.take(kinds.first)
    acts = {name: np.diag(act) for name, act in effects(places, places).items()}
    grown = doublings(cells.batch_size) ** 2
    total = np.full(len(cells), variances.get("itself", 0.0))
    for level in LEVELS:
        for chosen, times in ((STEADY, 1.0), (GROWING, grown)):
            amount = _amount(chosen, level, acts, variances)
            total += amount[kinds.index] * times if np.any(amount) else 0.0
    slowdown = sum(value for name, value in variances.items() if name.startswith("pair"))
    settings = np.asarray(cells.settings != "", dtype=np.float64)
    return total + cells.is_shared * slowdown + settings * variances.get("settings", 0.0)


def _amount(
    chosen: Mapping[str, str],
    level: str,
    acts: Mapping[str, FloatArray],
    variances: Mapping[str, float],
) -> Any:
    """Return how much effects that a level shares vary together, by the cells they act on."""
    parts = [
        variance * acts[on]
        for name, on in chosen.items()
        if (variance := variances.get(f"{level}.{name}", 0.0))
    ]
    return np.sum(parts, axis=0) if parts else 0.0


def _add_settings(
    total: FloatArray, a: JobTypeCells, b: JobTypeCells, variances: Mapping[str, float]
) -> None:
    rows, columns = np.flatnonzero(a.settings != ""), np.flatnonzero(b.settings != "")
    variance = variances.get("settings", 0.0)
    if variance and len(rows) and len(columns):
        a, b = a.take(rows), b.take(columns)
        same = equal(a.settings, b.settings) * equal(a.job_type, b.job_type)
        total[np.ix_(rows, columns)] += variance * same


def _add_slowdown(
    total: FloatArray,
    a: JobTypeCells,
    b: JobTypeCells,
    variances: Mapping[str, float],
    alike: Mapping[str, FloatArray],
    jobs: tuple[Kinds, Kinds],
) -> None:
    rows, columns = np.flatnonzero(a.is_shared), np.flatnonzero(b.is_shared)
    if not len(rows) or not len(columns):
        return
    a, b = a.take(rows), b.take(columns)
    job_at = np.ix_(jobs[0].index[rows], jobs[1].index[columns])
    partners = partners_of(a), partners_of(b)
    partner_at = np.ix_(partners[0].index, partners[1].index)
    left, right = a.take(partners[0].first), b.take(partners[1].first)
    others = levels(left.partner_type, left.partner_batch, right.partner_type, right.partner_batch)
    device = equal(a.accelerator, b.accelerator)
    slowdown = np.zeros(device.shape)
    for job, other in PAIRS:
        everywhere = variances.get(f"pair.{job}.{other}", 0.0)
        on_device = variances.get(f"pair_device.{job}.{other}", 0.0)
        if everywhere or on_device:
            shared = alike[job][job_at] * others[other][partner_at]
            slowdown += shared * (everywhere + on_device * device)
    total[np.ix_(rows, columns)] += slowdown


def _add_itself(
    total: FloatArray, a: JobTypeCells, b: JobTypeCells, variances: Mapping[str, float]
) -> None:
    rows, columns = same_cells(a, b)
    total[rows, columns] += variances.get("itself", 0.0)


def same_cells(
    a: JobTypeCells, b: JobTypeCells
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the positions at which two sets of cells hold the same cell."""
    keys = [cell_keys(one) for one in (a, b)]
    by_key: dict[tuple[object, ...], list[int]] = {}
    for column, key in enumerate(keys[1]):
        by_key.setdefault(key, []).append(column)
    both = [(row, column) for row, key in enumerate(keys[0]) for column in by_key.get(key, ())]
    pairs = np.array(both, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def cell_keys(cells: JobTypeCells) -> list[tuple[object, ...]]:
    """Return what makes each cell itself."""
    return list(
        zip(
            cells.job_type.tolist(), cells.batch_size.tolist(), cells.accelerator.tolist(),
            cells.count.tolist(), cells.hosts.tolist(), cells.network.tolist(),
            cells.shares.tolist(), cells.settings.tolist(), cells.partner_type.tolist(),
            cells.partner_batch.tolist(), strict=True,
        )
    )  # fmt: skip

"""Fit what framework and allocator hold around the tensors of a step, on published memory.

Unknowns are those of :mod:`.memory_demand`. A monitor shows the demand, or what
a full device has; so for a run with demand ``D`` on a capacity ``M``, of which a full device shows
the share ``u``, the residuals are

    ln(min(D, u M) / measured)            for a run that ran, which also says that D
    2 max(0, ln(D / M))                   is not far above M,
    min(0, ln(D / M) - 0.1)               for one that ran out, whose D is above M,

and each unknown is drawn to its prior. The runs of one workload, precision and device weigh as one.
Then, of the demand beyond what is certain, the share that is enough and its deviation are those
under which it is most likely that the runs ran, and ran out, as they did; one that ran out, of
which few are published, counts as often as the root of how many more ran.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.least_squares import least_squares
from perfmodel.placement.memory.memory import excess_of, oom_probability
from perfmodel.placement.memory.memory_demand import (
    Overhead,
    demand_bytes,
    divides_data,
    generation,
    held_share,
    is_fused,
    is_half,
    is_modern,
    is_older,
)
from perfmodel.placement.memory.memory_parts import MemoryParts, MemoryPlan, memory_parts, stacked
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_rows.memory_rows import MemoryRow, memory_rows

#: Prior values of the unknowns that are not of one workload: a context of 0.8 GB, gradients copied
#: into buckets for a third, attention that keeps one and a half matrices of scores, workspaces of
#: half a convolution, 5 % lost in the allocator, 96 % of a full device shown; with the deviations
#: of their logarithms.
_COMMON = {
    "runtime": (math.log(0.8e9), 0.1),
    "bucket": (math.log(0.3), 0.5),
    "unfused": (math.log(1.5), 0.5),
    "workspace": (math.log(0.5), 1.0),
    "scattered": (0.05, 0.2),
    "full": (-0.04, 0.02),
}
_GENERATION_DEVIATION = 0.1
_FACTOR_DEVIATION = 0.5
_OLDER_DEVIATION = 0.3
#: What a workload may keep on the device: little unless the runs say otherwise. Most keep nothing
#: and one in five keeps gigabytes, which is a wide deviation.
_HELD = (math.log(0.03e9), 2.0)
#: What is left of those deviations where all workloads are one.
_NO_FREEDOM = 1e-3
#: Residuals of the priors against those of the runs.
_PRIOR_WEIGHT = 0.1
_RAN_WEIGHT = 2.0
_RAN_OUT_WEIGHT = 1.0
#: A demand has to be that far above the capacity to run out: the allocator gives back caches.
_RAN_OUT_MARGIN = 0.1
#: A device that is filled less than this shows the demand itself.
_WITH_ROOM = 0.85
#: No run is less likely than this, so that one odd run does not decide.
_LEAST_LIKELIHOOD = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryTable:
    """Rows in columns."""

    rows: tuple[MemoryRow, ...]

    @cached_property
    def parts(self) -> MemoryParts:
        """Parts of the memory of each row."""
        return stacked(
            [memory_parts(row.profile, MemoryPlan(data=float(row.replicas))) for row in self.rows]
        )

    @cached_property
    def measured(self) -> FloatArray:
        """Bytes that the monitor showed, NaN where the run ran out."""
        return np.array([row.memory_bytes for row in self.rows])

    @cached_property
    def capacity(self) -> FloatArray:
        """Bytes of the accelerator."""
        return np.array([row.accelerator.memory_bytes for row in self.rows])

    @cached_property
    def weight(self) -> FloatArray:
        """One over the root of the number of runs of a workload, precision and device."""
        keys = [
            (row.job.model, row.job.precision, row.accelerator.name, row.ran_out)
            for row in self.rows
        ]
        often = Counter(keys)
        return np.array([often[key] ** -0.5 for key in keys])


class Unknowns:
    """Where each unknown stands in the vector, and what the vector means.

    Parameters
    ----------
    apart : bool
        Whether workloads have factors of their own; otherwise these stay at their priors.
    """

    def __init__(self, table: MemoryTable, *, apart: bool = True) -> None:
        self._freedom = 1.0 if apart else _NO_FREEDOM
        jobs = [row.job for row in table.rows]
        self.workloads = sorted({str(job.model) for job in jobs})
        self.generations = sorted({generation(row.accelerator) for row in table.rows})
        self._workload = np.array([self.workloads.index(str(job.model)) for job in jobs])
        self._generation = np.array(
            [self.generations.index(generation(row.accelerator)) for row in table.rows]
        )
        self._half = np.array([int(is_half(job)) for job in jobs])
        self._older = np.array([float(is_older(job)) for job in jobs])
        self._fused = np.array([is_fused(job) for job in jobs])
        self._modern = np.array([is_modern(job) for job in jobs])
        self._held_share = np.array(
            [held_share(row.replicas, is_divided=divides_data(row.job)) for row in table.rows]
        )
        self._names = list(_COMMON)
        count = len(self.workloads)
        sizes = [len(_COMMON), len(self.generations), 2 * count, count, count]
        self._ends = np.cumsum(sizes)

    @property
    def prior(self) -> tuple[FloatArray, FloatArray]:
        """Prior values and deviations of all unknowns."""
        count = len(self.workloads)
        pairs = [
            *_COMMON.values(),
            *[(0.0, _GENERATION_DEVIATION)] * len(self.generations),
            *[(0.0, _FACTOR_DEVIATION * self._freedom)] * (2 * count),
            *[(0.0, _OLDER_DEVIATION * self._freedom)] * count,
            *[(_HELD[0], _HELD[1] * self._freedom)] * count,
        ]
        middle, deviation = np.array(pairs).T
        return middle, deviation

    def common(self, x: FloatArray, name: str) -> float:
        """Return one of the unknowns that are not of a workload."""
        return float(x[self._names.index(name)])

    def per_workload(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log factors, shape (workloads, 2), log factors of older releases, log bytes."""
        _, factors, older, held = np.split(x, self._ends[:-1])[1:]
        return factors.reshape(-1, 2), older, held

    def per_generation(self, x: FloatArray) -> FloatArray:
        """Return the bytes of the runtime of each generation."""
        own = np.split(x, self._ends[:-1])[1]
        return np.asarray(np.exp(self.common(x, "runtime") + own))

    def around(self, x: FloatArray) -> Overhead:
        """Return what the vector says about the rows of the table."""
        factors, older, held = self.per_workload(x)
        log_factor = (
            self.common(x, "scattered")
            + factors[self._workload, self._half]
            + older[self._workload] * self._older
        )
        return Overhead(
            runtime_bytes=self.per_generation(x)[self._generation],
            held_bytes=np.exp(held)[self._workload] * self._held_share,
            factor=np.exp(log_factor),
            has_allocator=np.ones(len(self._workload), dtype=np.bool_),
            is_fused=self._fused,
            is_modern=self._modern,
            bucket_share=math.exp(self.common(x, "bucket")),
            unfused_share=math.exp(self.common(x, "unfused")),
            workspace_share=math.exp(self.common(x, "workspace")),
        )


def fit(data: Path, profiles: Path | None = None) -> dict[str, Any]:
    """Fit on the published memory of a folder."""
    rows = memory_rows(data, None if profiles is None else ProfileStore(profiles))
    source = "lambdal/deeplearning-benchmark, memory of the device as its monitor showed it"
    return document("memory", fit_rows(rows), source, len(rows))


def fit_rows(rows: Sequence[MemoryRow]) -> dict[str, Any]:
    """Fit on rows of one's choice.

    Parameters
    ----------
    rows : sequence of MemoryRow
        At least one that ran.

    Returns
    -------
    dict
        The constants for the workloads of the rows, and under ``"common"`` those of a fit in
        which no workload has factors of its own, for all others.
    """
    table = MemoryTable(rows=tuple(rows))
    found = {**_fit_table(table, apart=True), "common": _fit_table(table, apart=False)}
    return dict(rounded(found))


def _fit_table(table: MemoryTable, *, apart: bool) -> dict[str, Any]:
    unknowns = Unknowns(table, apart=apart)
    middle, deviation = unknowns.prior
    ran = np.isfinite(table.measured)
    measured = np.where(ran, table.measured, 1.0)

    def residuals(x: FloatArray) -> FloatArray:
        demand = demand_bytes(table.parts, unknowns.around(x))
        shown = np.minimum(demand, math.exp(unknowns.common(x, "full")) * table.capacity)
        over = np.log(demand / table.capacity)
        return np.concatenate(
            (
                (table.weight * np.log(shown / measured))[ran],
                _RAN_WEIGHT * (table.weight * np.maximum(over, 0))[ran],
                _RAN_OUT_WEIGHT * np.minimum(over - _RAN_OUT_MARGIN, 0)[~ran],
                _PRIOR_WEIGHT * (x - middle) / deviation,
            )
        )

    x = least_squares(residuals, middle, steps=60)
    demand = demand_bytes(table.parts, unknowns.around(x))
    certain = table.parts.certain_bytes
    room_bytes = np.maximum(table.capacity - certain, 1.0)
    share, spread = _edge((demand - certain) / room_bytes, ran)
    room = ran & (measured < _WITH_ROOM * table.capacity) & (measured > certain)
    # Full devices hide how far a demand may be off; those with room show it.
    misses = np.log((demand - certain)[room] / (measured - certain)[room])
    spread = max(spread, float(np.sqrt(np.mean(misses**2))) if room.any() else 0.0)
    constants = _constants(unknowns, x, share, spread)
    return {**constants, "workloads": _workloads(unknowns, x)} if apart else constants


def _edge(demand: FloatArray, ran: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Return the share of the demand that is enough, and the deviation around it."""
    best, found = -math.inf, (1.0, 0.1)
    weight = np.where(ran, 1.0, math.sqrt(ran.sum() / max((~ran).sum(), 1)))
    for share in np.arange(0.8, 1.0501, 0.01):
        for spread in np.arange(0.04, 0.301, 0.02):
            short = oom_probability(excess_of(share * demand, np.ones(len(demand)), float(spread)))
            right = np.maximum(np.where(ran, 1 - short, short), _LEAST_LIKELIHOOD)
            likelihood = float(weight @ np.log(right))
            if likelihood > best:
                best, found = likelihood, (float(share), float(spread))
    return found


def _constants(unknowns: Unknowns, x: FloatArray, share: float, spread: float) -> dict[str, Any]:
    runtime = dict(zip(unknowns.generations, unknowns.per_generation(x).tolist(), strict=True))
    return {
        "runtime_bytes": {
            "gpu": math.exp(unknowns.common(x, "runtime")),
            **runtime,
        },
        "bucket_share": math.exp(unknowns.common(x, "bucket")),
        "unfused_share": math.exp(unknowns.common(x, "unfused")),
        "workspace_share": math.exp(unknowns.common(x, "workspace")),
        "scattered_share": math.expm1(unknowns.common(x, "scattered")),
        "full_share": math.exp(unknowns.common(x, "full")),
        "need_share": share,
        "deviation": spread,
    }


def _workloads(unknowns: Unknowns, x: FloatArray) -> dict[str, dict[str, float]]:
    factors, older, held = unknowns.per_workload(x)
    return {
        name: {
            "full": math.exp(factors[row, 0]),
            "half": math.exp(factors[row, 1]),
            "older": math.exp(older[row]),
            "held_bytes": math.exp(held[row]),
        }
        for row, name in enumerate(unknowns.workloads)
    }

r"""Fit the constants of the data-parallel step on steps measured on one and on several devices.

With priors that say which sizes make sense, and a slowdown for the links of every machine m:

.. math::

   \min \sum_i \rho(\hat T_i / T_i - 1) / \sigma^2 + \sum_m \rho(\ln s_m) / \tau^2
   + \sum_k ((x_k - \mu_k) / w_k)^2

where x are logs (of contention, which is a share, the logit) and
:math:`\rho(r) = 2 c^2 (\sqrt{1 + (r/c)^2} - 1)` is the square of small errors and the size of
large ones: some of the measured machines had links that carried a hundredth of their rate, and
those shall not bend the constants. The slowdowns of machines are not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.data_parallel_constants import DataParallelConstants
from perfmodel.placement.fitted.forms import as_plain
from perfmodel.placement.least_squares import dampened, least_squares
from perfmodel.placement.topology.links import LinkClass
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_rows.data_parallel_rows import (
    DataParallelRow,
    columns,
    data_parallel_rows,
    groups_of,
)

_DIFFERENCE = 1e-6

#: Errors from which on the loss is no longer square, and those that are expected: of a step, and
#: of the log of a machine's slowdown.
SMALL_ERROR, EXPECTED_ERROR = 0.01, 0.03
_SMALL_EFFECT, _EXPECTED_EFFECT = 0.1, 0.2

SOURCE = "lambdal/deeplearning-benchmark; NVIDIA/DeepLearningExamples"

#: Link classes with a slowdown of their own.
_LINKS = (LinkClass.NVSWITCH, LinkClass.NVLINK, LinkClass.PCIE, LinkClass.NONE)
#: Expected errors of steps whose ranks a system schedules, and width of the prior of their links:
#: gloo's threads and those of the step take the same cores.
_SMALL_ERROR_ON_CORES, _ERROR_ON_CORES, _WIDTH_ON_CORES = 0.05, 0.15, 1.5
#: A job needs so many rows for a spread of its own.
_LEAST_ROWS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class _Prior:
    """Where an unknown begins, and how far it is expected to go."""

    middle: float
    width: float


_SLOWDOWN = _Prior(middle=float(np.log(1.2)), width=0.7)
#: Log of a job's spread over that of all.
_JOB = _Prior(middle=0.0, width=1.0)
#: Crowding, rate of the host's copies, odds of contention, straggler, bucket, piece, packing.
_OTHERS = (
    _Prior(middle=float(np.log(0.5)), width=1.0),
    _Prior(middle=float(np.log(8e9)), width=0.3),
    _Prior(middle=float(np.log(0.4 / 0.6)), width=1.5),
    _Prior(middle=float(np.log(0.005)), width=1.0),
    _Prior(middle=float(np.log(3e-5)), width=1.0),
    _Prior(middle=float(np.log(1e-5)), width=1.0),
    _Prior(middle=float(np.log(2e11)), width=1.0),
)


def fit(data: Path, profiles: Path | None = None) -> dict[str, Any]:
    """Fit the constants on all the rows; those of own replicas on CPUs after all others."""
    rows = data_parallel_rows(data, profiles)
    constants = fit_on_cores(rows, fit_constants(rows))
    source = SOURCE if profiles is None else f"{SOURCE}; own profiles"
    return document("data_parallel", rounded(as_plain(constants)), source, len(rows))


def fit_on_cores(
    rows: Sequence[DataParallelRow], constants: DataParallelConstants
) -> DataParallelConstants:
    """Return constants with how much longer collectives between ranks on CPUs take in a step.

    Those rows say nothing of accelerators, so that they move this one constant alone.
    """
    used = [row for row in rows if is_on_cores(row)]
    parts = [
        (stage, *columns(of_stage), groups_of(of_stage))
        for stage in sorted({row.zero_stage for row in used})
        for of_stage in [[row for row in used if row.zero_stage == stage]]
    ]
    cells = [
        (stage, DataParallelCells(p, alone, groups), t) for stage, p, alone, t, groups in parts
    ]

    def residuals(unknown: FloatArray) -> FloatArray:
        known = _slowed_on_cores(constants, float(np.exp(unknown[0])))
        errors = [
            one.parts(zero_stage=stage, constants=known).step_time_s / measured - 1
            for stage, one, measured in cells
        ]
        return np.concatenate(
            (
                *(dampened(error, _SMALL_ERROR_ON_CORES) / _ERROR_ON_CORES for error in errors),
                (unknown - _SLOWDOWN.middle) / _WIDTH_ON_CORES,
            )
        )

    found = least_squares(residuals, np.array([_SLOWDOWN.middle]))
    return _slowed_on_cores(constants, float(np.exp(found[0])))


def is_on_cores(row: DataParallelRow) -> bool:
    """Tell whether the replicas of a row compute on the cores of a host."""
    return row.spec is not None and row.spec.kind == "cpu"


def _slowed_on_cores(constants: DataParallelConstants, slowdown: float) -> DataParallelConstants:
    links = {**constants.link_slowdown, LinkClass.HOST_MEMORY: slowdown}
    return replace(constants, link_slowdown=MappingProxyType(links))


def fit_constants(rows: Sequence[DataParallelRow], *, steps: int = 60) -> DataParallelConstants:
    """Return the constants under which the simulated steps meet the measured ones best.

    Raises
    ------
    TrainingError
        No row whose replicas communicate.
    """
    used = [
        row
        for row in rows
        if row.profile.gradient_bytes > 0 and row.zero_stage == 0 and not is_on_cores(row)
    ]
    if not used:
        raise TrainingError("No measured step on several accelerators shares gradients.")
    profiles, alone, measured = columns(used)
    cells = DataParallelCells(profiles, alone, groups_of(used))
    models = [row.model for row in used]
    names, machine = np.unique([row.machine for row in used], return_inverse=True)
    jobs = tuple(sorted(name for name, n in Counter(models).items() if n >= _LEAST_ROWS))
    priors = [*([_SLOWDOWN] * len(_LINKS)), *_OTHERS, *([_JOB] * len(jobs))]
    middle = np.array([prior.middle for prior in priors])
    width = np.array([prior.width for prior in priors])

    def residuals(unknowns: FloatArray) -> FloatArray:
        x, links = unknowns[: len(middle)], unknowns[len(middle) :]
        known = _constants(x, jobs)
        spread = np.array([known.straggler_of(name) for name in models])
        parts = cells.parts(straggler=spread, link_slowdown=np.exp(links)[machine], constants=known)
        errors = parts.step_time_s / measured - 1
        return np.concatenate(
            (
                dampened(errors, SMALL_ERROR) / EXPECTED_ERROR,
                dampened(links, _SMALL_EFFECT) / _EXPECTED_EFFECT,
                (x - middle) / width,
            )
        )

    def slopes(unknowns: FloatArray, at: FloatArray) -> FloatArray:
        return _slopes(residuals, unknowns, at, shared=len(middle), machine=machine)

    start = np.concatenate((middle, np.zeros(len(names))))
    found = least_squares(residuals, start, steps=steps, slopes_of=slopes)
    return _constants(found[: len(middle)], jobs)


def _slopes(
    residuals: Callable[[FloatArray], FloatArray],
    unknowns: FloatArray,
    at: FloatArray,
    *,
    shared: int,
    machine: IntArray,
) -> FloatArray:
    """Return the Jacobian; a row knows one machine, so all of them are moved at once."""
    slopes = np.zeros((len(at), len(unknowns)))
    for position in range(shared):
        moved = unknowns.copy()
        moved[position] += _DIFFERENCE
        slopes[:, position] = (residuals(moved) - at) / _DIFFERENCE
    moved = unknowns.copy()
    moved[shared:] += _DIFFERENCE
    change = (residuals(moved) - at) / _DIFFERENCE
    machines = len(unknowns) - shared
    # First the errors of the rows, then one residual for each machine.
    owner = np.concatenate((machine, np.arange(machines)))
    rows = np.arange(len(owner))
    slopes[rows, shared + owner] = change[: len(owner)]
    return slopes


def _constants(x: FloatArray, jobs: Sequence[str]) -> DataParallelConstants:
    values = np.exp(x)
    links, rest = values[: len(_LINKS)], values[len(_LINKS) :]
    crowding, host, odds, straggler, bucket_s, piece_s, pack = rest[: len(_OTHERS)].tolist()
    spreads = straggler * rest[len(_OTHERS) :]
    return DataParallelConstants(
        link_slowdown=MappingProxyType(dict(zip(_LINKS, links.tolist(), strict=True))),
        crowding=crowding,
        host_copy_bytes_per_s=host,
        # The odds of a share p are p / (1 - p).
        contention=odds / (1 + odds),
        straggler=straggler,
        job_straggler=MappingProxyType(dict(zip(jobs, spreads.tolist(), strict=True))),
        bucket_s=bucket_s,
        piece_s=piece_s,
        pack_bytes_per_s=pack,
    )

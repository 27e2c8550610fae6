"""Every pair of some jobs and some placements, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.errors import PerfModelError
from perfmodel.estimator.answer import LADDER, NO_ROOM_WARNING, RUNG, ResolvedPlacement
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.step import PreparedJob
from perfmodel.graph.job import Job
from perfmodel.placement.memory import memory_columns
from perfmodel.placement.step_time import combine
from perfmodel.placement.topology import Placement
from perfmodel.types import Basis, Mode

if TYPE_CHECKING:
    from perfmodel.devices.spec import AcceleratorSpec
    from perfmodel.estimator.facade import Estimator

FloatArray = npt.NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CellError:
    """Why a row, a column or a cell has no answer.

    Parameters
    ----------
    job, placement : int or None
        Position in the request; None means all of them.
    error : PerfModelError
    """

    job: int | None
    placement: int | None
    error: PerfModelError


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixEstimate:
    """Answers in columns: each array has a row for each job and a column for each placement.

    Parameters
    ----------
    samples_per_second, low, high : ndarray
        NaN where there is no answer.
    step_time_s, peak_bytes : ndarray
        NaN where there is no answer.
    basis : ndarray of int
        Position on the ladder of evidence, -1 where there is no answer.
    out_of_distribution, fits, answered : ndarray of bool
    coverage : float or None
        Of the intervals; the least over all cells, None where none was answered.
    model_version : str or None
    unpriced_operators : tuple
        For each job its operators without a cost formula, None where the job has no graph.
    errors : tuple of CellError
    warnings : tuple of str
        Each text once, whichever cell it belongs to.
    """

    samples_per_second: FloatArray
    low: FloatArray
    high: FloatArray
    step_time_s: FloatArray
    peak_bytes: FloatArray
    basis: npt.NDArray[np.int8]
    out_of_distribution: npt.NDArray[np.bool_]
    fits: npt.NDArray[np.bool_]
    answered: npt.NDArray[np.bool_]
    coverage: float | None
    model_version: str | None
    unpriced_operators: tuple[dict[str, int] | None, ...]
    errors: tuple[CellError, ...]
    warnings: tuple[str, ...]


@dataclass(kw_only=True)
class _Table:
    """Predictions on one accelerator: a row for each job, a column for each accelerator."""

    time_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray
    rung: npt.NDArray[np.int8]
    out_of_distribution: npt.NDArray[np.bool_]
    peak_bytes: FloatArray
    room_bytes: FloatArray


def fill_matrix(
    estimator: Estimator,
    jobs: Sequence[Job | PerfModelError],
    placements: Sequence[Placement | PerfModelError],
) -> MatrixEstimate:
    """Answer every pair; what is bad about one job or placement stays with it.

    Parameters
    ----------
    estimator : Estimator
    jobs, placements : sequence
        An error in place of a job or a placement is carried into the answer.

    Returns
    -------
    MatrixEstimate
    """
    prepared, job_errors = _attempt(estimator.prepare, jobs)
    resolved, placement_errors = _attempt(estimator.resolve, placements)
    accelerators = {a.name: a for r in resolved if r for a in r.accelerators}
    predictions, cell_errors = _predict(estimator, prepared, list(accelerators.values()))
    table = _tabulate(prepared, list(accelerators.values()), predictions)
    columns = _Columns(len(jobs), len(placements))
    positions = {name: position for position, name in enumerate(accelerators)}
    for group in _groups(resolved, positions):
        columns.fill(group, table, prepared)
    spread = _spread_errors(cell_errors, resolved)
    known = [p for p in predictions.values()]
    return MatrixEstimate(
        **columns.arrays(),
        coverage=min((p.coverage for p in known), default=None),
        model_version=known[0].model_version if known else None,
        unpriced_operators=tuple(p and dict(p.step.unpriced_operators) for p in prepared),
        errors=(
            *(CellError(job=i, placement=None, error=e) for i, e in job_errors),
            *(CellError(job=None, placement=i, error=e) for i, e in placement_errors),
            *spread,
        ),
        warnings=_warnings(prepared, resolved, known, columns),
    )


def _attempt(
    action: Any, inputs: Sequence[Any]
) -> tuple[list[Any], list[tuple[int, PerfModelError]]]:
    results: list[Any] = []
    errors = []
    for position, item in enumerate(inputs):
        result = None
        try:
            if isinstance(item, PerfModelError):
                raise item
            result = action(item)
        except PerfModelError as error:
            errors.append((position, error))
        results.append(result)
    return results, errors


_Cells = dict[tuple[int, str], StepPrediction]
_CellErrors = dict[tuple[int, str], PerfModelError]


def _predict(
    estimator: Estimator,
    prepared: Sequence[PreparedJob | None],
    accelerators: Sequence[AcceleratorSpec],
) -> tuple[_Cells, _CellErrors]:
    """Predict all pairs in one call; if the call fails, each alone to find the bad ones."""
    keys = [(row, a.name) for row, p in enumerate(prepared) if p for a in accelerators]
    pairs = [(p, a) for p in prepared if p for a in accelerators]
    try:
        return dict(zip(keys, estimator.predictions(pairs), strict=True)), {}
    except (PerfModelError, ArithmeticError):
        cells: _Cells = {}
        errors: _CellErrors = {}
        for key, pair in zip(keys, pairs, strict=True):
            try:
                cells[key] = estimator.predictions([pair])[0]
            except PerfModelError as error:
                errors[key] = error
            except ArithmeticError as error:
                errors[key] = PerfModelError(str(error))
        return cells, errors


def _tabulate(
    prepared: Sequence[PreparedJob | None],
    accelerators: Sequence[AcceleratorSpec],
    predictions: _Cells,
) -> _Table:
    shape = (len(prepared), len(accelerators))
    table = _Table(
        time_s=np.full(shape, np.nan),
        low_s=np.full(shape, np.nan),
        high_s=np.full(shape, np.nan),
        rung=np.full(shape, -1, dtype=np.int8),
        out_of_distribution=np.zeros(shape, dtype=np.bool_),
        peak_bytes=np.full(shape, np.nan),
        room_bytes=np.full(shape, np.nan),
    )
    for row, job in enumerate(prepared):
        if job is None:
            continue
        memory = memory_columns(job.step.memory_profile, accelerators, job=job.job)
        for column, accelerator in enumerate(accelerators):
            prediction = predictions.get((row, accelerator.name))
            if prediction is None:
                continue
            cell = row, column
            table.time_s[cell] = prediction.time_s
            table.low_s[cell] = prediction.low_s
            table.high_s[cell] = prediction.high_s
            table.rung[cell] = RUNG[prediction.basis]
            table.out_of_distribution[cell] = prediction.out_of_distribution
            table.peak_bytes[cell] = memory.peak_bytes[column]
            table.room_bytes[cell] = memory.capacity_bytes[column] - memory.peak_bytes[column]
    return table


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Placements with the same number of kinds of accelerator; one array element each."""

    columns: npt.NDArray[np.intp]
    kinds: list[npt.NDArray[np.intp]]
    counts: list[FloatArray]


def _groups(
    resolved: Sequence[ResolvedPlacement | None], positions: dict[str, int]
) -> list[_Group]:
    by_kinds: dict[int, list[int]] = {}
    for column, placement in enumerate(resolved):
        if placement is not None:
            by_kinds.setdefault(len(placement.accelerators), []).append(column)
    groups = []
    for kinds, columns in sorted(by_kinds.items()):
        members = [placement for c in columns if (placement := resolved[c]) is not None]
        groups.append(
            _Group(
                columns=np.array(columns),
                kinds=[
                    np.array([positions[m.accelerators[k].name] for m in members])
                    for k in range(kinds)
                ],
                counts=[np.array([float(m.counts[k]) for m in members]) for k in range(kinds)],
            )
        )
    return groups


class _Columns:
    """The arrays of the answer while they are being filled."""

    def __init__(self, jobs: int, placements: int) -> None:
        shape = (jobs, placements)
        self._floats = {
            name: np.full(shape, np.nan)
            for name in ("samples_per_second", "low", "high", "step_time_s", "peak_bytes")
        }
        self._basis = np.full(shape, -1, dtype=np.int8)
        self._out = np.zeros(shape, dtype=np.bool_)
        self._fits = np.zeros(shape, dtype=np.bool_)

    def fill(self, group: _Group, table: _Table, prepared: Sequence[PreparedJob | None]) -> None:
        """Fill the columns of one group of placements."""
        for mode in Mode:
            rows = [i for i, p in enumerate(prepared) if p and p.job.mode is mode]
            if rows:
                samples = np.array(
                    [[float(p.samples)] for p in prepared if p and p.job.mode is mode]
                )
                self._fill_rows(group, table, np.array(rows), samples, mode)

    def _fill_rows(
        self,
        group: _Group,
        table: _Table,
        rows: npt.NDArray[np.intp],
        samples: FloatArray,
        mode: Mode,
    ) -> None:
        target = np.ix_(rows, group.columns)

        def of(values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
            return [values[np.ix_(rows, kind)] for kind in group.kinds]

        def combined(values: FloatArray) -> tuple[FloatArray, FloatArray]:
            return combine(of(values), group.counts, mode=mode, samples=samples)

        step_time_s, rate = combined(table.time_s)
        self._floats["step_time_s"][target] = step_time_s
        self._floats["samples_per_second"][target] = rate
        self._floats["low"][target] = combined(table.high_s)[1]
        self._floats["high"][target] = combined(table.low_s)[1]
        room, peak = np.stack(of(table.room_bytes)), np.stack(of(table.peak_bytes))
        tightest = np.argmin(room, axis=0, keepdims=True)
        self._floats["peak_bytes"][target] = np.take_along_axis(peak, tightest, axis=0)[0]
        self._fits[target] = room.min(axis=0) >= 0
        self._out[target] = np.any(of(table.out_of_distribution), axis=0)
        rung = np.max(of(table.rung), axis=0)
        several = np.sum(group.counts, axis=0) > 1
        self._basis[target] = np.where(several, np.maximum(rung, RUNG[Basis.ANALYTICAL]), rung)

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by their names in :class:`MatrixEstimate`."""
        answered = np.isfinite(self._floats["samples_per_second"])
        return {
            **self._floats,
            "basis": np.where(answered, self._basis, np.int8(-1)),
            "out_of_distribution": self._out & answered,
            "fits": self._fits & answered,
            "answered": answered,
        }


def _spread_errors(
    errors: _CellErrors, resolved: Sequence[ResolvedPlacement | None]
) -> list[CellError]:
    """Return a failed prediction once for each cell that needed it."""
    return [
        CellError(job=row, placement=column, error=error)
        for (row, name), error in errors.items()
        for column, placement in enumerate(resolved)
        if placement and any(a.name == name for a in placement.accelerators)
    ]


def _warnings(
    prepared: Sequence[PreparedJob | None],
    resolved: Sequence[ResolvedPlacement | None],
    predictions: Sequence[StepPrediction],
    columns: _Columns,
) -> tuple[str, ...]:
    arrays = columns.arrays()
    said = dict.fromkeys(text for p in predictions for text in p.warnings)
    said.update(dict.fromkeys(text for p in resolved if p for text in p.warnings))
    said.update(dict.fromkeys(text for p in prepared if p for text in p.warnings))
    if np.any(arrays["answered"] & ~arrays["fits"]):
        said[NO_ROOM_WARNING] = None
    return tuple(said)


def basis_names(basis: npt.NDArray[np.int8]) -> list[list[str | None]]:
    """Return the rungs of a matrix by name, None where there is no answer."""
    names: list[str | None] = [rung.value for rung in LADDER]
    names.append(None)  # position -1
    return [[names[rung] for rung in row] for row in basis.tolist()]

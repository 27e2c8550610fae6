"""Every pair of some jobs and some placements, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.errors import PerfModelError
from perfmodel.estimator.answer import LADDER, NO_ROOM_WARNING
from perfmodel.estimator.companions import Companions
from perfmodel.estimator.matrix_columns import Cells, MatrixColumns
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.observed import ObservedJob
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.topology import Placement

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
    compute_time_s, sync_time_s : ndarray
        The parts of the step that compute and that synchronise, as those of a single answer; they
        may overlap. NaN where there is no answer.
    basis : ndarray of int
        Position on the ladder of evidence, -1 where there is no answer.
    coverage : float or None
        Of the intervals; the least over all cells, None where none was answered.
    unpriced_operators : tuple
        For each job its operators without a cost formula, None where the job has no graph.
    warnings : tuple of str
        Each text once, whichever cell it belongs to.
    """

    samples_per_second: FloatArray
    low: FloatArray
    high: FloatArray
    step_time_s: FloatArray
    compute_time_s: FloatArray
    sync_time_s: FloatArray
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


def fill_matrix(
    estimator: Estimator,
    jobs: Sequence[Job | PerfModelError],
    placements: Sequence[Placement | PerfModelError],
    observations: Mapping[int, Sequence[Observation]] = MappingProxyType({}),
    companions: Companions | None = None,
) -> MatrixEstimate:
    """Answer every pair; what is bad about one job or placement stays with it.

    Parameters
    ----------
    jobs, placements : sequence
        An error in place of a job or a placement is carried into the answer.
    observations : mapping of int to sequence of Observation
        Measured steps by the position of their job; they count for the other jobs too.
    companions : Companions or None
        Observed steps of more jobs.
    """
    opaque = {i: j for i, j in enumerate(jobs) if isinstance(j, Job) and j.job_type is not None}
    prepared, job_errors = _attempt(
        lambda job: None if getattr(job, "job_type", None) else estimator.prepare(job), jobs
    )
    resolved, placement_errors = _attempt(estimator.resolve, placements)
    accelerators = {a.name: a for r in resolved if r for a in r.accelerators}
    predictions, cell_errors = _predict(estimator, prepared, list(accelerators.values()))
    others = _beside(estimator, jobs, observations, companions)
    observed, observed_errors = _observed(estimator, prepared, observations, others)
    columns = MatrixColumns(prepared, resolved, predictions, observed)
    columns.fill_plain()
    of_types, type_errors = _fill_types(estimator, columns, opaque, resolved, observations, others)
    refused = columns.fill_special(estimator.placed)
    known = list(predictions.values())
    coverages = [p.coverage for p in known] + [one.throughput.coverage for one in of_types]
    versions = [p.model_version for p in known] + [one.model_version for one in of_types]
    bad_jobs = job_errors + observed_errors + type_errors
    arrays = columns.arrays()
    return MatrixEstimate(
        **arrays,
        coverage=min(coverages, default=None),
        model_version=next(iter(versions), None),
        unpriced_operators=tuple(p and dict(p.step.unpriced_operators) for p in prepared),
        errors=(
            *(CellError(job=i, placement=None, error=e) for i, e in bad_jobs),
            *(CellError(job=None, placement=i, error=e) for i, e in placement_errors),
            *_spread_errors(cell_errors, resolved),
            *(CellError(job=i, placement=j, error=e) for i, j, e in refused),
        ),
        warnings=_warnings(prepared, resolved, known, columns.said, arrays),
    )


def _fill_types(
    estimator: Estimator,
    columns: MatrixColumns,
    jobs: Mapping[int, Job],
    resolved: Sequence[ResolvedPlacement | None],
    observations: Mapping[int, Sequence[Observation]],
    companions: Companions | None,
) -> tuple[list[Estimate], list[tuple[int, PerfModelError]]]:
    """Fill the rows of jobs that are known by their type alone; return an answer of each."""
    positions = [column for column, placement in enumerate(resolved) if placement is not None]
    asked = [placement for placement in resolved if placement is not None]
    found: list[Estimate] = []
    errors: list[tuple[int, PerfModelError]] = []
    for row, job in jobs.items() if asked else ():
        try:
            opaque = estimator.opaque(job, observations.get(row, ()), companions)
            answers = estimator.answer_type(opaque, asked)
        except PerfModelError as error:
            errors.append((row, error))
            continue
        columns.fill_row(row, positions, answers)
        found.append(answers[0])
    return found, errors


def _beside(
    estimator: Estimator,
    jobs: Sequence[Job | PerfModelError],
    observations: Mapping[int, Sequence[Observation]],
    companions: Companions | None,
) -> Companions | None:
    """Return what every job may learn from: the observations of all rows, with their jobs."""
    seen = [
        one if one.job is not None else replace(one, job=job)
        for row, job in enumerate(jobs)
        if isinstance(job, Job)
        for one in observations.get(row, ())
    ]
    if not seen:
        return companions
    return (companions or Companions(estimator, ())).with_others(seen)


def _observed(
    estimator: Estimator,
    prepared: list[PreparedJob | None],
    observations: Mapping[int, Sequence[Observation]],
    companions: Companions | None,
) -> tuple[dict[int, ObservedJob], list[tuple[int, PerfModelError]]]:
    """Calibrate the jobs that were observed; one with a bad observation is not answered."""
    found: dict[int, ObservedJob] = {}
    errors: list[tuple[int, PerfModelError]] = []
    for row, job in enumerate(prepared):
        seen = observations.get(row, ())
        if job is None or not (seen or companions):
            continue
        try:
            found[row] = ObservedJob.of(estimator, job, seen, companions)
        except PerfModelError as error:
            errors.append((row, error))
            prepared[row] = None
    return found, errors


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


_CellErrors = dict[tuple[int, str], PerfModelError]


def _predict(
    estimator: Estimator,
    prepared: Sequence[PreparedJob | None],
    accelerators: Sequence[AcceleratorSpec],
) -> tuple[Cells, _CellErrors]:
    """Predict all pairs in one call; if the call fails, each alone to find the bad ones."""
    keys = [(row, a.name) for row, p in enumerate(prepared) if p for a in accelerators]
    pairs = [(p, a) for p in prepared if p for a in accelerators]
    try:
        return dict(zip(keys, estimator.predictions(pairs), strict=True)), {}
    except (PerfModelError, ArithmeticError):
        cells: Cells = {}
        errors: _CellErrors = {}
        for key, pair in zip(keys, pairs, strict=True):
            try:
                cells[key] = estimator.predictions([pair])[0]
            except PerfModelError as error:
                errors[key] = error
            except ArithmeticError as error:
                errors[key] = PerfModelError(str(error))
        return cells, errors


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
    of_cells: Mapping[str, None],
    arrays: Mapping[str, Any],
) -> tuple[str, ...]:
    said = dict.fromkeys(text for p in predictions for text in p.warnings)
    said.update(dict.fromkeys(text for p in resolved if p for text in p.warnings))
    said.update(dict.fromkeys(text for p in prepared if p for text in p.warnings))
    said.update(of_cells)
    if np.any(arrays["answered"] & ~arrays["fits"]):
        said[NO_ROOM_WARNING] = None
    return tuple(said)


def basis_names(basis: npt.NDArray[np.int8]) -> list[list[str | None]]:
    """Return the rungs of a matrix by name, None where there is no answer."""
    names: list[str | None] = [rung.value for rung in LADDER]
    names.append(None)  # position -1
    return [[names[rung] for rung in row] for row in basis.tolist()]

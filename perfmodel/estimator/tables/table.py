"""Every pair of some jobs and some placements: the table that all answers are read off.

Rows and columns are prepared, predicted, and calibrated before a table is filled; a bad one fails
alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_job import ObservedJob, observed_job
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.evidence.told_jobs import ToldJobs
from perfmodel.estimator.jobs.capture_terms import go_on
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.job_types.job_type_cells import has_accelerators
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import LADDER


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
class Table:
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
    out_of_distribution, fits, answered : ndarray of bool
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


#: A row of a table that is asked for: a job, one that is prepared, or what is wrong with it.
AskedJob = Job | PreparedJob | PerfModelError

#: Columns of numbers of a :class:`Table`.
NUMBERS = (
    "samples_per_second", "low", "high", "step_time_s", "compute_time_s", "sync_time_s",
    "peak_bytes",
)  # fmt: skip


def basis_names(basis: npt.NDArray[np.int8]) -> list[list[str | None]]:
    """Return the rungs of a table by name, None where there is no answer."""
    names: list[str | None] = [rung.value for rung in LADDER]
    names.append(None)  # position -1
    return [[names[rung] for rung in row] for row in basis.tolist()]


#: What is wrong with rows or columns, by their positions.
Errors = list[tuple[int, PerfModelError]]
#: What is wrong with predictions, by the row and the name of the accelerator.
CellErrors = dict[tuple[int, str], PerfModelError]


def told_by(
    core: Core,
    jobs: Sequence[Job | PerfModelError],
    observations: Mapping[int, Sequence[Observation]],
) -> ToldJobs | None:
    """Return the observed steps that whoever asks tells, with their jobs."""
    seen = [
        one if one.job is not None else replace(one, job=job)
        for row, job in enumerate(jobs)
        if isinstance(job, Job)
        for one in observations.get(row, ())
        if not one.reporter
    ]
    return ToldJobs(core, seen) if seen else None


def observed_by_row(
    core: Core,
    prepared: list[PreparedJob | None],
    observations: Mapping[int, Sequence[Observation]],
    strangers: Strangers | None,
    told: ToldJobs | None,
) -> tuple[dict[int, ObservedJob], Errors]:
    """Calibrate the jobs that were observed; one with a bad observation is not answered."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, job in enumerate(prepared):
        if job is not None:
            rows[job.family].append(row)
    found: dict[int, ObservedJob] = {}
    errors: Errors = []
    of_job = partial(observed_job, core, strangers=strangers, told=told)
    for family in rows.values():
        go_on()
        try:
            found |= _of_family(of_job, prepared, family, _seen_of(observations, family))
        except PerfModelError:
            bad = dict(_bad_rows(of_job, prepared, observations, family))
            errors += bad.items()
            good = [row for row in family if row not in bad]
            found |= _of_family(of_job, prepared, good, _seen_of(observations, good))
    for row, _ in errors:
        prepared[row] = None
    return found, errors


def _seen_of(
    observations: Mapping[int, Sequence[Observation]], rows: Sequence[int]
) -> tuple[Observation, ...]:
    """Return what was observed of a job, which its batches share: each observation once."""
    return tuple(_once(observations.get(row, ()) for row in rows).values())


def _once(of_rows: Iterable[Sequence[Observation]]) -> dict[object, Observation]:
    """Return observations of rows, each once: what is told with several rows was measured once.

    Equal ones that are told with one row were measured as often.
    """
    found: dict[object, Observation] = {}
    for seen in of_rows:
        times: Counter[object] = Counter()
        for one in seen:
            # Stored ones are the same objects for all rows.
            key: object = id(one)
            if not one.reporter:
                content = one.content
                key = content, times[content]
                times[content] += 1
            found.setdefault(key, one)
    return found


def seen_by_type(
    core: Core, jobs: Mapping[int, Job], observations: Mapping[int, Sequence[Observation]]
) -> dict[int, tuple[Observation, ...]]:
    """Return what was observed of job types: of its own row, and what is good of other batches."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, job in jobs.items():
        rows[job.family].append(row)
    good = {
        row: [one for one in seen if has_accelerators(core.accelerators, one.placement)]
        for row, seen in observations.items()
    }
    found = {}
    for family in rows.values():
        shared = _once(good.get(row, ()) for row in family)
        for row in family:
            found[row] = tuple((_once([observations.get(row, ())]) | shared).values())
    return found


#: Calibrates a job by what was observed of it.
_OfJob = Callable[[PreparedJob, Sequence[Observation]], ObservedJob | None]


def _of_family(
    of_job: _OfJob,
    prepared: Sequence[PreparedJob | None],
    rows: Sequence[int],
    seen: Sequence[Observation],
) -> dict[int, ObservedJob]:
    """Return what was observed of a family; rows that are said to be other things differ."""
    found: dict[bool | None, ObservedJob | None] = {}
    of_rows = {row: job for row in rows if (job := prepared[row]) is not None}
    for job in of_rows.values():
        if job.job.script not in found:
            found[job.job.script] = of_job(job, seen)
    each = {row: found[job.job.script] for row, job in of_rows.items()}
    return {row: one for row, one in each.items() if one is not None}


def _bad_rows(
    of_job: _OfJob,
    prepared: Sequence[PreparedJob | None],
    observations: Mapping[int, Sequence[Observation]],
    rows: Sequence[int],
) -> Errors:
    """Return the rows of which something cannot have been observed."""
    jobs = {row: job for row in rows if (job := prepared[row]) and observations.get(row)}
    _, errors = attempt(lambda row: of_job(jobs[row], observations[row]), list(jobs))
    return [(list(jobs)[at], error) for at, error in errors]


def attempt(action: Callable[[Any], Any], inputs: Sequence[Any]) -> tuple[list[Any], Errors]:
    """Do something with each input; returns None for those that are bad, with why they are."""
    results: list[Any] = []
    errors: Errors = []
    for position, item in enumerate(inputs):
        go_on()
        result = None
        try:
            if isinstance(item, PerfModelError):
                raise item
            result = action(item)
        except PerfModelError as error:
            # A traceback holds all that was at hand where it was raised.
            errors.append((position, error.with_traceback(None)))
        results.append(result)
    return results, errors


def predict(
    core: Core,
    prepared: Sequence[PreparedJob | None],
    accelerators: Sequence[AcceleratorSpec],
) -> tuple[list[dict[str, Prediction]], CellErrors]:
    """Predict all pairs in one call; if the call fails, each alone to find the bad ones."""
    found: list[dict[str, Prediction]] = [{} for _ in prepared]
    keys = [(row, a.name) for row, p in enumerate(prepared) if p for a in accelerators]
    pairs = [(p, a) for p in prepared if p for a in accelerators]
    errors: CellErrors = {}
    try:
        for (row, name), one in zip(keys, core.predictions(pairs), strict=True):
            found[row][name] = one
    except (PerfModelError, ArithmeticError):
        for (row, name), pair in zip(keys, pairs, strict=True):
            try:
                found[row][name] = core.predictions([pair])[0]
            except PerfModelError as error:
                errors[row, name] = error
            except ArithmeticError as error:
                errors[row, name] = PerfModelError(str(error))
    return found, errors


def spread_errors(
    errors: CellErrors, resolved: Sequence[ResolvedPlacement | None]
) -> list[CellError]:
    """Return a failed prediction once for each cell that needed it."""
    return [
        CellError(job=row, placement=column, error=error)
        for (row, name), error in errors.items()
        for column, placement in enumerate(resolved)
        if placement and any(a.name == name for a in placement.accelerators)
    ]

"""Fill a table: blocks of equal replicas, job types, and all other cells one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.errors import PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed import Correction
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.evidence.told_jobs import ToldJobs
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.estimator.job_types.job_type_answers import type_estimate, type_steps
from perfmodel.estimator.jobs.capture_terms import go_on
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cell, CellStep, Steps
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.memory import NO_BOUNDS, replica_memory, tightest_memory
from perfmodel.estimator.placing.placed import captured_step, predicted_cell
from perfmodel.estimator.placing.replicas import Predictions, replicated_steps
from perfmodel.estimator.placing.slowdowns import Neighbours, neighbours
from perfmodel.estimator.placing.split_replica import is_carried_in_parts
from perfmodel.estimator.tables.estimates import NO_ROOM_WARNING, estimate_of
from perfmodel.estimator.tables.table import (
    NUMBERS,
    AskedJob,
    CellError,
    Errors,
    Table,
    attempt,
    observed_by_row,
    predict,
    seen_by_type,
    spread_errors,
    told_by,
)
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.topology import Placement
from perfmodel.types import RUNG, Basis, Mode


def fill(
    core: Core,
    asked: Sequence[AskedJob],
    placements: Sequence[Placement | PerfModelError],
    observations: Mapping[int, Sequence[Observation]] = MappingProxyType({}),
    strangers: Strangers | None = None,
) -> Filling:
    """Answer every pair, as :meth:`.facade.Estimator.matrix`; what is bad costs its own cells."""
    jobs = [one.job if isinstance(one, PreparedJob) else one for one in asked]
    types = {i: j for i, j in enumerate(jobs) if isinstance(j, Job) and j.job_type is not None}
    prepared, job_errors = attempt(partial(_prepared, core), asked)
    resolved, placement_errors = attempt(core.resolve, placements)
    accelerators = {a.name: a for r in resolved if r for a in r.accelerators}
    predictions, cell_errors = predict(core, prepared, list(accelerators.values()))
    told = told_by(core, jobs, observations) if observations else None
    observed: dict[int, ObservedJob] = {}
    observed_errors: Errors = []
    if observations or strangers:
        observed, observed_errors = observed_by_row(core, prepared, observations, strangers, told)
    beside, neighbour_errors = attempt(partial(_beside, core), resolved)
    filling = Filling(core, prepared, resolved, predictions, observed, beside)
    filling.fill_replicas()
    type_errors = filling.fill_types(types, observations, strangers, told) if types else []
    refused = filling.fill_others()
    filling.correct()
    bad_jobs = job_errors + observed_errors + type_errors
    errors = (
        *(CellError(job=i, placement=None, error=e) for i, e in bad_jobs),
        *(CellError(job=None, placement=i, error=e) for i, e in placement_errors),
        *(spread_errors(cell_errors, resolved) if cell_errors else ()),
        *(CellError(job=i, placement=j, error=e) for i, j, e in refused),
        *(
            CellError(job=i, placement=j, error=e)
            for i, job in enumerate(prepared)
            if job is not None or i in types
            for j, e in neighbour_errors
        ),
    )
    filling.errors = errors
    return filling


def _prepared(core: Core, asked: Job | PreparedJob) -> PreparedJob | None:
    """Return a job with its captured step; None where its type alone is known."""
    if isinstance(asked, PreparedJob):
        return asked
    return core.prepare(asked) if asked.job_type is None else None


def _beside(core: Core, placement: ResolvedPlacement | None) -> Neighbours | None:
    """Return the jobs beside the one that is asked about; None where the placement is bad."""
    if placement is None:
        return None
    return neighbours(core, placement) if placement.placement.shared_with else ()


class Filling:
    """A table while it is being filled, and its cells one by one once it is.

    Parameters
    ----------
    prepared : sequence of PreparedJob or None
        Rows; None where a job is bad, or known by its type alone.
    resolved : sequence of ResolvedPlacement or None
        Columns; None where a placement is bad.
    predictions : sequence of mapping
        Of each row on each accelerator; without those that failed.
    observed : mapping of int to ObservedJob
        Rows of which something was observed.
    beside : sequence of Neighbours or None
        Of each column; None where they cannot be answered, or the placement is bad.
    """

    def __init__(
        self,
        core: Core,
        prepared: Sequence[PreparedJob | None],
        resolved: Sequence[ResolvedPlacement | None],
        predictions: Sequence[Predictions],
        observed: Mapping[int, ObservedJob],
        beside: Sequence[Neighbours | None],
    ) -> None:
        self._core, self._prepared, self.resolved = core, prepared, resolved
        self._predictions, self.observed, self._beside = predictions, observed, beside
        self._bounds = {row: one.bounds for row, one in observed.items()}
        shape = (len(prepared), len(resolved))
        self._numbers = {name: np.full(shape, np.nan) for name in NUMBERS}
        self._rung = np.full(shape, -1, dtype=np.int8)
        self._out = np.zeros(shape, dtype=np.bool_)
        self._fits = np.zeros(shape, dtype=np.bool_)
        #: What was said of single cells, each text once.
        self._said: dict[str, None] = {}
        self._types: dict[int, ObservedJobType] = {}
        #: Why rows, columns and cells have no answer.
        self.errors: tuple[CellError, ...] = ()
        #: Rows and columns that were answered together, with their steps.
        self._blocks: list[tuple[list[int], list[int], Steps]] = []
        self._correction: Correction | None = None

    # -- equal replicas on whole accelerators: many at a time -----------------------------------

    def fill_replicas(self) -> None:
        """Answer the columns of whole accelerators in data parallel."""
        by_column: dict[tuple[int, int], list[int]] = defaultdict(list)
        for column, placement in enumerate(self.resolved):
            if placement is not None and placement.is_plain:
                by_column[len(placement.kinds), placement.fabric.plan.zero_stage].append(column)
        by_row: dict[tuple[Mode, int], list[int]] = defaultdict(list)
        for row, job in enumerate(self._prepared):
            if job is not None and job.is_usual:
                by_row[job.job.mode, job.job.accumulation_steps].append(row)
        for rows in by_row.values():
            jobs = [job for row in rows if (job := self._prepared[row]) is not None]
            predictions = [self._predictions[row] for row in rows]
            for _, columns in sorted(by_column.items()):
                go_on()
                replicas = ReplicaColumns.of([one for at in columns if (one := self.resolved[at])])
                steps = replicated_steps(jobs, predictions, replicas)
                self._put(rows, columns, jobs, steps, replicas)
                for row, job in zip(rows, jobs, strict=True):
                    bounds = self._bounds.get(row, NO_BOUNDS)
                    peak_bytes, fits = replica_memory(job, replicas, bounds)
                    self._numbers["peak_bytes"][row, columns] = peak_bytes
                    self._fits[row, columns] = fits

    def _put(
        self,
        rows: list[int],
        columns: list[int],
        jobs: Sequence[PreparedJob],
        steps: Steps,
        replicas: ReplicaColumns | None = None,
    ) -> None:
        """Take steps of captured jobs in, and note what observations change of them."""
        placements = [one for at in columns if (one := self.resolved[at])]
        observed = [self.observed.get(row) for row in rows]
        if any(observed) or any(job.job.script for job in jobs):
            self._correction = self._correction or Correction()
            replicas = replicas or ReplicaColumns.of(placements)
            steps = self._correction.add(jobs, replicas, steps, observed)
        # Which cells lie outside of what the model has seen.
        outside = [
            {n for n, p in self._predictions[row].items() if p.out_of_distribution} for row in rows
        ]
        self._out[np.ix_(rows, columns)] = [
            [any(spec.name in row for spec in one.accelerators) for one in placements]
            for row in outside
        ]
        self._blocks.append((rows, columns, steps))

    def correct(self) -> None:
        """Let observations change all cells of captured jobs, and fill the table with them."""
        if self._correction is not None:
            self._correction.apply()
        for rows, columns, steps in self._blocks:
            if rows[0] in self._types:
                continue
            target = np.ix_(rows, columns)
            self._put_steps(target, steps)
            rung = np.broadcast_to(steps.rung, steps.samples_per_second.shape)
            # What was observed beside its neighbours had room beside them.
            self._fits[target] |= rung == RUNG[Basis.MEASURED]
            self._out[target] &= rung > RUNG[Basis.CALIBRATED]
            self._said |= dict.fromkeys(text for texts in steps.said.values() for text in texts)
            if self.observed:
                self._refuse(rows, columns)

    def _refuse(self, rows: list[int], columns: list[int]) -> None:
        """Refuse cells by what ran out of memory."""
        for row in rows:
            observed, prepared = self.observed.get(row), self._prepared[row]
            if observed is None or prepared is None or not observed.tight:
                continue
            for column in columns:
                placement = self.resolved[column]
                assert placement is not None
                if observed.refuses(prepared, placement):
                    self._fits[row, column] = False
                    self._said[RAN_OUT_WARNING] = None

    def _put_steps(self, target: Any, steps: Steps) -> None:
        shape = steps.samples_per_second.shape
        for name, values in (
            ("samples_per_second", steps.samples_per_second),
            ("low", steps.low),
            ("high", steps.high),
            ("step_time_s", steps.step_time_s),
            ("compute_time_s", steps.parts.compute_s),
            ("sync_time_s", steps.parts.communication_s),
        ):
            self._numbers[name][target] = np.broadcast_to(values, shape)
        self._rung[target] = steps.rung

    # -- job types, and everything else ---------------------------------------------------------

    def fill_types(
        self,
        jobs: Mapping[int, Job],
        observations: Mapping[int, Sequence[Observation]],
        strangers: Strangers | None,
        told: ToldJobs | None,
    ) -> Errors:
        """Fill the rows of jobs that are known by their type alone; return those that are bad."""
        asked = [
            (column, placement, beside)
            for column, (placement, beside) in enumerate(
                zip(self.resolved, self._beside, strict=True)
            )
            if placement is not None and beside is not None
        ]
        columns = [column for column, _, _ in asked]
        placements, beside = [one for _, one, _ in asked], [one for *_, one in asked]
        errors: Errors = []
        seen = seen_by_type(self._core, jobs, observations)
        for row, job in jobs.items() if asked else ():
            go_on()
            try:
                of_type = ObservedJobType.of(self._core, job, seen[row], strangers, told)
                steps = type_steps(of_type, placements, beside)
            except PerfModelError as error:
                errors.append((row, error))
                continue
            self._types[row] = of_type
            self._put_steps(np.ix_([row], columns), steps)
            self._blocks.append(([row], columns, steps))
            for column in columns:
                estimate = self.estimate(row, column)
                self._said |= dict.fromkeys(estimate.warnings)
                # A memory that is not known is no reason to keep a job away.
                self._fits[row, column] = estimate.memory.fits is not False
                self._out[row, column] = estimate.out_of_distribution
        return errors

    def fill_others(self) -> list[tuple[int, int, PerfModelError]]:
        """Answer all other cells, each by itself; what is observed of a job changes them together.

        Returns
        -------
        list of (row, column, error)
            Cells that cannot be answered.
        """
        refused = []
        for row, job in enumerate(self._prepared):
            if job is None:
                continue
            bounds = self._bounds.get(row, NO_BOUNDS)
            # By what replicas share out.
            found: dict[int, dict[int, CellStep]] = defaultdict(dict)
            for column, placement in enumerate(self.resolved):
                beside = self._beside[column]
                if placement is None or beside is None or (placement.is_plain and job.is_usual):
                    continue
                known = [self._predictions[row].get(a.name) for a in placement.accelerators]
                predictions = [one for one in known if one is not None]
                if len(predictions) < len(known):
                    continue
                go_on()
                try:
                    cell = Cell(job, placement, predictions, beside)
                    if is_carried_in_parts(job, placement):
                        cell = predicted_cell(self._core, job, placement)
                    step = captured_step(cell)
                    memory = tightest_memory(job, placement, step.neighbour_bytes, bounds)
                except PerfModelError as error:
                    refused.append((row, column, error))
                    continue
                found[placement.fabric.plan.zero_stage][column] = step
                self._numbers["peak_bytes"][row, column] = memory.peak_bytes
                self._fits[row, column] = memory.fits
            for cells in found.values():
                self._put([row], [*cells], [job], Steps.row([*cells.values()]))
        return sorted(refused, key=lambda one: one[1])

    # -- the table ------------------------------------------------------------------------------

    def job(self, row: int) -> PreparedJob | ObservedJobType | None:
        """Return what is known of a job; None where it is bad."""
        return self._types.get(row, self._prepared[row])

    def estimate(self, row: int, column: int) -> Estimate:
        """Return one cell with all that is said of it."""
        # Cells that were answered by themselves stand over those of a block.
        rows, columns, steps = next(
            block for block in reversed(self._blocks) if row in block[0] and column in block[1]
        )
        placement, prepared = self.resolved[column], self._prepared[row]
        assert placement is not None
        step = steps.at((rows.index(row), columns.index(column)))
        if prepared is None:
            return type_estimate(self._types[row], placement, step)
        if is_carried_in_parts(prepared, placement):
            cell = predicted_cell(self._core, prepared, placement)
        else:
            known = self._predictions[row]
            cell = Cell(prepared, placement, [known[one.name] for one in placement.accelerators])
        return estimate_of(cell, step, self.observed.get(row))

    def table(self) -> Table:
        """Return what was filled, as columns."""
        answered = np.isfinite(self._numbers["samples_per_second"])
        known = [one for row in self._predictions for one in row.values()]
        column = next((at for at, one in enumerate(self._beside) if one is not None), 0)
        of_types = [self.estimate(row, column) for row in self._types]
        coverages = [p.coverage for p in known] + [one.throughput.coverage for one in of_types]
        said = dict.fromkeys(text for p in known for text in p.warnings)
        said.update(dict.fromkeys(text for p in self.resolved if p for text in p.warnings))
        said.update(dict.fromkeys(text for p in self._prepared if p for text in p.warnings))
        said.update(self._said)
        said.update(dict.fromkeys(text for one in self.observed.values() for text in one.warnings))
        if np.any(answered & ~self._fits):
            said[NO_ROOM_WARNING] = None
        versions = [p.model_version for p in known] + [one.model_version for one in of_types]
        return Table(
            **{name: np.where(answered, a, np.nan) for name, a in self._numbers.items()},
            basis=np.where(answered, self._rung, np.int8(-1)),
            out_of_distribution=self._out & answered,
            fits=self._fits & answered,
            answered=answered,
            coverage=min(coverages, default=None),
            model_version=next(iter(versions), None),
            unpriced_operators=tuple(
                None if p is None else dict(p.step.unpriced_operators) for p in self._prepared
            ),
            errors=self.errors,
            warnings=tuple(said),
        )

"""The arrays of a matrix while they are being filled: jobs along rows, placements along columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import PerfModelError
from perfmodel.estimator.answer import RUNG, basis_of, interval, tightest_memory
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.observed import DEVIATIONS, ObservedJob
from perfmodel.estimator.placed import PlacedStep, scaling_basis
from perfmodel.estimator.replicas import (
    half_width,
    replica_parts,
    throughput,
    wait_for_each_other,
)
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.estimator.weighed_steps import replica_cells
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.data_parallel.gradient_buckets import gradient_buckets
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.fabric.groups import join_groups
from perfmodel.placement.memory.memory import memory_columns
from perfmodel.placement.memory.memory_parts import MemoryPlan
from perfmodel.placement.step_parts import StepParts
from perfmodel.types import Basis, Mode

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

#: Predictions on one accelerator, by row and name of the accelerator.
Cells = dict[tuple[int, str], StepPrediction]

#: Columns of numbers, as :class:`.matrix.MatrixEstimate` has them.
_NUMBERS = (
    "samples_per_second", "low", "high", "step_time_s", "compute_time_s", "sync_time_s",
    "peak_bytes",
)  # fmt: skip

#: Rows that are corrected in one go; more take more memory and no less time.
_AT_ONCE = 32

Place = Callable[
    [PreparedJob, ResolvedPlacement, Sequence[StepPrediction]],
    PlacedStep,
]


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Rows and columns that are answered in one go."""

    rows: IntArray
    jobs: list[PreparedJob]
    columns: IntArray
    placements: list[ResolvedPlacement]
    zero_stage: int

    @property
    def target(self) -> tuple[IntArray, ...]:
        """Index of the block in the arrays."""
        return np.ix_(self.rows, self.columns)


@dataclass(frozen=True, kw_only=True)
class _Corrected:
    """Cells of a row that observations correct, as predicted without them."""

    observed: ObservedJob
    target: tuple[int, IntArray]
    cells: StepCells
    rate: FloatArray
    half_width: FloatArray


class MatrixColumns:
    """The columns of an answer.

    Parameters
    ----------
    prepared : sequence of PreparedJob or None
        Rows; None where a job is bad.
    resolved : sequence of ResolvedPlacement or None
        Columns; None where a placement is bad.
    predictions : dict
        Of every row on every accelerator; without the cells that failed.
    observed : mapping of int to ObservedJob
        Rows whose job was observed.
    """

    def __init__(
        self,
        prepared: Sequence[PreparedJob | None],
        resolved: Sequence[ResolvedPlacement | None],
        predictions: Cells,
        observed: Mapping[int, ObservedJob],
    ) -> None:
        self._prepared, self._resolved, self._predictions = prepared, resolved, predictions
        self._observed = observed
        self._single = {**predictions, **self._observed_alone()}
        #: What was said of single cells, each text once.
        self.said: dict[str, None] = {}
        shape = (len(prepared), len(resolved))
        self._floats = {name: np.full(shape, np.nan) for name in _NUMBERS}
        self._basis = np.full(shape, -1, dtype=np.int8)
        self._out = np.zeros(shape, dtype=np.bool_)
        self._fits = np.zeros(shape, dtype=np.bool_)

    # -- data parallel on whole accelerators ----------------------------------------------------

    def fill_plain(self) -> None:
        """Answer the columns of whole accelerators in data parallel, many at a time."""
        for block in self._blocks():
            self._fill_times(block)
            self._fill_memory(block)

    def _blocks(self) -> list[_Block]:
        by_column: dict[tuple[int, int], list[int]] = defaultdict(list)
        for column, placement in enumerate(self._resolved):
            if placement is not None and placement.is_plain:
                by_column[len(placement.kinds), placement.fabric.plan.zero_stage].append(column)
        by_row: dict[tuple[Mode, int], list[int]] = defaultdict(list)
        for row, job in enumerate(self._prepared):
            if job is not None and not job.has_plan_engine:
                by_row[job.job.mode, job.job.accumulation_steps].append(row)
        return [
            _Block(
                rows=np.array(rows),
                jobs=[job for row in rows if (job := self._prepared[row]) is not None],
                columns=np.array(columns),
                placements=[p for column in columns if (p := self._resolved[column]) is not None],
                zero_stage=stage,
            )
            for rows in by_row.values()
            for (_, stage), columns in sorted(by_column.items())
        ]

    def _is_plain(self, row: int, job: PreparedJob, placement: ResolvedPlacement) -> bool:
        if job.has_plan_engine or not placement.is_plain:
            return False
        return len(placement.kinds) == 1 or self._observed_on(row, placement) is None

    def _observed_on(self, row: int, placement: ResolvedPlacement | str) -> ObservedJob | None:
        observed = self._observed.get(row)
        return None if observed is None else observed.on(placement)

    def _observed_alone(self) -> Cells:
        """Return the predictions that steps on one accelerator correct before they are placed."""
        held = {p.kinds[0].held.name: p.kinds[0] for p in self._resolved if p and p.is_plain}
        found: Cells = {}
        for row in self._observed:
            job = self._prepared[row]
            for name, kind in held.items():
                on, known = self._observed_on(row, name), self._predictions.get((row, name))
                if job is not None and known is not None and on is not None and on.is_alone:
                    found[row, name] = on.single(job, [kind], [known])[0]
        return found

    def _fill_times(self, block: _Block) -> None:
        job = block.jobs[0].job
        kinds = range(len(block.placements[0].kinds))
        counts = [np.array([float(p.counts[k]) for p in block.placements]) for k in kinds]
        samples = np.array([[float(j.samples)] for j in block.jobs])
        groups = join_groups([placement.world for placement in block.placements])
        buckets = gradient_buckets([j.step.profile for j in block.jobs])
        stragglers = np.array([[j.straggler] for j in block.jobs])
        rates: dict[str, FloatArray] = {}
        for level in ("time_s", "low_s", "high_s"):
            times = [self._of(block, k, level) for k in kinds]
            parts = replica_parts(
                times, groups, buckets, mode=job.mode, zero_stage=block.zero_stage,
                accumulation_steps=job.accumulation_steps, straggler=stragglers,
            )  # fmt: skip
            rates[level] = throughput(
                times, counts, parts.step_time_s, mode=job.mode, samples=samples,
                zero_stage=block.zero_stage,
            )  # fmt: skip
            if level == "time_s":
                middle = parts
                several = np.array([p.count > 1 for p in block.placements])
                waiting = wait_for_each_other(job.mode, block.zero_stage)
                wide = half_width(parts, several & waiting)
                self._put_parts(block.target, middle)
        low, high = interval(rates["time_s"], rates["low_s"], rates["high_s"], wide)
        self._floats["samples_per_second"][block.target] = rates["time_s"]
        self._floats["low"][block.target], self._floats["high"][block.target] = low, high
        self._out[block.target] = np.any([self._outside(block, k) for k in kinds], axis=0)
        rungs = np.max([self._rungs(block, k) for k in kinds], axis=0)
        least = [RUNG[scaling_basis(p)] if p.count > 1 else -1 for p in block.placements]
        self._basis[block.target] = np.maximum(rungs, np.array(least, dtype=np.int8))
        sure = np.hypot(np.log(rates["low_s"] / rates["high_s"]) / 2, wide)
        self._correct(block, middle, rates["time_s"], np.broadcast_to(sure, rates["time_s"].shape))

    def _put_parts(self, target: Any, parts: StepParts, some: slice | int = slice(None)) -> None:
        """State the time of some steps, and the parts of it that compute and that synchronise."""
        self._floats["step_time_s"][target] = parts.step_time_s[some]
        self._floats["compute_time_s"][target] = parts.compute_s[some]
        self._floats["sync_time_s"][target] = parts.communication_s[some]

    def _correct(
        self, block: _Block, parts: StepParts, rate: FloatArray, half_width: FloatArray
    ) -> None:
        """Correct the cells of a block by what was observed, row by row."""
        if len(block.placements[0].kinds) > 1:
            return
        names = np.array([placement.kinds[0].held.name for placement in block.placements])
        machines = [(name, np.flatnonzero(names == name)) for name in dict.fromkeys(names.tolist())]
        # Jobs that were not observed themselves share a calibration: many are corrected at once.
        shared: dict[int, list[_Corrected]] = defaultdict(list)
        for at, row in enumerate(block.rows.tolist()):
            for name, columns in machines:
                on = self._observed_on(row, name)
                if on is None or on.is_alone or on.calibration is None:
                    continue
                chosen = columns[np.isfinite(rate[at, columns])]
                if len(chosen):
                    placements = [block.placements[i] for i in chosen]
                    cells = replica_cells(block.jobs[at], placements, _some(parts, at, chosen))
                    one = _Corrected(
                        observed=on, target=(row, block.columns[chosen]), cells=cells,
                        rate=rate[at, chosen], half_width=half_width[at, chosen],
                    )  # fmt: skip
                    shared[id(on.calibration)].append(one)
        for some in shared.values():
            for start in range(0, len(some), _AT_ONCE):
                self._take_over(some[start : start + _AT_ONCE])

    def _take_over(self, some: Sequence[_Corrected]) -> None:
        """Correct cells of one calibration."""
        calibration = some[0].observed.calibration
        assert calibration is not None
        found = calibration.apply(StepCells.join([one.cells for one in some]))
        ends = np.cumsum([len(one.cells) for one in some])
        for one, end in zip(some, ends.tolist(), strict=True):
            own = slice(end - len(one.cells), end)
            self._put_parts(one.target, found.parts, own)
            step_time_s = found.parts.step_time_s[own]
            rate = one.rate * one.cells.parts.step_time_s / step_time_s
            wide = np.exp(np.minimum(DEVIATIONS * found.log_sd[own], one.half_width))
            self._floats["samples_per_second"][one.target] = rate
            self._floats["low"][one.target] = rate / wide
            self._floats["high"][one.target] = rate * wide
            if one.observed.observations:
                self._basis[one.target] = RUNG[Basis.CALIBRATED]

    def _each(self, block: _Block, kind: int, of: Callable[[StepPrediction], Any]) -> list[Any]:
        """Return one fact of the predictions of a block on a kind, row by row; None where none."""
        names = [placement.kinds[kind].accelerator.name for placement in block.placements]
        found = []
        for row in block.rows.tolist():
            known = {name: self._single.get((row, name)) for name in dict.fromkeys(names)}
            facts = {name: None if p is None else of(p) for name, p in known.items()}
            found.append([facts[name] for name in names])
        return found

    def _of(self, block: _Block, kind: int, level: str) -> FloatArray:
        return np.array(self._each(block, kind, lambda p: getattr(p, level)), dtype=np.float64)

    def _outside(self, block: _Block, kind: int) -> npt.NDArray[np.bool_]:
        return np.array(self._each(block, kind, lambda p: p.out_of_distribution), dtype=np.bool_)

    def _rungs(self, block: _Block, kind: int) -> npt.NDArray[np.int8]:
        rungs = self._each(block, kind, lambda p: RUNG[p.basis])
        return np.array([[-1 if r is None else r for r in row] for row in rungs], dtype=np.int8)

    def _fill_memory(self, block: _Block) -> None:
        """State the accelerator with the least room of each placement."""
        kinds = [(c, kind.held) for c, p in enumerate(block.placements) for kind in p.kinds]
        place = np.array([c for c, _ in kinds])
        count = np.array([float(block.placements[c].count) for c, _ in kinds])
        first = np.searchsorted(place, np.arange(len(block.placements)))
        for row, job in zip(block.rows.tolist(), block.jobs, strict=True):
            plan = MemoryPlan(
                data=count, zero_stage=float(block.zero_stage),
                micro_batches=float(job.job.accumulation_steps),
            )  # fmt: skip
            memory = memory_columns(
                job.memory_profile, [spec for _, spec in kinds], job=job.job, plan=plan
            )
            room = memory.capacity_bytes - memory.peak_bytes
            order = np.lexsort((room, place))
            tightest = order[first]
            self._floats["peak_bytes"][row, block.columns] = memory.peak_bytes[tightest]
            self._fits[row, block.columns] = memory.fits[tightest]

    # -- everything else ------------------------------------------------------------------------

    def fill_special(self, place: Place) -> list[tuple[int, int, PerfModelError]]:
        """Answer all other cells one by one.

        Returns
        -------
        list of (row, column, error)
            Cells that cannot be answered.
        """
        refused = []
        for column, placement in enumerate(self._resolved):
            if placement is None:
                continue
            for row, job in enumerate(self._prepared):
                if job is None or self._is_plain(row, job, placement):
                    continue
                found = [self._predictions.get((row, a.name)) for a in placement.accelerators]
                predictions = [p for p in found if p is not None]
                if len(predictions) < len(found):
                    continue
                try:
                    self._fill_cell(row, column, job, placement, predictions, place)
                except PerfModelError as error:
                    refused.append((row, column, error))
        return refused

    def _fill_cell(
        self,
        row: int,
        column: int,
        job: PreparedJob,
        placement: ResolvedPlacement,
        predictions: Sequence[StepPrediction],
        place: Place,
    ) -> None:
        cell, observed = (row, column), self._observed_on(row, placement)
        if observed is not None and observed.is_alone:
            predictions = observed.single(job, placement.kinds, predictions)
        placed = place(job, placement, predictions)
        if observed is not None and not observed.is_alone:
            placed = observed.correct(job, placement, placed)
        self.said |= dict.fromkeys(placed.warnings)
        rate, at_low, at_high = placed.samples_per_second.tolist()
        memory = tightest_memory(job, placement, placed.neighbour_bytes)
        self._floats["samples_per_second"][cell] = rate
        low, high = interval(rate, at_low, at_high, placed.half_width)
        self._floats["low"][cell], self._floats["high"][cell] = low, high
        self._put_parts(cell, placed.parts, 0)
        self._floats["peak_bytes"][cell] = memory.peak_bytes
        self._fits[cell] = memory.fits
        self._out[cell] = any(p.out_of_distribution for p in predictions)
        rung = basis_of([p.basis for p in predictions], placed.basis)
        self._basis[cell] = RUNG[Basis.CALIBRATED if placed.calibrated else rung]

    def fill_row(self, row: int, columns: Sequence[int], estimates: Sequence[Estimate]) -> None:
        """Take over answers that were put together elsewhere."""
        for column, estimate in zip(columns, estimates, strict=True):
            cell, rate = (row, column), estimate.throughput
            self.said |= dict.fromkeys(estimate.warnings)
            self._floats["samples_per_second"][cell] = rate.samples_per_second
            self._floats["low"][cell], self._floats["high"][cell] = rate.low, rate.high
            self._floats["step_time_s"][cell] = estimate.step_time_s
            self._floats["compute_time_s"][cell] = estimate.compute_time_s
            self._floats["sync_time_s"][cell] = estimate.sync_time_s
            peak, fits = estimate.memory.peak_bytes, estimate.memory.fits
            self._floats["peak_bytes"][cell] = np.nan if peak is None else peak
            # A memory that is not known is no reason to keep a job away.
            self._fits[cell] = fits is not False
            self._out[cell] = estimate.out_of_distribution
            self._basis[cell] = RUNG[estimate.basis]

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by their names in :class:`MatrixEstimate`."""
        answered = np.isfinite(self._floats["samples_per_second"])
        floats = {name: np.where(answered, a, np.nan) for name, a in self._floats.items()}
        return {
            **floats,
            "basis": np.where(answered, self._basis, np.int8(-1)),
            "out_of_distribution": self._out & answered,
            "fits": self._fits & answered,
            "answered": answered,
        }


def _some(parts: StepParts, row: int, columns: IntArray) -> StepParts:
    """Return the parts of some cells of a row."""
    shape = np.shape(parts.step_time_s)
    return StepParts(
        **{
            one.name: np.broadcast_to(getattr(parts, one.name), shape)[row, columns]
            for one in fields(StepParts)
        }
    )

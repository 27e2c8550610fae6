"""What observed steps change in the answers of captured jobs.

Steps of the job correct its predicted step, on every placement: those of this cell, then those of
the job on these accelerators, then those on others. Of a job that is said to be a script, and of
which nothing was observed, published scripts say how much longer it takes. Steps of other jobs that
the question tells are weighed together with them, on the machine they ran on. What strangers
reported counts for other jobs of which nothing was observed, as far as they agree.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_job import ObservedJob, said_of_script, unobserved_script
from perfmodel.estimator.evidence.observed_rows import cells_at_batches, single_step, step_cells
from perfmodel.estimator.evidence.strangers import SAID, Shift, said_of_told
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cell, CellStep, Steps
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.placed import captured_step
from perfmodel.estimator.placing.replicas import interval
from perfmodel.features.arrays import IntArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import Calibration
from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps, correct_weighed
from perfmodel.placement.calibration.correcting.single_step import CalibratedStep
from perfmodel.placement.calibration.correcting.unobserved_script import UnobservedScript
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.estimate import StepNumbers, StepParts
from perfmodel.types import RUNG, Basis

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class _Piece(NamedTuple):
    """Cells of some rows that are corrected, on the same columns, as predicted otherwise.

    Parameters
    ----------
    at : tuple of ndarray
        Row and column of each cell.
    own : ndarray of bool
        Whether the job of each was observed itself.
    there : ndarray of bool
        Whether it was on the machine of the cell.
    """

    steps: Steps
    at: tuple[Places, Places]
    cells: StepCells
    laws: Sequence[Calibration]
    own: Flags
    there: Flags
    is_script: Flags


#: What turns predicted steps into those that are answered.
_Law = Calibration | UnobservedScript


class Correction:
    """Steps to be corrected: those of all jobs together, which is quicker."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    def add(
        self,
        jobs: Sequence[PreparedJob],
        columns: ReplicaColumns,
        steps: Steps,
        observed: Sequence[ObservedJob | None],
    ) -> Steps:
        """Note what changes of some steps, and return those that :meth:`apply` will change.

        They have a row for each job and a column for each placement. What is said of scripts, and
        of machines by strangers, changes them at once.
        """
        names = np.array(columns.machine)
        machines = [(name, np.flatnonzero(names == name)) for name in dict.fromkeys(names.tolist())]
        is_answered = np.isfinite(steps.samples_per_second)
        found: Steps | None = None
        alike: dict[tuple[bool, bytes], list[_Row]] = defaultdict(list)
        for row, job in enumerate(observed):
            script = unobserved_script(jobs[row].job)
            for law, shift, name, places in _says(job, script, machines):
                chosen = places[is_answered[row, places]]
                if not len(chosen):
                    continue
                found = found or _own(steps)
                if law is None:
                    _shift(found, row, chosen, shift, name)
                    continue
                alike[law is script, chosen.tobytes()].append(_Row(row, chosen, law, job))
                if script is not None and law is script:
                    for column in chosen.tolist():
                        said = said_of_script(script, columns.machine[column])
                        _say(found, (row, column), said)
        for rows in alike.values():
            assert found is not None
            piece, law = _piece(jobs, found, columns, rows), rows[0].law
            if isinstance(law, Calibration):
                self._pieces.append(piece)
            else:
                _correct(piece, law.apply(piece.cells))
        return found or steps

    def apply(self) -> None:
        """Correct all that was noted."""
        if not self._pieces:
            return
        calibrations = [one for piece in self._pieces for one in piece.laws]
        known = {id(one): one for one in calibrations}
        codes = {key: code for code, key in enumerate(known)}
        sizes = [len(piece.cells) // len(piece.laws) for piece in self._pieces for _ in piece.laws]
        found = correct_weighed(
            [one.weighed for one in known.values()],
            StepCells.join([one.cells for one in self._pieces]),
            np.repeat([codes[id(one)] for one in calibrations], sizes),
        )
        ends = np.cumsum([len(one.cells) for one in self._pieces]).tolist()
        for piece, end in zip(self._pieces, ends, strict=True):
            _correct(piece, found.take(slice(end - len(piece.cells), end)))
        self._pieces.clear()


class _Row(NamedTuple):
    """Cells of one row that rest on one law."""

    row: int
    columns: Places
    law: _Law
    job: ObservedJob | None


def _says(
    job: ObservedJob | None, script: UnobservedScript | None, machines: Sequence[tuple[str, Places]]
) -> Iterator[tuple[_Law | None, Shift, str, Places]]:
    """Return what counts for a job on some machines: a law, or else what strangers say."""
    alike: dict[int, tuple[_Law, list[Places]]] = {}
    for name, at in machines if job is not None or script is not None else ():
        # What is told of the machine, and what is said of the job, stand over strangers.
        law: _Law | None = (job and job.on(name)) or script
        if law is not None:
            alike.setdefault(id(law), (law, []))[1].append(at)
        elif job is not None and (shift := job.shift(name)).reporters:
            yield None, shift, name, at
    for law, places in alike.values():
        yield law, Shift(), "", np.concatenate(places)


def _piece(
    jobs: Sequence[PreparedJob], steps: Steps, columns: ReplicaColumns, rows: Sequence[_Row]
) -> _Piece:
    chosen = rows[0].columns
    at = np.repeat([one.row for one in rows], len(chosen)), np.tile(chosen, len(rows))
    places, jobs = columns.take(chosen), [jobs[one.row] for one in rows]
    slower = [steps.slowdowns[column] for column in chosen.tolist() if steps.slowdowns]
    return _Piece(
        steps=steps,
        at=at,
        cells=step_cells(jobs, steps.parts.take(at), places, slowdowns=slower),
        laws=[one.law for one in rows if isinstance(one.law, Calibration)],
        own=np.repeat([bool(one.job and one.job.observations) for one in rows], len(chosen)),
        there=np.array(
            [
                one.job is not None and machine in one.job.machines
                for one in rows
                for machine in places.machine
            ]
        ),
        is_script=np.repeat([bool(one.job.script) for one in jobs], len(chosen)),
    )


def _own(steps: Steps) -> Steps:
    """Return steps whose columns may be written to."""
    shape = steps.samples_per_second.shape

    def own(values: Any) -> Any:
        return np.array(np.broadcast_to(values, shape))

    return replace(
        steps,
        parts=steps.parts.each(own),
        step_time_s=own(steps.step_time_s),
        samples_per_second=own(steps.samples_per_second),
        low=own(steps.low),
        high=own(steps.high),
        half_width=own(steps.half_width),
        rung=own(steps.rung),
        said=dict(steps.said),
        efficiency=np.full(shape, np.nan),
    )


def _correct(piece: _Piece, found: CalibratedSteps) -> None:
    """Put corrected cells in the place of predicted ones."""
    steps, at, own = piece.steps, piece.at, piece.own
    longer = found.parts.step_time_s / piece.cells.parts.step_time_s
    half_width = DEVIATIONS * found.log_sd
    if not own.all():
        # What others reached makes a prediction better, not an observed one.
        before = _half_width(steps, at)
        nearer, farther = np.minimum(half_width, before), np.maximum(half_width, before)
        # A script lies at least as far off as its step, whatever is known of that.
        half_width = np.where(own, half_width, np.where(piece.is_script, farther, nearer))
    assert steps.efficiency is not None
    # A cell rests on itself, on the job there, or on the job elsewhere.
    near = np.where(piece.there, RUNG[Basis.CALIBRATED], RUNG[Basis.TRANSFERRED])
    rung = np.where(found.seen, RUNG[Basis.MEASURED], near)
    least = np.where(piece.is_script, RUNG[Basis.INTERPOLATED], steps.rung[at])
    steps.rung[at] = np.where(own, rung, np.maximum(steps.rung[at], least))
    steps.efficiency[at] = np.where(own | piece.is_script, 1 / longer, np.nan)
    _put(steps, at, found.parts, steps.samples_per_second[at] / longer, half_width)
    for place in np.flatnonzero(~own & ~piece.is_script).tolist():
        for text in said_of_told(str(piece.cells.machine[place]), float(longer[place])):
            _say(steps, (int(at[0][place]), int(at[1][place])), text)


def _shift(steps: Steps, row: int, columns: Places, shift: Shift, machine: str) -> None:
    """Move steps as far as strangers agree, and widen and name what is moved far."""
    at = (np.full(len(columns), row), columns)
    before = steps.parts.take(at)
    parts = shift.moved(before)
    moved = np.log(parts.step_time_s / before.step_time_s)
    half_width = np.hypot(_half_width(steps, at), moved)
    _put(steps, at, parts, steps.samples_per_second[at] / np.exp(moved), half_width)
    for column, factor in zip(columns.tolist(), np.exp(moved).tolist(), strict=True):
        if abs(np.log(factor)) > SAID:
            _say(steps, (row, column), shift.said(machine, factor))


def _say(steps: Steps, at: tuple[int, int], text: str) -> None:
    steps.said[at] = (*steps.said.get(at, ()), text)


def _half_width(steps: Steps, at: tuple[Places, Places]) -> npt.NDArray[np.float64]:
    """Return the half width of whole intervals, in logarithms."""
    return np.asarray(np.log(steps.high[at] / steps.low[at]) / 2)


def _put(
    steps: Steps,
    at: tuple[Places, Places],
    parts: StepParts,
    rate: npt.NDArray[np.float64],
    half_width: npt.NDArray[np.float64],
) -> None:
    steps.step_time_s[at], steps.samples_per_second[at] = parts.step_time_s, rate
    steps.low[at], steps.high[at] = interval(rate, rate, rate, half_width)
    steps.half_width[at] = half_width
    for one in fields(StepParts):
        getattr(steps.parts, one.name)[at] = getattr(parts, one.name)


def corrected_step(cell: Cell, observed: ObservedJob | None) -> CellStep:
    """Return the step of a captured job as what was observed lets it appear."""
    step, job, machine = captured_step(cell), cell.prepared.job, cell.placement.machine
    if job.script and not (observed and observed.observations):
        return corrected_in_columns(cell, step, observed)
    if observed is None:
        return step
    calibration = observed.on(machine)
    if calibration is None:
        shift = observed.shift(machine)
        return _shifted(step, shift, machine) if shift.reporters else step
    asked = single_step(cell.prepared, step.parts, cell.placement, step.slowdowns)
    found = calibration.single_steps.correct(asked)
    if found is not None:
        return _corrected(step, found, observed, machine)
    key = cell.prepared.key, cell.placement
    measured = observed.measured.get(key)
    if measured is None:
        measured = corrected_in_columns(cell, step, observed)
        observed.measured.put(key, measured)
    return measured


def corrected_at_batches(
    core: Core,
    captured: Sequence[PreparedJob],
    observed: ObservedJob | None,
    placements: Iterable[ResolvedPlacement],
    parts: StepParts,
    *,
    batch_size: IntArray,
    micro_batches: IntArray,
) -> StepParts:
    """Return steps of one job at many batches as all that is known lets them appear.

    Parameters
    ----------
    captured, placements, parts, batch_size, micro_batches
        As for :func:`.cells_at_batches`; the parts are those of a bare step.
    """
    script = unobserved_script(captured[0].job)
    if observed is None and script is None:
        return parts
    cells = cells_at_batches(
        core, captured, [*placements], parts, batch_size=batch_size, micro_batches=micro_batches
    )
    everywhere = [(str(cells.machine[0]), np.arange(len(cells)))]
    for law, shift, _, _ in _says(observed, script, everywhere):
        return shift.moved(parts) if law is None else law.apply(cells).parts
    return parts


def corrected_in_columns(cell: Cell, step: CellStep, observed: ObservedJob | None) -> CellStep:
    """Return a corrected step, worked out as those of tables are."""
    columns, correction = ReplicaColumns.of([cell.placement]), Correction()
    steps = correction.add([cell.prepared], columns, Steps.row([step]), [observed])
    correction.apply()
    return steps.at((0, 0))


def _corrected(
    step: CellStep, found: CalibratedStep, observed: ObservedJob, machine: str
) -> CellStep:
    """Return a step that was not observed itself with what was found in its place."""
    longer = found.parts.step_time_s / step.step_time_s
    rate, half_width = step.samples_per_second / longer, DEVIATIONS * found.log_sd
    basis, efficiency = step.basis, None
    said: tuple[str, ...] = ()
    if observed.observations:
        basis = Basis.CALIBRATED if machine in observed.machines else Basis.TRANSFERRED
        efficiency = 1 / longer
    else:
        # What others reached makes a prediction better, not an observed one.
        half_width = min(half_width, math.log(step.high / step.low) / 2)
        said = said_of_told(machine, longer)
    return _moved(
        step, found.parts, rate, half_width, basis=basis, efficiency=efficiency, said=said
    )


def _shifted(step: CellStep, shift: Shift, machine: str) -> CellStep:
    """Return a step moved as far as strangers agree; as :func:`_shift`, on plain numbers."""
    parts = shift.moved(step.parts)
    factor = parts.step_time_s / step.parts.step_time_s
    moved = math.log(factor)
    half_width = math.hypot(math.log(step.high / step.low) / 2, moved)
    said = (shift.said(machine, factor),) if abs(moved) > SAID else ()
    rate = step.samples_per_second / factor
    return _moved(step, parts, rate, half_width, basis=step.basis, said=said)


def _moved(
    step: CellStep,
    parts: StepNumbers,
    rate: float,
    half_width: float,
    *,
    basis: Basis,
    efficiency: float | None = None,
    said: tuple[str, ...] = (),
) -> CellStep:
    return step._replace(
        parts=parts, step_time_s=parts.step_time_s, samples_per_second=rate,
        low=rate * math.exp(-half_width), high=rate * math.exp(half_width), half_width=half_width,
        basis=basis, warnings=(*step.warnings, *said), efficiency=efficiency,
    )  # fmt: skip

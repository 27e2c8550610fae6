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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_rows import (
    OBSERVED_JOB,
    cells_of_jobs,
    single_step,
    weighed_cells,
    weighed_steps,
)
from perfmodel.estimator.evidence.said_scripts import prior_of, said_of_script, unobserved_script
from perfmodel.estimator.evidence.strangers import Shift, Strangers
from perfmodel.estimator.evidence.told_jobs import ToldJobs
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cells, CellStep, Steps, StepSource, interval
from perfmodel.estimator.placing.columns import ReplicaColumns, machine_word
from perfmodel.estimator.placing.placed import CAPTURED
from perfmodel.graph.job_identity import job_family
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.corrected import CalibratedSteps, correct
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.single_step import CalibratedStep
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.unobserved_script import UnobservedScript
from perfmodel.placement.step_parts import StepNumbers, StepParts
from perfmodel.types import RUNG, Basis

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Steps that strangers move by more, in logarithms, are said to be.
_SAID = float(np.log(1.1))


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """A job with what its observed steps, and those of other jobs, say.

    Parameters
    ----------
    calibration : Calibration or None
        Of its own steps; None where none was observed.
    observations : tuple of Observation
        Of the job itself.
    family : str
        Of the job.
    machines : frozenset of str
        Where it was observed; from :func:`.machine_word`.
    told : ToldJobs or None
        Observed steps of other jobs that whoever asks tells.
    strangers : Strangers or None
        What anybody reported of other jobs.
    prior : ResidualPrior
        What is believed of the job before it is observed.
    """

    calibration: Calibration | None
    observations: tuple[Observation, ...]
    family: str = ""
    machines: frozenset[str] = frozenset()
    told: ToldJobs | None = None
    strangers: Strangers | None = None
    prior: ResidualPrior = field(default_factory=fitted_prior)
    _on: dict[str, Calibration | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        core: Core,
        prepared: PreparedJob,
        observations: Sequence[Observation],
        strangers: Strangers | None = None,
        told: ToldJobs | None = None,
    ) -> Self:
        """Calibrate a job.

        Parameters
        ----------
        observations : sequence of Observation
            Of the job; those that name another one join what is told.
        strangers : Strangers or None
            Stored observations of any jobs; those of this one do not count.
        told : ToldJobs or None
            Of any jobs; those of this one do not count.

        Raises
        ------
        InvalidInputError
            An observation that cannot be answered, with a pointer to it.
        """
        family = job_family(prepared.job)
        # What was observed is read by what the job is said to be.
        said = f"{family} {prepared.job.script}"
        key = (said, tuple(map(id, observations)))
        known: _Weighed | None = core.evidence.get(key)
        if known is None:
            known = _weighed(core, prepared, observations, family)
            if all(one.reporter for one in observations):
                # Stored ones come again, as they are kept or as this returns them; others do not.
                core.evidence.put(key, known)
                core.evidence.put((said, tuple(map(id, known.own))), known)
        if known.of_others:
            told = (told or ToldJobs(core, ())).with_others(known.of_others)
        return cls(
            calibration=known.calibration,
            observations=known.own,
            family=family,
            machines=known.machines,
            told=told or None,
            strangers=strangers or None,
            prior=prior_of(prepared.job),
        )

    def on(self, machine: str) -> Calibration | None:
        """Return what counts on a machine, by its word; None where nothing does.

        What strangers say does not: see :meth:`shift`.
        """
        if self.told is None:
            return self.calibration
        if machine not in self._on:
            self._on[machine] = self._weighed_on(machine, self.told)
        return self._on[machine]

    def shift(self, machine: str) -> Shift:
        """Return what strangers say of a machine; nothing where the job itself was observed."""
        if self.strangers is None or self.observations:
            return Shift()
        return self.strangers.shift(machine, self.family)

    def is_ready_on(self, placement: ResolvedPlacement) -> bool:
        """Return whether :meth:`on` and :meth:`shift` would answer from memory."""
        machine = machine_word(placement)
        if self.told is not None and machine not in self._on:
            return False
        if self.strangers is None or self.observations:
            return True
        return self.strangers.is_ready(machine, self.family)

    def with_strangers(self, strangers: Strangers) -> Self:
        """Return the same job beside what others reported."""
        return replace(self, strangers=strangers or None)

    def _weighed_on(self, machine: str, told: ToldJobs) -> Calibration | None:
        if self.calibration is None and self.prior.gap is None:
            return told.calibration(machine, self.family)
        beside = told.steps(machine, self.family)
        if beside is None:
            return self.calibration
        if self.calibration is not None:
            beside = ObservedSteps.join(self.calibration.observed, beside)
        return calibrate(beside, self.prior)


class _Weighed(NamedTuple):
    """Observations of a job, which stay what they are, and what they say by themselves."""

    observations: tuple[Observation, ...]
    own: tuple[Observation, ...] = ()
    of_others: tuple[Observation, ...] = ()
    calibration: Calibration | None = None
    machines: frozenset[str] = frozenset()


def _weighed(
    core: Core, prepared: PreparedJob, observations: Sequence[Observation], family: str
) -> _Weighed:
    own, of_others, pointers = [], [], []
    families: dict[int, str] = {}
    for i, seen in enumerate(observations):
        job, pointer = seen.job, f"/observations/{i}"
        if job is not None and id(job) not in families:
            families[id(job)] = job_family(job)
        if job is not None and families[id(job)] != family:
            # Said here what is wrong with it: later it would be passed over.
            if job.job_type is None:
                weighed_cells(core, job, seen, "", pointer)
            of_others.append(seen)
            continue
        own.append(seen if job is None else replace(seen, job=None))
        pointers.append(pointer)
    known = _Weighed(tuple(observations), tuple(own), tuple(of_others))
    if not own:
        return known
    steps = weighed_steps(core, prepared.job, own, pointers, OBSERVED_JOB)
    machines = frozenset(steps.cells.machine.tolist())
    calibration = calibrate(steps, prior_of(prepared.job))
    return known._replace(calibration=calibration, machines=machines)


class Observed:
    """Captured jobs as observed steps let them appear: a source around another one.

    Parameters
    ----------
    observed : sequence of ObservedJob or None
        What is known of each job of the cells.
    """

    def __init__(self, source: StepSource, observed: Sequence[ObservedJob | None]) -> None:
        self._source = source
        self._observed = observed

    def step(self, cell: Cells) -> CellStep:
        """Return the step of a single cell; as :meth:`steps`."""
        (observed,), (placement,), (prepared,) = self._observed, cell.placements, cell.jobs
        if prepared.job.script and not (observed and observed.observations):
            return self.steps(cell).at((0, 0))
        if observed is None:
            return self._source.step(cell)
        machine = machine_word(placement)
        step, calibration = self._source.step(cell), observed.on(machine)
        if calibration is None:
            shift = observed.shift(machine)
            return _shifted(step, shift, machine) if shift.reporters else step
        asked = single_step(prepared, step.parts, placement)
        found = calibration.single_steps.correct(asked)
        if found is not None:
            return _corrected(step, found, observed, machine)
        return self.steps(cell).at((0, 0))

    def steps(self, cells: Cells) -> Steps:
        """Return the steps of some cells, corrected."""
        if not any(self._observed) and not any(prepared.job.script for prepared in cells.jobs):
            return self._source.steps(cells)
        found = Correction()
        corrected = found.add(cells, self._source.steps(cells), self._observed)
        found.apply()
        return corrected


def _corrected(
    step: CellStep, found: CalibratedStep, observed: ObservedJob, machine: str
) -> CellStep:
    """Return a step that was not observed itself with what was found in its place."""
    longer = found.parts.step_time_s / step.step_time_s
    rate, half_width = step.samples_per_second / longer, DEVIATIONS * found.log_sd
    basis, efficiency = step.basis, None
    if observed.observations:
        basis = Basis.CALIBRATED if machine in observed.machines else Basis.TRANSFERRED
        efficiency = 1 / longer
    else:
        # What others reached makes a prediction better, not an observed one.
        half_width = min(half_width, math.log(step.high / step.low) / 2)
    return _moved(step, found.parts, rate, half_width, basis=basis, efficiency=efficiency)


def _shifted(step: CellStep, shift: Shift, machine: str) -> CellStep:
    """Return a step moved as far as strangers agree; as :func:`_shift`, on plain numbers."""
    before, longer, slower = step.parts, math.exp(shift.compute), math.exp(shift.communication)
    parts = StepNumbers(
        before.compute_s * longer,
        before.exposed_communication_s * slower,
        before.input_stall_s,
        before.overhead_s * longer,
        before.communication_s * slower,
    )
    factor = parts.step_time_s / before.step_time_s
    moved = math.log(factor)
    half_width = math.hypot(math.log(step.high / step.low) / 2, moved)
    said = (_said(shift, machine, factor),) if abs(moved) > _SAID else ()
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
    return CellStep(
        parts=parts, step_time_s=parts.step_time_s, samples_per_second=rate,
        low=rate * math.exp(-half_width), high=rate * math.exp(half_width), half_width=half_width,
        basis=basis, warnings=(*step.warnings, *said), nearest=step.nearest,
        neighbours=step.neighbours, neighbour_bytes=step.neighbour_bytes,
        slowdowns=step.slowdowns, efficiency=efficiency,
    )  # fmt: skip


def _said(shift: Shift, machine: str, factor: float) -> str:
    return (
        f"What {shift.reporters} reporters saw of other jobs on {machine} makes the step "
        f"{factor:.2f} times as long as predicted."
    )


def source_of(observed: Sequence[ObservedJob | None]) -> StepSource:
    """Return what tells the steps of captured jobs.

    Parameters
    ----------
    observed : sequence of ObservedJob or None
        What is known of each job of the cells.
    """
    return Observed(CAPTURED, observed)


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
    is_script : ndarray of bool
        Whether it is said to be a script.
    """

    steps: Steps
    at: tuple[Places, Places]
    cells: StepCells
    laws: Sequence[_Law]
    own: Flags
    there: Flags
    is_script: Flags


#: What turns predicted steps into those that are answered.
_Law = Calibration | UnobservedScript


class Correction:
    """Steps to be corrected: those of all jobs together, which is quicker."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._unobserved: list[_Piece] = []

    def add(self, cells: Cells, steps: Steps, observed: Sequence[ObservedJob | None]) -> Steps:
        """Note what changes of some steps, and return those that :meth:`apply` will change.

        Parameters
        ----------
        observed : sequence of ObservedJob or None
            What is known of each job of the cells.
        """
        columns = cells.columns
        if columns is None:
            columns = ReplicaColumns.of(cells.placements)
        names = np.array(columns.machine)
        machines = [(name, np.flatnonzero(names == name)) for name in dict.fromkeys(names.tolist())]
        is_answered = np.isfinite(steps.samples_per_second)
        found: Steps | None = None
        alike: dict[tuple[bool, bytes], list[_Row]] = defaultdict(list)
        for row, job in enumerate(observed):
            script = unobserved_script(cells.jobs[row].job)
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
                        found.said[row, column] = (said,)
        for (is_unobserved, _), rows in alike.items():
            assert found is not None
            pieces = self._unobserved if is_unobserved else self._pieces
            pieces.append(_piece(cells, found, columns, rows))
        return found or steps

    def apply(self) -> None:
        """Correct all that was noted."""
        for piece in self._unobserved:
            _correct(piece, piece.laws[0].apply(piece.cells))
        self._unobserved.clear()
        if not self._pieces:
            return
        calibrations = [
            one for piece in self._pieces for one in piece.laws if isinstance(one, Calibration)
        ]
        known = {id(one): one for one in calibrations}
        codes = {key: code for code, key in enumerate(known)}
        sizes = [len(piece.cells) // len(piece.laws) for piece in self._pieces for _ in piece.laws]
        found = correct(
            [one.posterior for one in known.values()],
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


def _piece(cells: Cells, steps: Steps, columns: ReplicaColumns, rows: Sequence[_Row]) -> _Piece:
    chosen = rows[0].columns
    at = np.repeat([one.row for one in rows], len(chosen)), np.tile(chosen, len(rows))
    places = columns.take(chosen)
    return _Piece(
        steps=steps,
        at=at,
        cells=cells_of_jobs([cells.jobs[one.row] for one in rows], steps.parts.take(at), places),
        laws=[one.law for one in rows],
        own=np.repeat([bool(one.job and one.job.observations) for one in rows], len(chosen)),
        there=np.array(
            [
                one.job is not None and machine in one.job.machines
                for one in rows
                for machine in places.machine
            ]
        ),
        is_script=np.repeat([bool(cells.jobs[one.row].job.script) for one in rows], len(chosen)),
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


def _shift(steps: Steps, row: int, columns: Places, shift: Shift, machine: str) -> None:
    """Move steps as far as strangers agree, and widen and name what is moved far."""
    at = (np.full(len(columns), row), columns)
    before = steps.parts.take(at)
    longer, slower = np.exp(shift.compute), np.exp(shift.communication)
    parts = StepParts.of(
        before.compute_s * longer,
        exposed_communication_s=before.exposed_communication_s * slower,
        input_stall_s=before.input_stall_s,
        overhead_s=before.overhead_s * longer,
        communication_s=before.communication_s * slower,
    )
    moved = np.log(parts.step_time_s / before.step_time_s)
    half_width = np.hypot(_half_width(steps, at), moved)
    _put(steps, at, parts, steps.samples_per_second[at] / np.exp(moved), half_width)
    for column, factor in zip(columns.tolist(), np.exp(moved).tolist(), strict=True):
        if abs(np.log(factor)) > _SAID:
            steps.said[row, column] = (_said(shift, machine, factor),)


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

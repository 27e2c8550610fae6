"""What observed steps change in the answers of captured jobs.

Steps of the job correct its predicted step, on every placement: those of this cell, then those of
the job on these accelerators, then those on others. Of a job that is said to be a script, and of
which nothing was observed, published scripts say how much longer it takes. Steps of other jobs that
the question tells are weighed together with them, on the machine they ran on. What strangers
reported counts for other jobs of which nothing was observed, as far as they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_rows import OBSERVED_JOB, step_cells, weighed_cells
from perfmodel.estimator.evidence.said_scripts import prior_of, said_of_script, unobserved_script
from perfmodel.estimator.evidence.strangers import Shift, Strangers
from perfmodel.estimator.evidence.told_jobs import ToldJobs
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cells, CellStep, Steps, StepSource, interval
from perfmodel.estimator.placing.columns import ReplicaColumns, machine_word
from perfmodel.estimator.placing.placed import CAPTURED
from perfmodel.graph.job_identity import job_family
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import CalibratedSteps, Calibration, calibrate
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.unobserved_script import UnobservedScript
from perfmodel.placement.step_parts import StepParts
from perfmodel.types import RUNG, Basis

#: Rows that are corrected in one go; more take more memory and no less time.
_AT_ONCE = 32
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
    own, of_others, rows = [], [], []
    for i, seen in enumerate(observations):
        pointer = f"/observations/{i}"
        if seen.job is not None and job_family(seen.job) != family:
            # Said here what is wrong with it: later it would be passed over.
            if seen.job.job_type is None:
                weighed_cells(core, seen.job, seen, "", pointer)
            of_others.append(seen)
            continue
        cells = weighed_cells(core, prepared.job, seen, OBSERVED_JOB, pointer)
        own.append(replace(seen, job=None))
        rows.append(ObservedSteps.of_one(cells, seen.step_time_s, seen.sync_time_s, seen.reporter))
    known = _Weighed(tuple(observations), tuple(own), tuple(of_others))
    if not rows:
        return known
    steps = ObservedSteps.join(*rows)
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
        if not prepared.job.script:
            if observed is None:
                return self._source.step(cell)
            machine = machine_word(placement)
            if not (observed.on(machine) or observed.shift(machine).reporters):
                return self._source.step(cell)
        return self.steps(cell).at((0, 0))

    def steps(self, cells: Cells) -> Steps:
        """Return the steps of some cells, corrected."""
        if not any(self._observed) and not any(prepared.job.script for prepared in cells.jobs):
            return self._source.steps(cells)
        found = Correction()
        corrected = found.add(cells, self._source.steps(cells), self._observed)
        found.apply()
        return corrected


def source_of(observed: Sequence[ObservedJob | None]) -> StepSource:
    """Return what tells the steps of captured jobs.

    Parameters
    ----------
    observed : sequence of ObservedJob or None
        What is known of each job of the cells.
    """
    return Observed(CAPTURED, observed)


class _Piece(NamedTuple):
    """Cells of a row that are corrected alike, as predicted without observations."""

    steps: Steps
    row: int
    columns: npt.NDArray[np.int64]
    cells: StepCells
    observed: ObservedJob | None
    is_script: bool


#: What turns predicted steps into those that are answered.
_Law = Calibration | UnobservedScript


class Correction:
    """Steps to be corrected: those that rest on the same calibration together, which is quicker."""

    def __init__(self) -> None:
        self._by_law: dict[int, tuple[_Law, list[_Piece]]] = {}

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
        found: Steps | None = None
        for row, job in enumerate(observed):
            alike: dict[int, tuple[_Law, list[npt.NDArray[np.int64]]]] = {}
            script = unobserved_script(cells.jobs[row].job)
            for name, at in machines if job is not None or script is not None else ():
                # What is told of the machine, and what is said of the job, stand over strangers.
                law: _Law | None = (job and job.on(name)) or script
                shift = Shift() if job is None or law is not None else job.shift(name)
                chosen = at[np.isfinite(steps.samples_per_second[row, at])]
                if not len(chosen) or (law is None and not shift.reporters):
                    continue
                found = found or _own(steps)
                if law is None:
                    _shift(found, row, chosen, shift, name)
                    continue
                alike.setdefault(id(law), (law, []))[1].append(chosen)
                if law is script:
                    said = (said_of_script(script, name),)
                    found.said.update(((row, column), said) for column in chosen.tolist())
            for law, of_machines in alike.values():
                assert found is not None
                chosen = np.concatenate(of_machines)
                rows = step_cells(
                    cells.jobs[row], found.parts.take((row, chosen)), columns.take(chosen)
                )
                _, pieces = self._by_law.setdefault(id(law), (law, []))
                pieces.append(_Piece(found, row, chosen, rows, job, script is not None))
        return found or steps

    def apply(self) -> None:
        """Correct all that was noted."""
        for law, pieces in self._by_law.values():
            for start in range(0, len(pieces), _AT_ONCE):
                some = pieces[start : start + _AT_ONCE]
                found = law.apply(StepCells.join([one.cells for one in some]))
                ends = np.cumsum([len(one.cells) for one in some])
                for one, end in zip(some, ends.tolist(), strict=True):
                    _correct(one, found.take(slice(end - len(one.cells), end)))
        self._by_law.clear()


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
    steps, at = piece.steps, (piece.row, piece.columns)
    longer = found.parts.step_time_s / piece.cells.parts.step_time_s
    half_width = DEVIATIONS * found.log_sd
    observed = piece.observed is not None and bool(piece.observed.observations)
    if piece.is_script and not observed:
        # A script lies at least as far off as its step, whatever is known of that.
        half_width = np.maximum(half_width, _half_width(steps, at))
        steps.rung[at] = np.maximum(steps.rung[at], RUNG[Basis.INTERPOLATED])
    elif not observed:
        # What others reached makes a prediction better, not an observed one.
        half_width = np.minimum(half_width, _half_width(steps, at))
    if observed or piece.is_script:
        assert steps.efficiency is not None
        steps.efficiency[at] = 1 / longer
    if observed:
        steps.rung[at] = _rungs(piece, found.seen)
    _put(steps, at, found.parts, steps.samples_per_second[at] / longer, half_width)


def _rungs(piece: _Piece, seen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """Return what cells rest on: on themselves, on the job there, or on the job elsewhere."""
    assert piece.observed is not None
    there = [one in piece.observed.machines for one in piece.cells.machine.tolist()]
    near = np.where(there, RUNG[Basis.CALIBRATED], RUNG[Basis.TRANSFERRED])
    return np.where(seen, RUNG[Basis.MEASURED], near).astype(np.int8)


def _shift(
    steps: Steps, row: int, columns: npt.NDArray[np.int64], shift: Shift, machine: str
) -> None:
    """Move steps as far as strangers agree, and widen and name what is moved far."""
    at = (row, columns)
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
            steps.said[row, column] = (
                f"What {shift.reporters} reporters saw of other jobs on {machine} makes the step "
                f"{factor:.2f} times as long as predicted.",
            )


def _half_width(steps: Steps, at: tuple[int, npt.NDArray[np.int64]]) -> npt.NDArray[np.float64]:
    """Return the half width of whole intervals, in logarithms."""
    return np.asarray(np.log(steps.high[at] / steps.low[at]) / 2)


def _put(
    steps: Steps,
    at: tuple[int, npt.NDArray[np.int64]],
    parts: StepParts,
    rate: npt.NDArray[np.float64],
    half_width: npt.NDArray[np.float64],
) -> None:
    steps.step_time_s[at], steps.samples_per_second[at] = parts.step_time_s, rate
    steps.low[at], steps.high[at] = interval(rate, rate, rate, half_width)
    steps.half_width[at] = half_width
    for one in fields(StepParts):
        getattr(steps.parts, one.name)[at] = getattr(parts, one.name)

"""A job with all that was observed: of itself, and of others on the machines it is asked about.

What its caller says of it, a script or a bare step, tells which population of jobs its observed
steps come from, and where nothing was observed which of the two answers; it changes neither the
graph nor whose observations count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_rows import (
    OBSERVED_JOB,
    ObservedCell,
    cells_of,
    divided,
    weighed_steps,
)
from perfmodel.estimator.evidence.step_bounds import DOUBTED_WARNING, doubt_of_shortage
from perfmodel.estimator.evidence.strangers import Shift, Strangers
from perfmodel.estimator.evidence.tight_cells import NO_CELLS, TightCell, TightCells
from perfmodel.estimator.evidence.told_jobs import ToldJobs
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import CellStep
from perfmodel.estimator.placing.memory import NO_BOUNDS, JobBounds, excess_bounds
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.correcting.unobserved_script import (
    UnobservedScript,
    typical_script,
)
from perfmodel.placement.calibration.observation import Observation, heard
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior

#: Steps of observed cells that are remembered of one job.
_MOST_MEASURED = 32


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """A job with what its observed steps, and those of other jobs, say.

    Parameters
    ----------
    calibration : Calibration or None
        Of its own steps; None where none was observed.
    observations : tuple of Observation
        Steps of the job itself.
    ran_out : tuple of Observation
        What was seen of the job to run out of memory.
    machines : frozenset of str
        Where it was observed; words of :class:`.ResolvedPlacement`.
    tight : TightCells
        What does not fit because of that, whatever is counted.
    bounds : JobBounds
        By how much what was observed exceeds the memory that it had; from :func:`.excess_bounds`.
    warnings : tuple of str
        What is not believed of that.
    told : ToldJobs or None
        Observed steps of other jobs that whoever asks tells.
    strangers : Strangers or None
        What anybody reported of other jobs.
    prior : ResidualPrior
        What is believed of the job before it is observed.
    measured : LruCache
        Steps of cells that were observed themselves, by the key of the job and the placement: they
        are asked about again and again, and take a hundred times as long as others.
    """

    calibration: Calibration | None
    observations: tuple[Observation, ...]
    ran_out: tuple[Observation, ...] = ()
    tight: TightCells = NO_CELLS
    family: str = ""
    machines: frozenset[str] = frozenset()
    bounds: JobBounds = NO_BOUNDS
    warnings: tuple[str, ...] = ()
    told: ToldJobs | None = None
    strangers: Strangers | None = None
    prior: ResidualPrior = field(default_factory=fitted_prior)
    measured: LruCache[tuple[str, ResolvedPlacement], CellStep] = field(
        init=False, default_factory=lambda: LruCache(_MOST_MEASURED), repr=False, compare=False
    )
    _on: dict[str, Calibration | None] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    @property
    def all_observations(self) -> tuple[Observation, ...]:
        """All that was observed of the job itself."""
        return (*self.observations, *self.ran_out)

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

    def refuses(self, prepared: PreparedJob, placement: ResolvedPlacement) -> bool:
        """Return whether a cell does not fit by what ran out of memory, whatever is counted."""
        job = prepared.job
        return bool(self.ran_out) and self.tight.refuse(
            placement, job.batch_size, job.accumulation_steps
        )

    def is_ready_on(self, placement: ResolvedPlacement) -> bool:
        """Return whether :meth:`on` and :meth:`shift` would answer from memory."""
        strangers = None if self.observations else self.strangers
        if self.told is None and strangers is None:
            return True
        machine = placement.machine
        if self.told is not None and machine not in self._on:
            return False
        return strangers is None or strangers.is_ready(machine, self.family)

    def _weighed_on(self, machine: str, told: ToldJobs) -> Calibration | None:
        if self.calibration is None and self.prior.gap is None:
            return told.calibration(machine, self.family)
        beside = told.steps(machine, self.family)
        if beside is None:
            return self.calibration
        if self.calibration is not None:
            beside = ObservedSteps.join([self.calibration.observed, beside])
        return calibrate(beside, self.prior)


def observed_job(
    core: Core,
    prepared: PreparedJob,
    observations: Sequence[Observation],
    strangers: Strangers | None = None,
    told: ToldJobs | None = None,
) -> ObservedJob | None:
    """Return a job with what observed steps say of it; None where there are none.

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
    if not (observations or strangers or told):
        return None
    # What was observed is read by what the job is said to be.
    said = f"{prepared.family} {prepared.job.script}"
    key = (said, tuple(map(id, observations)))
    known: _Known | None = core.evidence.get(key)
    if known is None:
        known = _by_itself(core, prepared, observations)
        if all(one.reporter for one in observations):
            # Stored ones come again, as they are kept or as this returns them; others do not.
            for one in {key, (said, tuple(map(id, known.job.all_observations)))}:
                core.evidence.put(one, known)
    if known.of_others:
        told = (told or ToldJobs(core, ())).with_others(known.of_others)
    if not (told or strangers):
        return known.job
    return replace(known.job, told=told or None, strangers=strangers)


class _Known(NamedTuple):
    """What a job's observations say by themselves, and what was seen of others.

    Parameters
    ----------
    observations : tuple of Observation
        What it is of: they stay, since they are known by who they are.
    """

    observations: tuple[Observation, ...]
    job: ObservedJob
    of_others: tuple[Observation, ...]


def _by_itself(core: Core, prepared: PreparedJob, observations: Sequence[Observation]) -> _Known:
    job, family = prepared.job, prepared.family
    own, pointers, of_others = divided(core, observations, lambda seen: seen.family == family)
    own = [seen if seen.job is None else replace(seen, job=None) for seen in own]
    measured = [position for position, seen in enumerate(own) if not seen.ran_out]
    found = ObservedJob(
        calibration=None,
        observations=tuple(own[i] for i in measured),
        ran_out=tuple(seen for seen in own if seen.ran_out),
        family=family,
        prior=prior_of(job),
    )
    if measured:
        at = [pointers[i] for i in measured]
        weighed = weighed_steps(core, job, found.observations, at, OBSERVED_JOB)
        found = replace(
            found,
            calibration=calibrate(weighed, found.prior),
            machines=frozenset(weighed.cells.machine.tolist()),
        )
    if own:
        found = _with_memory(found, own, cells_of(core, job, own, pointers))
    return _Known(tuple(observations), found, tuple(of_others))


def _with_memory(
    known: ObservedJob,
    seen: Sequence[Observation],
    cells: Mapping[ObservedCell, tuple[PreparedJob, ResolvedPlacement]],
) -> ObservedJob:
    """Return what is known of a job with what its observations say of its memory.

    Of a cell that whoever asks tells nobody else is heard. What is not believed to have run out by
    the job's own need says nothing of any other cell.
    """
    tight = {cell: TightCell.of(placement, *cell[1:]) for cell, (_, placement) in cells.items()}
    counting = heard(seen, lambda one: tight[one.cell])
    ran = {one.cell for one in counting if not one.ran_out}
    out = {one.cell for one in counting if one.ran_out}
    doubted = {cell for cell in out if doubt_of_shortage(*cells[cell])}
    out -= doubted
    return replace(
        known,
        tight=TightCells.of(*([tight[cell] for cell in some] for some in (ran, out, doubted))),
        bounds=excess_bounds(*([cells[cell] for cell in some] for some in (ran, out))),
        warnings=(DOUBTED_WARNING.format(len(doubted)),) if doubted else (),
    )


def bounds_of(observed: ObservedJob | None) -> JobBounds:
    """Return by how much observed steps exceed the memory they had, if there are any."""
    return NO_BOUNDS if observed is None else observed.bounds


def tight_of(observed: ObservedJob | None) -> TightCells:
    """Return what of a job does not fit, whatever is counted."""
    return NO_CELLS if observed is None else observed.tight


def prior_of(job: Job) -> ResidualPrior:
    """Return what is believed of a job's residual before it is observed.

    Of one that says nothing the two populations compete: what was observed decides.
    """
    if job.script is None:
        return fitted_prior()
    return typical_script().prior if job.script else fitted_prior().of_bare_steps


def unobserved_script(job: Job) -> UnobservedScript | None:
    """Return what lengthens the unobserved steps of a script; None for all other jobs."""
    return typical_script() if job.script else None


def said_of_script(script: UnobservedScript, machine: str) -> str:
    """Say what the longer step on a machine rests on."""
    jobs = script.gap.jobs.get(machine, 0)
    there = f"those of {jobs} published jobs on {machine}" if jobs else "those of published jobs"
    where = "" if jobs else f"; none of them ran on {machine}"
    return (
        "Nothing was observed of the job, which is said to be a script: its step is taken to be as "
        f"much longer than predicted as {there} are{where}."
    )

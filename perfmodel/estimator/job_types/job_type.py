"""A job that is known by its type alone, with what its observed steps say of all others.

Its steps are guessed from those that were observed (:mod:`.job_type_guess`), placed like those of
any job, and corrected by the observations. So its answers tell computation and communication apart,
keep the laws of placements, and learn from other jobs on the same accelerators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.guessed_rows import (
    TypeTables,
    batch_of,
    guess_of,
    guessed_cells,
    modelled,
    observed_rows,
)
from perfmodel.estimator.evidence.observed_rows import divided
from perfmodel.estimator.evidence.step_bounds import check_possible
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.evidence.tight_cells import NO_CELLS, TightCell, TightCells
from perfmodel.estimator.evidence.told_jobs import ToldJobs, spread
from perfmodel.estimator.job_types.levels import with_levels
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job, own_batch, type_word
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps
from perfmodel.placement.calibration.observation import Observation, heard
from perfmodel.placement.calibration.observed_steps import ObservedSteps, same_cells
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.job_types.completion import JobTypePrior
from perfmodel.placement.job_types.job_type_cells import has_accelerators
from perfmodel.placement.job_types.job_type_guess import JobTypeGuess
from perfmodel.placement.topology.topology import Placement
from perfmodel.types import Basis

#: Steps of other jobs on a machine, and whether it is one where the job itself ran.
_Beside = list[tuple[ObservedSteps, bool]]

#: Own steps that are weighed at most: time grows with their cube.
MOST_OWN = 200
#: Steps of other jobs that count on each machine where the job ran, if it did not on the asked one.
_MOST_ELSEWHERE = 24


@dataclass(frozen=True, kw_only=True)
class JobTypeSteps:
    """Steps of a job type.

    Parameters
    ----------
    bases : tuple of Basis
        ``measured`` for an observed step, ``calibrated`` on accelerators where one was observed,
        else ``transferred``.
    device_share : ndarray, shape (rows,)
        Share of the computation during which the accelerator works.
    """

    calibrated: CalibratedSteps
    bases: tuple[Basis, ...]
    device_share: FloatArray


@dataclass(frozen=True, kw_only=True)
class ObservedJobType:
    """A job type and what was observed of it.

    Parameters
    ----------
    observations : tuple of Observation
        Of the job type at any batch, and of other jobs that they name.
    guess : JobTypeGuess or None
        None where no step of the job can be read by a calibration.
    own : ObservedSteps or None
        The same steps.
    tight : TightCells
        What does not fit because the job ran out of memory.
    told : ToldJobs or None
        Observed steps of other jobs that whoever asks tells.
    strangers : Strangers or None
        What anybody reported of other jobs; it completes jobs of which nothing was observed.
    prior : ResidualPrior or None
        What is believed of its steps beforehand; None: the fitted one.
    cells_prior : JobTypePrior or None
        What is believed of cells of job types; None: the shipped one.
    """

    job: Job
    catalog: Catalog
    observations: tuple[Observation, ...]
    guess: JobTypeGuess | None = None
    own: ObservedSteps | None = field(default=None, repr=False)
    tight: TightCells = field(default=NO_CELLS, repr=False)
    told: ToldJobs | None = field(default=None, repr=False)
    strangers: Strangers | None = field(default=None, repr=False)
    prior: ResidualPrior | None = field(default=None, repr=False)
    cells_prior: JobTypePrior | None = field(default=None, repr=False)
    _on: dict[str, tuple[_Beside, Calibration]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def own_observations(self) -> tuple[Observation, ...]:
        """What was observed of the job itself."""
        word = type_word(self.job)
        return tuple(one for one in self.observations if _is_of(one.job, word))

    @property
    def own_placements(self) -> list[Placement]:
        """Where the job itself was observed."""
        return [one.placement for one in self.own_observations]

    @property
    def known(self) -> tuple[Observation, ...]:
        """What was observed of the job, and what is told of others."""
        told = self.told.observations if self.told is not None else ()
        of_types = [
            one
            for one in told
            if one.job is not None
            and one.job.job_type
            and has_accelerators(self.catalog, one.placement)
        ]
        own = self.own_observations
        return (*own, *(one for one in of_types if not _is_of(one.job, type_word(self.job))))

    @cached_property
    def tables(self) -> TypeTables:
        """Its cells, and those of other job types that whoever asks tells."""
        return TypeTables.of(self.job, self.known, self.catalog, self.cells_prior)

    @property
    def voices_beside(self) -> Sequence[TypeTables]:
        """What strangers saw of other job types; nothing where cells of its own are known."""
        if self.strangers is None or self.known or self.cells_prior is not None:
            return ()
        return self.strangers.type_voices(type_word(self.job))

    @classmethod
    def of(
        cls,
        core: Core,
        job: Job,
        observations: Sequence[Observation],
        strangers: Strangers | None = None,
        told: ToldJobs | None = None,
    ) -> Self:
        """Read what was observed of a job type.

        Parameters
        ----------
        observations : sequence of Observation
            Of the job; those that name another one join what is told.
        told : ToldJobs or None
            Of any jobs; those of this one do not count.

        Raises
        ------
        InvalidInputError
            An observation that cannot be answered, with a pointer to it.
        """
        word = type_word(job)
        own, pointers, of_others = divided(core, observations, partial(_is_of, word=word))
        for one, pointer in zip(own, pointers, strict=True):
            if not one.ran_out:
                check_possible(one, pointer)
        counting = heard(own, partial(_tight, core))
        tight = TightCells.of(
            (_tight(core, one) for one in counting if not one.ran_out),
            (_tight(core, one) for one in counting if one.ran_out),
        )
        own = heard([one for one in own if not one.ran_out])
        if of_others:
            told = (told or ToldJobs(core, ())).with_others(of_others)
        placements, kept = modelled(core, own, job.mode, pointer="/observations")
        found = cls(
            job=job,
            catalog=core.accelerators,
            observations=tuple(sorted((*own, *of_others), key=attrgetter("content"))),
            tight=tight,
            told=told or None,
            strangers=strangers,
        )
        if not kept:
            return found
        guess = guess_of(*modelled(core, spread(kept, MOST_OWN), job.mode))
        steps = observed_rows(guess, placements, kept, word=word, mode=job.mode)
        return replace(found, guess=guess, own=steps)

    def runs_out_on(self, placement: ResolvedPlacement) -> bool:
        """Return whether what was observed says that it does not fit there."""
        return self.tight.refuse(placement, own_batch(self.job), self.job.accumulation_steps)

    def steps(
        self,
        columns: ReplicaColumns,
        *,
        batch_size: npt.ArrayLike | None = None,
        accumulation_steps: int | None = None,
    ) -> JobTypeSteps:
        """Return its steps on placements of one machine.

        Parameters
        ----------
        columns : ReplicaColumns
            Of equal ``machine``.
        batch_size : array_like or None
            Of a micro-batch and replica, for each row; None: the job's.
        accumulation_steps : int or None
            None: the job's.
        """
        assert self.guess is not None and self.own is not None
        cells = guessed_cells(
            self.guess,
            columns,
            word=type_word(self.job),
            mode=self.job.mode,
            batch_size=own_batch(self.job) if batch_size is None else batch_size,
            accumulation_steps=accumulation_steps or self.job.accumulation_steps,
        )
        calibration = self.on(columns.machine[0])
        levels = self.tables.levels
        return JobTypeSteps(
            calibrated=with_levels(self.job, levels, calibration, cells, columns.log_speed),
            bases=_bases(cells, self.own.cells),
            device_share=calibration.device_share(cells),
        )

    def on(self, machine: str) -> Calibration:
        """Return what counts on a machine, by its word."""
        assert self.own is not None
        beside = self._beside(machine, self.own)
        # Where nothing is beside it, it is the same on all machines.
        place = machine if beside else ""
        known = self._on.get(place)
        # Steps are equal where they are the same object.
        if known is None or known[0] != beside:
            pieces = [_few(steps) if ran else steps for steps, ran in beside]
            found = calibrate(ObservedSteps.join([self.own, *pieces]), self.prior or fitted_prior())
            known = self._on[place] = (beside, found)
        return known[1]

    def _beside(self, machine: str, own: ObservedSteps) -> _Beside:
        """Return steps of other jobs: on the machine, or how it compares to where this one ran."""
        if self.told is None:
            return []
        word, ran_on = type_word(self.job), dict.fromkeys(own.cells.machine.tolist())
        asked = [(machine, False)]
        if machine not in ran_on:
            asked += [(other, True) for other in ran_on]
        found = [(self.told.steps(name, word), elsewhere) for name, elsewhere in asked]
        return [(steps, elsewhere) for steps, elsewhere in found if steps is not None]


def _tight(core: Core, seen: Observation) -> TightCell:
    return TightCell.of(core.resolve(seen.placement), batch_of(seen), seen.accumulation_steps)


def _is_of(job: Job | None, word: str) -> bool:
    """Return whether an observed job is the one of a word; one that is not named is."""
    return job is None or (job.job_type is not None and type_word(job) == word)


def _bases(cells: StepCells, observed: StepCells) -> tuple[Basis, ...]:
    """Return on which rung of the ladder of evidence steps stand."""
    seen = [bool(row.any()) for row in same_cells(cells, observed)]
    machines = set(observed.machine.tolist())
    return tuple(
        Basis.MEASURED if cell else (Basis.CALIBRATED if machine in machines else Basis.TRANSFERRED)
        for cell, machine in zip(seen, cells.machine.tolist(), strict=True)
    )


def _few(steps: ObservedSteps) -> ObservedSteps:
    rows = np.linspace(0, len(steps.cells) - 1, min(len(steps.cells), _MOST_ELSEWHERE))
    return steps.take(rows.astype(np.int64))

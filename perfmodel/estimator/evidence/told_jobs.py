"""Observed steps of other jobs that a question tells: what they say about the machines they ran on.

Whoever asks is believed about all jobs alike, other than strangers are (:mod:`.strangers`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from perfmodel.errors import PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.guessed_rows import guess_of, is_weighed, modelled, observed_rows
from perfmodel.estimator.evidence.observed_rows import named, weighed_alone
from perfmodel.graph.job import Job, type_word
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import fitted_prior
from perfmodel.placement.job_types.job_type_guess import JobTypeGuess

_Steps = ObservedSteps | None

#: Other jobs on a machine, and cells of each, that count for an answer: time grows with their cube.
MOST_JOBS, MOST_CELLS = 8, 12


class ToldJobs:
    """Observed steps of any jobs, by the machine that they ran on.

    Of a machine so many jobs count, and of each so many cells of as many placements as there is
    room for. Which they are depends on what was observed alone, not on its order.

    Parameters
    ----------
    observations : iterable of Observation
        Each with its ``job``. Equal ones count once; one that cannot be weighed, or ran out of
        memory, is passed over. Of a job that is known by its type alone plain replicas count.
    """

    def __init__(self, core: Core, observations: Iterable[Observation]) -> None:
        self._core = core
        named_ones = (_named(core, one) for one in observations if not one.ran_out)
        self.observations = tuple(sorted(named_ones, key=attrgetter("content")))
        self._machines = _by_machine(core, self.observations)
        self._pieces: dict[tuple[str, str], _Steps] = {}
        self._guesses: dict[str, JobTypeGuess | None] = {}
        self._joined: dict[_Chosen, _Steps] = {}
        self._calibrations: dict[_Chosen, Calibration] = {}

    def __bool__(self) -> bool:
        return bool(self._machines)

    def with_others(self, observations: Iterable[Observation]) -> ToldJobs:
        """Return these and some more; itself where it has them all."""
        known = {one.content for one in self.observations}
        others = [one for one in observations if one.content not in known]
        return ToldJobs(self._core, (*self.observations, *others)) if others else self

    def steps(self, machine: str, family: str) -> ObservedSteps | None:
        """Return what other jobs than one family reached on a machine; None where none did.

        Always the same object.
        """
        chosen = self._chosen(machine, family)
        if chosen not in self._joined:
            pieces = [self._piece(machine, other) for other in chosen.families]
            self._joined[chosen] = _joined(pieces)
        return self._joined[chosen]

    def calibration(self, machine: str, family: str) -> Calibration | None:
        """Return what they say of a job that was not observed itself; None where none ran there.

        It is the same for all such jobs.
        """
        steps, chosen = self.steps(machine, family), self._chosen(machine, family)
        if steps is None:
            return None
        if chosen not in self._calibrations:
            self._calibrations[chosen] = calibrate(steps, fitted_prior())
        return self._calibrations[chosen]

    def _chosen(self, machine: str, family: str) -> _Chosen:
        found = [other for other in self._machines.get(machine, {}) if other != family]
        return _Chosen(machine, tuple(sorted(found)[:MOST_JOBS]))

    def _piece(self, machine: str, family: str) -> ObservedSteps | None:
        key = machine, family
        if key not in self._pieces:
            seen = spread(self._machines[machine][family], MOST_CELLS)
            guess = self._guess(family) if _is_job_type(seen[0].job) else None
            if guess is not None:
                self._pieces[key] = self._of(family, seen, guess)
            else:
                each = [weighed_alone(self._core, one, family) for one in seen]
                self._pieces[key] = _joined(each)
        return self._pieces[key]

    def _guess(self, family: str) -> JobTypeGuess | None:
        """Return what is guessed of a job type from all of its steps, wherever it ran."""
        if family not in self._guesses:
            seen = [one for on in self._machines.values() for one in on.get(family, ())]
            placements, kept = self._modelled(seen)
            self._guesses[family] = guess_of(placements, kept) if kept else None
        return self._guesses[family]

    def _of(self, family: str, seen: Sequence[Observation], guess: JobTypeGuess) -> ObservedSteps:
        placements, kept = self._modelled(seen)
        assert kept[0].job is not None
        return observed_rows(guess, placements, kept, word=family, mode=kept[0].job.mode)

    def _modelled(
        self, seen: Sequence[Observation]
    ) -> tuple[list[ResolvedPlacement], list[Observation]]:
        assert seen[0].job is not None
        return modelled(self._core, seen, seen[0].job.mode)


class _Chosen(NamedTuple):
    """Jobs on a machine that count."""

    machine: str
    families: tuple[str, ...]


def _joined(pieces: Sequence[_Steps]) -> _Steps:
    steps = [piece for piece in pieces if piece is not None]
    return ObservedSteps.join(steps) if steps else None


def _named(core: Core, seen: Observation) -> Observation:
    """Return an observation with the catalogue's names, as far as it has them."""
    try:
        return named(core, seen, "")
    except PerfModelError:
        return seen


def _by_machine(
    core: Core, observations: Sequence[Observation]
) -> dict[str, dict[str, list[Observation]]]:
    """Return observations by machine and family."""
    found: dict[str, dict[str, list[Observation]]] = defaultdict(dict)
    known = set()
    for one in observations:
        if one.job is None:
            continue
        family = _family(one.job)
        try:
            placement = core.resolve(one.placement)
        except PerfModelError:
            continue
        content = (
            family, one.job.job_type, one.placement, one.batch_size, one.accumulation_steps,
            one.step_time_s, one.sync_time_s,
        )  # fmt: skip
        if content in known:
            continue
        known.add(content)
        if _is_job_type(one.job) and not is_weighed(placement, one.job.mode):
            continue
        found[placement.machine].setdefault(family, []).append(one)
    return found


def _is_job_type(job: Job | None) -> bool:
    return job is not None and job.job_type is not None


def _family(job: Job) -> str:
    return type_word(job) if _is_job_type(job) else job.family


def spread(seen: Sequence[Observation], most: int) -> list[Observation]:
    """Return observations of as many placements as there is room for, whatever their order."""
    turns: dict[int, list[Observation]] = defaultdict(list)
    taken: dict[object, int] = defaultdict(int)
    for one in sorted(seen, key=attrgetter("content")):
        turns[taken[one.placement]].append(one)
        taken[one.placement] += 1
    return [one for turn in sorted(turns) for one in turns[turn]][:most]

"""Tell observations that can be true from mistakes of unit, of job or of placement.

Of a job type without a graph the bounds are what can be told from other jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement, rough_bytes
from perfmodel.estimator.evidence.guessed_rows import guess_of, modelled
from perfmodel.estimator.evidence.observed import corrected_step
from perfmodel.estimator.evidence.observed_rows import least_step_s
from perfmodel.estimator.placing.cells import CellStep, predicted_cell
from perfmodel.estimator.placing.columns import slowest
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.job_types.job_type_guess import JobTypeGuess
from perfmodel.placement.topology.topology import Placement
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_feed import ObservationFeed

#: Seconds of a step. Starting one kernel takes an accelerator some microseconds, and a step is
#: several; of steps of a day nobody would wait for the second.
LEAST_S, MOST_S = 1e-5, 86_400.0
#: Seconds for which a guess is judged by: it need not follow each step that is reported.
_YOUNG_S = 10.0


_TypeCell = tuple[JobTypeGuess, Placement, int, int]


class _Guessed(NamedTuple):
    guess: JobTypeGuess
    taken_back: int
    until_s: float


class TypeGuesses:
    """Guesses the steps of job types from those that were observed before.

    A reporter is judged by what it reported itself, so that others cannot make its steps look
    wrong; by what others did as long as it reported nothing of the job type.
    """

    def __init__(
        self,
        estimator: Estimator,
        feed: ObservationFeed[Observation],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = estimator.core
        self._feed = feed
        self._clock = clock
        self._known: LruCache[tuple[str, str], _Guessed] = LruCache(4_096)
        self._likely: LruCache[_TypeCell, tuple[float, float]] = LruCache(4_096)

    def likely_s(
        self, job: Job, family: str, seen: Observation, reporter: str
    ) -> tuple[float, float] | None:
        """Return the least and the most that a step is likely to take, seconds; None: no idea.

        How much of a step its device takes, which follows its batch and speed, and how much its
        host, which follows neither, is not known: it is between the shorter of them and their sum.
        """
        guess = self._guess(job, family, reporter)
        if guess is None:
            return None
        cell = (guess, seen.placement, seen.batch_size, seen.accumulation_steps)
        known = self._likely.get(cell)
        if known is None:
            placement = self._core.resolve(seen.placement)
            samples = seen.batch_size * seen.accumulation_steps
            device_s = float(guess.device_s(samples, slowest(placement.accelerators)))
            host_s = guess.host_s * seen.accumulation_steps
            known = min(device_s, host_s), device_s + host_s
            self._likely.put(cell, known)
        return known

    def _guess(self, job: Job, family: str, reporter: str) -> JobTypeGuess | None:
        taken_back, now_s = self._feed.taken_back, self._clock()
        known = self._known.get((family, reporter))
        if known is not None and known.taken_back == taken_back and now_s < known.until_s:
            return known.guess
        seen = self._feed.of(family)
        own = [one for one in seen if one.reporter == reporter]
        placements, kept = modelled(self._core, own or seen, job.mode)
        if not kept:
            return None
        guess = guess_of(placements, kept)
        self._known.put((family, reporter), _Guessed(guess, taken_back, now_s + _YOUNG_S))
        return guess


def check_possible(seen: Observation) -> None:
    """Refuse a step that no job has.

    Raises
    ------
    InvalidInputError
        It is shorter or longer than any.
    """
    if not LEAST_S <= seen.step_time_s <= MOST_S:
        raise InvalidInputError(
            f"A step takes {LEAST_S:g} to {MOST_S:g} s; got {seen.step_time_s:g}. Is it in "
            "seconds, and of one step?",
            pointer="/step_time_s",
        )


#: A step that takes this many times as long as predicted is a mistake; milliseconds that are sent
#: as seconds are a thousand times as long. Of a job type, also one that is as many times as short.
_TOO_FAR = 200.0

#: What placements that are remembered take together at most.
_MOST_BYTES = 64 * 2**20

_Cell = tuple[str, int, int, Placement]


#: What stands for placements of several kinds; their combinations are too many to be told apart.
MIXED = "mixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What the step time of a cell may be, seconds.

    ``too_fast`` and ``too_slow`` say what is wrong with a time beyond the bounds. ``predicted`` is
    the step without any observation of the job, on accelerators of a ``kind``; None where there is
    none.
    """

    least_s: float = 0.0
    most_s: float = float("inf")
    too_fast: str = ""
    too_slow: str = ""
    predicted: CellStep | None = None
    kind: str = ""

    def doubt_of(self, step_time_s: float) -> str | None:
        """Return why a step time is not believed, or None."""
        if step_time_s < self.least_s:
            wrong = self.too_fast
        elif step_time_s > self.most_s:
            wrong = self.too_slow
        else:
            return None
        return (
            f"step_time_s is {step_time_s:g} s, {wrong}. Is it in seconds, of a whole step, and of "
            "this job?"
        )


class Plausibility:
    """Judges observations; each cell is looked at in full once.

    Parameters
    ----------
    feed : ObservationFeed
        What was observed before: there is nothing else to judge job types by.
    """

    def __init__(self, estimator: Estimator, feed: ObservationFeed[Observation]) -> None:
        self.estimator = estimator
        self._cells: LruCache[_Cell, Bounds] = LruCache(
            50_000, weigh=lambda cell, bounds: rough_bytes(cell[-1]), most_weight=_MOST_BYTES
        )
        self._types = TypeGuesses(estimator, feed)

    def bounds(self, job: Job, stored: StoredJob, seen: Observation, reporter: str) -> Bounds:
        """Return what the step time of an observed cell may be.

        Raises
        ------
        InvalidInputError
            Nobody's step takes that time, or no answer can be given about the job there.
        """
        if job.job_type is not None:
            check_possible(seen)
        cell = (stored.ref, seen.batch_size, seen.accumulation_steps, seen.placement)
        bounds = self._cells.get(cell)
        if bounds is None:
            bounds = self._bounds(job, seen)
            self._cells.put(cell, bounds)
        return bounds if job.job_type is None else self._of_type(job, stored, seen, reporter)

    def _of_type(self, job: Job, stored: StoredJob, seen: Observation, reporter: str) -> Bounds:
        likely_s = self._types.likely_s(job, stored.family, seen, reporter)
        if likely_s is None:
            return Bounds()
        by = "than what was reported of this job type before lets expect"
        return Bounds(
            least_s=likely_s[0] / _TOO_FAR,
            most_s=likely_s[1] * _TOO_FAR,
            too_fast=f"more than {_TOO_FAR:g} times less {by}",
            too_slow=f"more than {_TOO_FAR:g} times more {by}",
        )

    def _bounds(self, job: Job, seen: Observation) -> Bounds:
        """Return the bounds of a cell; that answers can rest on it is tried with that."""
        asked = replace(job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps)
        core = self.estimator.core
        placement = core.resolve(seen.placement)
        if job.job_type is not None:
            self.estimator.estimate(asked, seen.placement, [seen])
            return Bounds()
        prepared = core.prepare(asked)
        step = corrected_step(predicted_cell(core, prepared, placement), None)
        least_s = least_step_s(prepared, placement)
        return Bounds(
            least_s=least_s,
            most_s=_TOO_FAR * step.step_time_s,
            too_fast=f"but the arithmetic of the step alone takes {least_s:.3g} s at the peak of "
            "the accelerator",
            too_slow=f"more than {_TOO_FAR:g} times what is predicted",
            predicted=step,
            kind=kind_of(placement),
        )


def kind_of(placement: ResolvedPlacement) -> str:
    """Return the accelerator of a placement by its name in the catalogue; MIXED of several."""
    kinds = {one.name for one in placement.accelerators}
    return kinds.pop() if len(kinds) == 1 else MIXED

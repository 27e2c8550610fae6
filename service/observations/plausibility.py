"""Tell observations that can be true from mistakes of unit, of job or of placement.

Of a job type without a graph the bounds are what can be told from other jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perfmodel.estimator import Estimator
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.guessed_rows import guess_of, modelled
from perfmodel.estimator.evidence.observed import corrected_step
from perfmodel.estimator.evidence.observed_rows import cells_of, single_step
from perfmodel.estimator.evidence.step_bounds import (
    StepBounds,
    bounds_of_step,
    doubt_of_room,
    doubt_of_shortage,
    expected_bounds,
)
from perfmodel.estimator.placing.cells import CellStep
from perfmodel.estimator.placing.columns import slowest
from perfmodel.estimator.placing.placed import captured_step, predicted_cell
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.job_types.job_type_guess import JobTypeGuess
from perfmodel.placement.topology.topology import Placement
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_feed import ObservationFeed

#: Seconds for which a guess is judged by: it need not follow each step that is reported.
_YOUNG_S = 10.0


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

    def likely_s(
        self,
        job: Job,
        family: str,
        seen: Observation,
        reporter: str,
        beside: Sequence[Observation] = (),
    ) -> tuple[float, float] | None:
        """Return the least and the most that a step is likely to take, seconds; None: no idea.

        How much of a step its device takes, which follows its batch and speed, and how much its
        host, which follows neither, is not known: it is between the shorter of them and their sum.
        """
        guess = self._guess(job, family, reporter, beside)
        if guess is None:
            return None
        placement = self._core.resolve(seen.placement)
        samples = seen.batch_size * seen.accumulation_steps
        device_s = float(guess.device_s(samples, slowest(placement.accelerators)))
        host_s = guess.host_s * seen.accumulation_steps
        return min(device_s, host_s), device_s + host_s

    def _guess(
        self, job: Job, family: str, reporter: str, beside: Sequence[Observation]
    ) -> JobTypeGuess | None:
        taken_back, now_s = self._feed.taken_back, self._clock()
        known = self._known.get((family, reporter))
        if known is not None and known.taken_back == taken_back and now_s < known.until_s:
            return known.guess
        seen = [one for one in self._feed.of(family) if not one.ran_out]
        own = [one for one in seen if one.reporter == reporter]
        # The first ones are held to one another.
        first = [one for one in beside if not one.ran_out]
        placements, kept = modelled(self._core, own or seen or first, job.mode)
        if not kept:
            return None
        guess = guess_of(placements, kept)
        self._known.put((family, reporter), _Guessed(guess, taken_back, now_s + _YOUNG_S))
        return guess


#: What placements that are remembered take together at most.
_MOST_BYTES = 64 * 2**20

#: The reference of a job, its batch, whether it ran out of memory, and where.
_Cell = tuple[str, int, int, bool, Placement]


#: What stands for placements of several kinds; their combinations are too many to be told apart.
MIXED = "mixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What may be observed of a cell.

    Parameters
    ----------
    each : tuple of StepBounds
        All of them hold for the time of its step.
    memory : str or None
        Why it is not believed that the cell ran, or that it ran out of memory, as was observed.
    predicted : CellStep or None
        The step without any observation of the job; None where there is none.
    kind : str
        Of the accelerators that it is predicted on.
    """

    each: tuple[StepBounds, ...] = ()
    memory: str | None = None
    predicted: CellStep | None = None
    kind: str = ""

    def doubt_of(self, seen: Observation) -> str | None:
        """Return why what was observed of the cell is not believed, or None."""
        doubts = [self.memory]
        if not seen.ran_out:
            doubts += [one.doubt_of(seen) for one in self.each]
        return next((doubt for doubt in doubts if doubt is not None), None)


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
            50_000, weigh=lambda cell, bounds: cell[-1].rough_bytes, most_weight=_MOST_BYTES
        )
        self._types = TypeGuesses(estimator, feed)

    def bounds(
        self,
        job: Job,
        stored: StoredJob,
        seen: Observation,
        reporter: str,
        beside: Sequence[Observation],
    ) -> Bounds:
        """Return what may be observed of a cell.

        Parameters
        ----------
        beside : sequence of Observation
            Of the family, that came together with this one.

        Raises
        ------
        InvalidInputError
            No answer can be given about the job there.
        """
        cell = (
            stored.ref, seen.batch_size, seen.accumulation_steps, seen.ran_out, seen.placement,
        )  # fmt: skip
        bounds = self._cells.get(cell)
        if bounds is None:
            bounds = self._shortage(job, seen) if seen.ran_out else self._bounds(job, seen)
            self._cells.put(cell, bounds)
        judged_by_others = job.job_type is not None and not seen.ran_out
        if not judged_by_others:
            return bounds
        likely_s = self._types.likely_s(job, stored.family, seen, reporter, beside)
        if likely_s is None:
            return Bounds()
        what = "what was reported of this job type before lets expect"
        return Bounds(each=(expected_bounds(*likely_s, what),))

    def _shortage(self, job: Job, seen: Observation) -> Bounds:
        """Return whether a cell may run out of memory."""
        core = self.estimator.core
        if job.job_type is not None:
            self.estimator.estimate(job, seen.placement, [seen])
            return Bounds()  # nobody knows what it needs
        (cell,) = cells_of(core, job, [seen], [""]).values()
        return Bounds(memory=doubt_of_shortage(*cell))

    def _bounds(self, job: Job, seen: Observation) -> Bounds:
        """Return the bounds of a cell; that answers can rest on it is tried with that."""
        asked = job.at_batch(seen.batch_size, seen.accumulation_steps)
        core = self.estimator.core
        placement = core.resolve(seen.placement)
        if job.job_type is not None:
            self.estimator.estimate(asked, seen.placement, [seen])
            return Bounds()
        prepared = core.prepare(asked)
        cell = predicted_cell(core, prepared, placement)
        bare = captured_step(cell)
        row = single_step(prepared, bare.parts, placement, bare.slowdowns)
        return Bounds(
            each=bounds_of_step(prepared, placement, row),
            memory=doubt_of_room(prepared, placement),
            predicted=corrected_step(cell, None),
            kind=kind_of(placement),
        )


def kind_of(placement: ResolvedPlacement) -> str:
    """Return the accelerator of a placement by its name in the catalogue; MIXED of several."""
    kinds = {one.name for one in placement.accelerators}
    return kinds.pop() if len(kinds) == 1 else MIXED

"""What the step of a job type may take, as far as can be told without a graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.guessed_rows import guess_of, modelled
from perfmodel.estimator.placing.columns import slowest
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.job_types.job_type_guess import JobTypeGuess
from perfmodel.placement.topology.topology import Placement
from perfmodel.store.state.observation_feed import ObservationFeed

#: Seconds of a step. Starting one kernel takes an accelerator some microseconds, and a step is
#: several; of steps of a day nobody would wait for the second.
LEAST_S, MOST_S = 1e-5, 86_400.0
#: Seconds for which a guess is judged by: it need not follow each step that is reported.
_YOUNG_S = 10.0


_Cell = tuple[JobTypeGuess, Placement, int, int]


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
        self._likely: LruCache[_Cell, tuple[float, float]] = LruCache(4_096)

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

"""Simulate a cluster that is scheduled in rounds: jobs run as measured, plans see what they see.

Every round the planner says which jobs run where; each then makes ``rate x round`` of progress at
its *measured* rate. Jobs join at the first round after they arrive. A job that completes within a
round is done at that moment, and its accelerators are free with the next round. Where the measured
rate is 0 (out of memory) a round is lost, and the planner is told.

Left out: what it costs to move a job, and on which hosts accelerators are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Length of a round, s.
ROUND_S = 360.0
#: A plan under which nothing gets done for so many rounds is a mistake of the planner.
_MOST_IDLE_ROUNDS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """A job of a trace.

    Parameters
    ----------
    subject : int
        What is trained: a position in the tables of rates.
    accelerators : int
        That it runs on; those of a planner that chooses them differ.
    work : float
        Until it is done, in units of rate x s.
    """

    arrival_s: float
    subject: int
    accelerators: int
    work: float


class Placed(NamedTuple):
    """What runs in a round on accelerators of one kind.

    ``setting`` tells configurations with equal accelerators apart, such as batch sizes.
    """

    jobs: tuple[int, ...]
    kind: int
    accelerators: int
    setting: int = 0


class Planner(Protocol):
    """Says what runs in a round."""

    def plan(self, active: Sequence[int], remaining: FloatArray) -> Sequence[Placed]:
        """Return what runs: each active job once at most, within the capacity.

        Parameters
        ----------
        active : sequence of int
            Positions in the trace of jobs that have arrived and are not done.
        remaining : ndarray
            Work left of every job of the trace.
        """
        ...

    def failed(self, placed: Placed) -> None:
        """Learn that a placement does not run."""
        ...


class Truth(Protocol):
    """Measured rates."""

    def rates(self, placed: Placed) -> Sequence[float]:
        """Return the rate of each job of a placement; 0 where it does not run."""
        ...


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a trace.

    Parameters
    ----------
    completion_s : ndarray, shape (jobs,)
        When each job was done.
    busy : float
        Share of the accelerators in use, from the first arrival to the last; 0 where all arrive
        at once.
    """

    arrival_s: FloatArray
    completion_s: FloatArray
    busy: float

    @property
    def average_s(self) -> float:
        """Average completion time, from the arrival on."""
        return float(np.mean(self.completion_s - self.arrival_s))

    @property
    def makespan_s(self) -> float:
        """From the first arrival to the last completion."""
        return float(self.completion_s.max() - self.arrival_s.min())


def simulate(
    trace: Sequence[Arrival],
    capacity: Sequence[int],
    planner: Planner,
    truth: Truth,
    *,
    round_s: float = ROUND_S,
) -> Outcome:
    """Run a trace to its end.

    Parameters
    ----------
    trace : sequence of Arrival
        In the order of arrival.
    capacity : sequence of int
        Accelerators of each kind.

    Raises
    ------
    ValueError
        A plan that takes more than there is or runs a job twice, or gets nothing done.
    """
    arrival_s = np.array([job.arrival_s for job in trace])
    remaining = np.array([job.work for job in trace])
    completion_s = np.full(len(trace), np.nan)
    active: list[int] = []
    arrived, idle, round_number, used, offered = 0, 0, 0, 0, 0
    while arrived < len(trace) or active:
        if not active:
            round_number = max(round_number, math.ceil(arrival_s[arrived] / round_s))
        now = round_number * round_s
        while arrived < len(trace) and arrival_s[arrived] <= now:
            active.append(arrived)
            arrived += 1
        plan = planner.plan(active, remaining)
        taken = checked(plan, capacity)
        if arrived < len(trace):
            used, offered = used + taken, offered + sum(capacity)
        progress = 0.0
        for placed in plan:
            rates = truth.rates(placed)
            if min(rates) <= 0:
                planner.failed(placed)
                continue
            for job, rate in zip(placed.jobs, rates, strict=True):
                progress += rate
                if remaining[job] <= rate * round_s:
                    completion_s[job] = now + remaining[job] / rate
                remaining[job] -= min(remaining[job], rate * round_s)
        idle = 0 if progress > 0 else idle + 1
        if idle > _MOST_IDLE_ROUNDS:
            raise ValueError(
                f"Nothing got done in {idle} rounds; the planner runs no job that can."
            )
        active = [job for job in active if math.isnan(completion_s[job])]
        round_number += 1
    busy = used / offered if offered else 0.0
    return Outcome(arrival_s=arrival_s, completion_s=completion_s, busy=busy)


def checked(plan: Sequence[Placed], capacity: Sequence[int]) -> int:
    """Return how many accelerators a plan takes.

    Raises
    ------
    ValueError
        More than there are, or a job twice.
    """
    taken = [0] * len(capacity)
    for placed in plan:
        taken[placed.kind] += placed.accelerators
    if any(some > most for some, most in zip(taken, capacity, strict=True)):
        raise ValueError(f"A plan takes {taken} accelerators where there are {list(capacity)}.")
    running = [job for placed in plan for job in placed.jobs]
    if len(running) != len(set(running)):
        raise ValueError(f"A plan runs a job twice: {sorted(running)}.")
    return sum(taken)

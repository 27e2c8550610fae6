"""Made-up traces: when jobs arrive, what they train, on how many accelerators, for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from cluster_simulation.rates import Rates
from cluster_simulation.rounds import Arrival, FloatArray

#: Accelerators of a job and their share, as in the Philly trace.
SHARES = ((1, 0.70), (2, 0.10), (4, 0.15), (8, 0.05))
#: Ranges of log10(minutes) on the fastest kind, and their share; uniform within each.
MINUTES = (((1.5, 3.0), 0.8), ((3.0, 4.0), 0.2))

#: Range of log10(hours) of a job whose accelerators are chosen, on one of the slowest kind.
GOODPUT_HOURS = (0.0, 1.7)


@dataclass(frozen=True, kw_only=True)
class TraceForm:
    """What traces are drawn from.

    Parameters
    ----------
    jobs : int
        Of a trace.
    per_hour : float
        Jobs that arrive, exponentially apart.
    """

    jobs: int
    per_hour: float

    def draw(self, table: Rates, seed: int) -> list[Arrival]:
        """Draw a trace of jobs of a measured table.

        Accelerators are drawn first, then one of the job types that the table has on so many,
        then the minutes that the job takes alone where it runs fastest.
        """
        rng = np.random.default_rng(seed)
        arrival_s = np.cumsum(rng.exponential(3600 / self.per_hour, self.jobs))
        sizes, shares = zip(*SHARES, strict=True)
        trace = []
        for when in arrival_s:
            accelerators = int(rng.choice(sizes, p=shares))
            subject = int(rng.choice(np.flatnonzero(table.accelerators == accelerators)))
            work = 60 * _minutes(rng) * float(table.alone[subject].max())
            one = Arrival(
                arrival_s=float(when), subject=subject, accelerators=accelerators, work=work
            )
            trace.append(one)
        return trace


@dataclass(frozen=True, kw_only=True)
class GoodputTraceForm:
    """What traces of jobs that grow and shrink are drawn from; their accelerators are chosen.

    Parameters
    ----------
    jobs, per_hour
        As for :class:`TraceForm`.
    """

    jobs: int
    per_hour: float

    def draw(self, goodput: FloatArray, seed: int) -> list[Arrival]:
        """Draw a trace: any application, and the hours that it would take on the slowest single.

        Parameters
        ----------
        goodput : ndarray, shape (applications, singles)
            Measured, of the best batch on one accelerator of each kind.
        """
        rng = np.random.default_rng(seed)
        arrival_s = np.cumsum(rng.exponential(3600 / self.per_hour, self.jobs))
        trace = []
        for when in arrival_s:
            subject = int(rng.integers(len(goodput)))
            hours = 10 ** rng.uniform(*GOODPUT_HOURS)
            work = 3600 * float(hours * goodput[subject].min())
            trace.append(Arrival(arrival_s=float(when), subject=subject, accelerators=0, work=work))
        return trace


def at_once(trace: Sequence[Arrival]) -> list[Arrival]:
    """Return the same jobs, all there at the start."""
    return [replace(job, arrival_s=0.0) for job in trace]


def _minutes(rng: np.random.Generator) -> float:
    ranges, shares = zip(*MINUTES, strict=True)
    low, high = ranges[rng.choice(len(ranges), p=shares)]
    return float(10 ** rng.uniform(low, high))

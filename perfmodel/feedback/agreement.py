r"""How far what somebody reports agrees with what others do, and what its voice counts therefore.

A *level* is by how much longer the steps of one job on one machine take than the model says, as one
reporter saw them, in logarithms. Its deviation is from the median level of others who saw the same
job there, or, where nobody did, from the median of others on that machine over all their jobs. A
reporter deviates by the median of these, and disagrees where chance and the variety of jobs do not
explain that. Who disagrees does not count for what the others are compared with.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: Spread of two reporters of one job on one machine; the least, and the usual one, of jobs.
_SAME, _LEAST_JOBS, _JOBS = 0.1, 0.15, 0.35
#: A median is as good as so many times fewer values.
_OF_A_MEDIAN = 1.57
#: Others that somebody can be compared with, at least: of two nobody knows which one is off.
_LEAST_OTHERS = 3
#: Deviations that are let pass in full, and from which on somebody disagrees.
_FREE, _TOO_FAR = 2.0, 3.0
#: Nobody disagrees by less, in logarithms: a quarter longer or shorter.
LEAST_DEVIATION = math.log(1.25)
#: How often who disagrees is left out before the others are compared again.
_ROUNDS = 3


class Level(NamedTuple):
    """What one reporter saw of one job on one machine, in logarithms beside the model."""

    reporter: str
    machine: str
    job: str
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How far one reporter agrees with the others.

    Parameters
    ----------
    deviation : float
        Median by how much its steps take longer than those of others, in logarithms.
    weight : float
        What its voice counts, 0 to 1; 1 where nothing speaks against it.
    disagrees : bool
        Whether that is more than chance explains.
    """

    deviation: float = 0.0
    weight: float = 1.0
    disagrees: bool = False
    jobs: int = 0


def agreements(levels: Iterable[Level]) -> Mapping[str, Agreement]:
    """Return how far each reporter agrees with the others, whatever the order of the levels.

    Examples
    --------
    Four reporters saw two jobs on a machine; one of them reports all steps twice as long.

    >>> seen = [Level(who, "T4", job, value + lie)
    ...     for who, lie in (("a", 0.0), ("b", 0.02), ("c", 0.0), ("d", 0.69))
    ...     for job, value in (("one", 0.1), ("two", -0.1))]
    >>> found = agreements(seen)
    >>> [who for who, one in found.items() if one.disagrees], found["a"].weight
    (['d'], 1.0)
    """
    ordered = sorted(levels)
    spread = _spread_of_jobs(ordered)
    reporters = sorted({level.reporter for level in ordered})
    found = {name: Agreement() for name in reporters}
    for _ in range(_ROUNDS):
        counting = [level for level in ordered if not found[level.reporter].disagrees]
        others = _Others(counting)
        again = {name: _agreement(name, ordered, others, spread) for name in reporters}
        if again == found:
            break
        found = again
    return found


class _Others:
    """Medians of levels, of everybody but one."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._of_job: dict[tuple[str, str], dict[str, float]] = {}
        of_machine: dict[str, dict[str, list[float]]] = {}
        for level in levels:
            self._of_job.setdefault((level.machine, level.job), {})[level.reporter] = level.value
            own = of_machine.setdefault(level.machine, {}).setdefault(level.reporter, [])
            own.append(level.value)
        self._voices = {
            machine: {name: statistics.median(own) for name, own in by.items()}
            for machine, by in of_machine.items()
        }

    def beside(self, level: Level) -> tuple[float, bool] | None:
        """Return what others saw of a level, and whether of the very job; None: too few did."""
        for seen, same in (
            (self._of_job.get((level.machine, level.job), {}), True),
            (self._voices.get(level.machine, {}), False),
        ):
            values = [value for name, value in seen.items() if name != level.reporter]
            if len(values) >= _LEAST_OTHERS:
                return statistics.median(values), same
        return None


def _agreement(reporter: str, levels: Sequence[Level], others: _Others, spread: float) -> Agreement:
    own = [level for level in levels if level.reporter == reporter]
    compared: list[tuple[float, float]] = []
    of_jobs: dict[str, float] = {}
    for level in own:
        found = others.beside(level)
        if found is not None:
            precision = (_SAME if found[1] else spread) ** -2
            compared.append((level.value - found[0], precision))
            # What is special of a job is so on every machine: it is heard once.
            of_jobs[level.job] = max(of_jobs.get(level.job, 0.0), precision)
    jobs = len({level.job for level in own})
    if not compared:
        return Agreement(jobs=jobs)
    deviation = _weighted_median(compared)
    error = math.sqrt(_OF_A_MEDIAN / sum(of_jobs.values()) + _SAME**2 / 4)
    score = abs(deviation) / error
    return Agreement(
        deviation=deviation,
        weight=1.0 if score <= _FREE else (_FREE / score) ** 4,
        disagrees=score >= _TOO_FAR and abs(deviation) >= LEAST_DEVIATION,
        jobs=jobs,
    )


def _spread_of_jobs(levels: Sequence[Level]) -> float:
    """Return how far jobs of one reporter on one machine differ: nobody's lie changes that."""
    by: dict[tuple[str, str], list[float]] = {}
    for level in levels:
        by.setdefault((level.reporter, level.machine), []).append(level.value)
    off = [
        abs(value - statistics.median(own)) for own in by.values() if len(own) > 2 for value in own
    ]
    # The median of |x| of normal deviates is 0.6745 times their standard deviation.
    return max(_LEAST_JOBS, statistics.median(off) / 0.6745) if len(off) >= 8 else _JOBS


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    """Return the value in the middle of the weights; of two there, their mean.

    Examples
    --------
    >>> _weighted_median([(1.0, 1.0), (2.0, 1.0)]), _weighted_median([(1.0, 1.0), (2.0, 3.0)])
    (1.5, 2.0)
    """
    half, passed = sum(weight for _, weight in values) / 2, 0.0
    ordered = sorted(values)
    for position, (value, weight) in enumerate(ordered):
        passed += weight
        if math.isclose(passed, half) and position + 1 < len(ordered):
            return (value + ordered[position + 1][0]) / 2
        if passed > half:
            return value
    return ordered[-1][0]

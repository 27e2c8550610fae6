"""How often what several processes do is repeated, and what the repeats come to.

Members must repeat equally often, so that the number is agreed before the first sample, from
what the warm-up took.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.process_records import Repeats
from perfmodel.profilers.timing import quantile

#: Samples that a record keeps.
_MOST_KEPT = 200
#: Parts of a series whose means are compared.
_PARTS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatPolicy:
    """How much is repeated, and what counts as noisy.

    Parameters
    ----------
    warmup : int
        Untimed repeats before the first sample, >= 1.
    least_samples, most_samples : int
        Timed samples.
    least_sample_s : float
        Shorter operations are repeated within one sample until it takes so long.
    budget_s : float
        Seconds of samples beyond ``least_samples``.
    spread_limit, other_load_limit : float
        As in :class:`~perfmodel.profilers.timing.TimingPolicy`.
    """

    warmup: int = 3
    least_samples: int = 7
    most_samples: int = 30
    least_sample_s: float = 2e-3
    budget_s: float = 1.0
    spread_limit: float = 0.25
    other_load_limit: float = 0.05


def repeat_counts(one_s: float, policy: RepeatPolicy) -> tuple[int, int]:
    """Return how many samples to take, and how many repeats a sample has.

    Parameters
    ----------
    one_s : float
        What one repeat takes, > 0.

    Examples
    --------
    An operation of 0.1 ms is repeated 20 times in a sample of 2 ms, of which 30 are taken; one of
    0.2 s is a sample by itself, of which the budget of 1 s allows 5, and 7 are the least.

    >>> repeat_counts(1e-4, RepeatPolicy()), repeat_counts(0.2, RepeatPolicy())
    ((30, 20), (7, 1))
    """
    within = max(1, math.ceil(policy.least_sample_s / one_s - 1e-9))
    affordable = int(policy.budget_s / (one_s * within))
    return min(max(affordable, policy.least_samples), policy.most_samples), within


def summed_up(
    samples_s: Sequence[float], policy: RepeatPolicy, *, other_load: float, mean: bool = False
) -> Repeats:
    """Return samples with what they come to.

    Parameters
    ----------
    samples_s : sequence of float
        At least one.
    mean : bool
        The mean counts instead of the median, and the means of parts of the series instead of
        single samples: for what comes in bursts, or takes turns.

    Examples
    --------
    >>> found = summed_up([0.1, 0.1, 0.4], RepeatPolicy(), other_load=0.0)
    >>> found.time_s, found.noisy
    (0.1, True)
    """
    parts = _part_means(samples_s) if mean else samples_s
    low_s, high_s = quantile(parts, 0.1), quantile(parts, 0.9)
    middle = statistics.fmean(samples_s) if mean else statistics.median(samples_s)
    spread = (high_s - low_s) / middle
    return Repeats(
        time_s=middle,
        samples_s=tuple(_some(samples_s)),
        low_s=low_s,
        high_s=high_s,
        other_load=round(other_load, 4),
        noisy=spread > policy.spread_limit or other_load > policy.other_load_limit,
    )


def _part_means(samples_s: Sequence[float]) -> list[float]:
    size = math.ceil(len(samples_s) / _PARTS)
    return [statistics.fmean(samples_s[i : i + size]) for i in range(0, len(samples_s), size)]


def _some(samples_s: Sequence[float]) -> Sequence[float]:
    step = math.ceil(len(samples_s) / _MOST_KEPT)
    return samples_s[::step]

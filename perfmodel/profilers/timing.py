"""How often a step is repeated, and when its time is known.

The policy is pure: it reads a clock of steps and a load meter that are handed in, so that every
rule can be tested with made-up seconds.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from perfmodel.devices.machine_load import LoadMeter, SystemLoad
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.profilers.runtime.device_runtime import StepTime
from perfmodel.profilers.runtime.telemetry import Telemetry, TelemetryReading


@dataclass(frozen=True, kw_only=True, slots=True)
class TimingPolicy:
    """When warm-up ends, when repeats end, and what counts as noisy.

    Parameters
    ----------
    warmup_min, warmup_max : int
        Untimed steps before the first sample. Between the two, warm-up ends as soon as two
        steps in a row differ by less than ``warmup_tolerance``.
    warmup_tolerance : float
        Relative difference of two consecutive steps.
    min_samples, max_samples : int
        Timed steps, whatever they cost, and at most.
    known_samples : int
        From so many samples on, a spread below the limit ends the repeats.
    spread_limit : float
        Highest (q90 - q10) / median of a quiet measurement.
    other_load_limit : float
        Highest share of the machine's capacity that others may use meanwhile.
    budget_s : float
        Seconds of timed steps after which repeats end (but for ``min_samples``). Warm-up beyond
        ``warmup_min`` ends at the same figure.
    attempts : int
        How often a noisy series is taken; the quietest one is kept.
    """

    warmup_min: int = 2
    warmup_max: int = 10
    warmup_tolerance: float = 0.1
    min_samples: int = 5
    known_samples: int = 15
    max_samples: int = 50
    spread_limit: float = 0.1
    other_load_limit: float = 0.05
    budget_s: float = 3.0
    attempts: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """The timed repeats of one step.

    Parameters
    ----------
    samples_s : tuple of float
        Every timed step, in order.
    median_s, low_s, high_s : float
        Median, 10 % and 90 % quantiles.
    spread : float
        (high - low) / median.
    other_load : float
        Share of the machine's capacity that other processes used meanwhile, in [0, 1].
    noisy : bool
        Spread or other load above its limit, or the device disturbed, in every attempt.
    attempts : int
        Series taken; this is the quietest.
    device_s : float
        Median between events before and after a step, on the device's clock.
    telemetry : TelemetryReading
        What the device said of itself during the series.
    """

    samples_s: tuple[float, ...]
    median_s: float
    low_s: float
    high_s: float
    spread: float
    other_load: float
    noisy: bool
    warmup_steps: int
    attempts: int = 1
    device_s: float | None = None
    telemetry: TelemetryReading = TelemetryReading()

    @property
    def energy_j(self) -> float | None:
        """Energy of the device per step; the moments between two steps count as theirs."""
        whole_j = self.telemetry.energy_j
        return None if whole_j is None else whole_j / len(self.samples_s)


class StepClock(Protocol):
    """What times one step; every :class:`DeviceRuntime` does."""

    @property
    def telemetry(self) -> Telemetry:
        """What watches the device meanwhile."""

    def time(self, step: Callable[[], object]) -> StepTime:
        """Run a step and return what it took."""


def time_steps(
    step: Callable[[], object],
    policy: TimingPolicy | None = None,
    *,
    clock: StepClock | None = None,
    load: LoadMeter | None = None,
) -> Timing:
    """Time a step until its spread is known, or the budget is spent.

    Parameters
    ----------
    step : callable
        Performs one step, or gives it to the device.
    clock : StepClock, optional
        The runtime of the device; the CPU's by default.
    load : LoadMeter, optional
        Tells what other processes used; by default the whole system's counters.
    """
    policy = policy or TimingPolicy()
    clock = clock or CpuRuntime()
    load = load or SystemLoad()
    with _no_garbage_collection():
        warmup_steps = _warm_up(step, policy, clock)
        series: list[Timing] = []
        while len(series) < policy.attempts and all(one.noisy for one in series):
            load.start()
            clock.telemetry.start()
            times = _repeat(step, policy, clock)
            reading = clock.telemetry.stop()
            quiet = summarise(
                [time.wall_s for time in times],
                policy,
                other_load=load.other_share(),
                warmup_steps=warmup_steps,
            )
            series.append(
                replace(
                    quiet,
                    noisy=quiet.noisy or reading.disturbed,
                    device_s=statistics.median(time.device_s for time in times),
                    telemetry=reading,
                )
            )
    best = min(series, key=lambda one: (one.noisy, one.spread))
    return replace(best, attempts=len(series))


def summarise(
    samples_s: Sequence[float],
    policy: TimingPolicy,
    *,
    other_load: float = 0.0,
    warmup_steps: int = 0,
) -> Timing:
    """Return median, quantiles, spread and noise flag of samples.

    Parameters
    ----------
    samples_s : sequence of float
        At least one, each > 0.
    other_load : float
        Share of the capacity that others used, in [0, 1].

    Examples
    --------
    >>> t = summarise([0.10, 0.11, 0.12, 0.13, 0.14], TimingPolicy())
    >>> round(t.median_s, 3), round(t.low_s, 3), round(t.high_s, 3), round(t.spread, 3), t.noisy
    (0.12, 0.104, 0.136, 0.267, True)
    """
    median_s = statistics.median(samples_s)
    low_s, high_s = quantile(samples_s, 0.1), quantile(samples_s, 0.9)
    spread = (high_s - low_s) / median_s
    return Timing(
        samples_s=tuple(samples_s),
        median_s=median_s,
        low_s=low_s,
        high_s=high_s,
        spread=spread,
        other_load=other_load,
        noisy=spread > policy.spread_limit or other_load > policy.other_load_limit,
        warmup_steps=warmup_steps,
    )


def quantile(values: Sequence[float], q: float) -> float:
    """Return a quantile by linear interpolation between the sorted values.

    Parameters
    ----------
    values : sequence of float
        At least one.
    q : float
        In [0, 1].

    Examples
    --------
    >>> quantile([4.0, 1.0, 3.0, 2.0], 0.5)
    2.5
    """
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def _warm_up(step: Callable[[], object], policy: TimingPolicy, clock: StepClock) -> int:
    previous_s = spent_s = 0.0
    for done in range(1, policy.warmup_max + 1):
        last_s = clock.time(step).wall_s
        spent_s += last_s
        stable = abs(last_s - previous_s) <= policy.warmup_tolerance * last_s
        if done >= policy.warmup_min and (stable or spent_s >= policy.budget_s):
            return done
        previous_s = last_s
    return policy.warmup_max


def _repeat(step: Callable[[], object], policy: TimingPolicy, clock: StepClock) -> list[StepTime]:
    times: list[StepTime] = []
    while not _enough([time.wall_s for time in times], policy):
        times.append(clock.time(step))
        clock.telemetry.sample()
    return times


def _enough(samples_s: Sequence[float], policy: TimingPolicy) -> bool:
    count = len(samples_s)
    if count < policy.min_samples:
        return False
    if count >= policy.max_samples or sum(samples_s) >= policy.budget_s:
        return True
    known = count >= policy.known_samples
    return known and summarise(samples_s, policy).spread <= policy.spread_limit


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

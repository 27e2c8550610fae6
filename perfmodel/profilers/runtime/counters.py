"""Telemetry from counters that are read: energy between two moments, the rest in samples."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from perfmodel.profilers.runtime.telemetry import Telemetry, TelemetryReading

#: Drivers renew their figures about ten times a second; to ask oftener costs the host time.
_LEAST_PERIOD_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class CounterSample:
    """What a device says at one moment; None where it says nothing."""

    power_w: float | None = None
    clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    power_limit_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int | None = None


class EnergyCounter(ABC):
    """Counts the energy of a device."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Who counts."""

    @abstractmethod
    def energy_j(self) -> float | None:
        """Return the joules since some moment; None where nothing counts."""


class DeviceCounters(ABC):
    """Reads what a driver says of a device at one moment."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Whose driver says so."""

    @abstractmethod
    def sample(self) -> CounterSample:
        """Read everything once."""


@final
class CounterTelemetry(Telemetry):
    """Reads counters at both ends of an interval, and samples in between.

    Energy is the difference of the counter; without one it is the mean of the sampled power times
    the length of the interval, and the source says so.

    Parameters
    ----------
    counters : DeviceCounters or None
        None: only energy is known.
    clock_s : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        *,
        energy: EnergyCounter | None = None,
        counters: DeviceCounters | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._energy = energy
        self._counters = counters
        self._clock_s = clock_s
        self._begin_s = self._last_s = 0.0
        self._begin_j: float | None = None
        self._samples: list[CounterSample] = []

    def start(self) -> None:
        """Begin an interval and read the counters."""
        self._samples = []
        self._take()
        self._begin_s = self._clock_s()
        self._begin_j = self._energy.energy_j() if self._energy else None

    def sample(self) -> None:
        """Read the counters, unless that was done less than a tenth of a second ago."""
        if self._clock_s() - self._last_s >= _LEAST_PERIOD_S:
            self._take()

    def stop(self) -> TelemetryReading:
        """Read the counters a last time and sum up."""
        end_j = self._energy.energy_j() if self._energy else None
        elapsed_s = self._clock_s() - self._begin_s
        self._take()
        sampled_w = _known([one.power_w for one in self._samples])
        counted_j = None if end_j is None or self._begin_j is None else end_j - self._begin_j
        sources = [self._counters.source] if self._counters else []
        if counted_j is not None and counted_j > 0 and self._energy:
            energy_j: float | None = counted_j
            sources.append(f"energy of {self._energy.source}")
        else:
            # A counter that went back was reset meanwhile, and one that stood still counts slower.
            energy_j = statistics.fmean(sampled_w) * elapsed_s if sampled_w else None
            sources += ["energy of sampled power"] if sampled_w else []
        return self._summed(energy_j, elapsed_s, ", ".join(dict.fromkeys(sources)))

    def _take(self) -> None:
        if self._counters:
            self._samples.append(self._counters.sample())
        self._last_s = self._clock_s()

    def _summed(self, energy_j: float | None, elapsed_s: float, source: str) -> TelemetryReading:
        samples = self._samples
        clocks = _known([one.clock_hz for one in samples])
        memory_clocks = _known([one.memory_clock_hz for one in samples])
        limits = _known([one.power_limit_w for one in samples])
        reasons = {reason for one in samples for reason in one.throttle_reasons}
        others = [one.other_processes for one in samples if one.other_processes is not None]
        timed = energy_j is not None and elapsed_s > 0
        return TelemetryReading(
            energy_j=energy_j,
            mean_power_w=energy_j / elapsed_s if timed and energy_j is not None else None,
            clock_hz=statistics.median(clocks) if clocks else None,
            memory_clock_hz=statistics.median(memory_clocks) if memory_clocks else None,
            temperature_c=max(_known([one.temperature_c for one in samples]), default=None),
            power_limit_w=min(limits, default=None),
            throttle_reasons=tuple(sorted(reasons)),
            other_processes=max(others, default=None),
            source=source,
        )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]

"""Energy, power, clocks, temperature and throttling of a device over an interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, final

#: Reasons for a lower clock that lie in how a device is run.
_AS_RUN = ("power_cap", "clock_setting")


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryReading:
    """What a device said over an interval; None where it says nothing.

    Parameters
    ----------
    energy_j : float or None
        Energy of the device over the whole interval.
    mean_power_w : float or None
        Energy over time where there is a counter of energy, else the mean of samples.
    clock_hz, memory_clock_hz : float or None
        Median of the samples.
    temperature_c : float or None
        Highest sample, degrees Celsius.
    throttle_reasons : tuple of str
        Why the clock was held back in any sample (``"power_cap"``, ``"thermal"``), sorted.
    other_processes : int or None
        Most processes beside this one that had work on the device in any sample.
    source : str
        Who measured; empty where nobody did.
    """

    energy_j: float | None = None
    mean_power_w: float | None = None
    clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    power_limit_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int | None = None
    source: str = ""

    @property
    def disturbed(self) -> bool:
        """Whether the device was held back by heat or a fault, or shared with other processes.

        A power cap or a clock that was set is how the device is run, and no disturbance.
        """
        held_back = any(reason not in _AS_RUN for reason in self.throttle_reasons)
        return held_back or bool(self.other_processes)

    def to_dict(self) -> dict[str, Any]:
        """Return the reading as plain JSON types."""
        return {**asdict(self), "throttle_reasons": list(self.throttle_reasons)}


class Telemetry(ABC):
    """Watches a device from :meth:`start` to :meth:`stop`; may be started again."""

    @abstractmethod
    def start(self) -> None:
        """Begin an interval."""

    @abstractmethod
    def sample(self) -> None:
        """Look at clocks, temperature and throttling, between two steps; cheap."""

    @abstractmethod
    def stop(self) -> TelemetryReading:
        """End the interval and return what was seen."""


@final
class NoTelemetry(Telemetry):
    """The stand-in where nothing measures power: every field of its readings is unknown."""

    def start(self) -> None:
        """Begin nothing."""

    def sample(self) -> None:
        """Look at nothing."""

    def stop(self) -> TelemetryReading:
        """Return a reading without figures."""
        return TelemetryReading()

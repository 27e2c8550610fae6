"""The contract of a device runtime: all that a profiler asks of the device a step runs on.

No profiler asks which device it has. It synchronises, records events, reads memory, facts and
telemetry through this contract, and puts tensors on :attr:`DeviceRuntime.torch_device`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.errors import MeasurementError
from perfmodel.profilers.runtime.telemetry import Telemetry


class Event(Protocol):
    """A moment in the device's queue of work; made by :meth:`DeviceRuntime.record`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """One step, timed from both sides.

    Parameters
    ----------
    wall_s : float
        From before the first launch until the device has done everything, on the host's clock.
    device_s : float
        Between events before and after the step, on the device's clock.
    """

    wall_s: float
    device_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPeak:
    """The most memory that was in use since the last reset.

    Parameters
    ----------
    allocated_bytes : float or None
        Of live tensors where the device has an allocator of its own; else resident memory of
        this process above its base line. None where nothing tells.
    reserved_bytes : float or None
        What the allocator took from the device, its cache included; None without an allocator.
    method : str
        How it was read: ``"allocator"``, ``"hwm_since_reset"``, ``"hwm_since_start"``.
    """

    allocated_bytes: float | None
    reserved_bytes: float | None
    method: str


class DeviceRuntime(ABC):
    """A device that steps run on. One object is one device, used by one thread at a time."""

    @property
    @abstractmethod
    def torch_device(self) -> str:
        """Where the tensors of a step belong, in PyTorch's words: ``"cpu"``, ``"cuda:0"``."""

    @property
    @abstractmethod
    def facts(self) -> DeviceFacts:
        """What the drivers say about the device."""

    @abstractmethod
    def synchronise(self) -> None:
        """Return when the device has done all work that was given to it."""

    @abstractmethod
    def record(self) -> Event:
        """Put an event behind the work that was given to the device so far."""

    @abstractmethod
    def elapsed_s(self, begin: Event, end: Event) -> float:
        """Return the seconds between two events, once both have passed (waits for them)."""

    @abstractmethod
    def reset_peak_memory(self) -> None:
        """Forget the highest mark so far."""

    @abstractmethod
    def peak_memory(self) -> MemoryPeak:
        """Return the highest marks since :meth:`reset_peak_memory`."""

    @abstractmethod
    def release_memory(self) -> None:
        """Give memory that is cached and not in use back to the device."""

    @abstractmethod
    def is_out_of_memory(self, error: BaseException) -> bool:
        """Tell whether an error says that the device's memory did not suffice."""

    @property
    @abstractmethod
    def telemetry(self) -> Telemetry:
        """What measures energy, clocks and throttling; the same object at each call."""

    @property
    def asynchronous(self) -> bool:
        """Whether the device works on after a call has returned, in kernels of its own."""
        return False

    def graph_of(self, step: Callable[[], object]) -> Callable[[], object]:
        """Record a step as one graph of the device, and return what launches it.

        Raises
        ------
        MeasurementError
            A device without graphs, or a step that cannot be recorded.
        """
        raise MeasurementError(
            f"{self.facts.name} launches no graphs of kernels; measure without device graphs."
        )

    def time(self, step: Callable[[], object]) -> StepTime:
        """Run a step and return what it took on the host's and on the device's clock."""
        self.synchronise()
        begin_ns = time.perf_counter_ns()
        begin = self.record()
        step()
        end = self.record()
        self.synchronise()
        wall_s = (time.perf_counter_ns() - begin_ns) / 1e9
        return StepTime(wall_s=wall_s, device_s=self.elapsed_s(begin, end))

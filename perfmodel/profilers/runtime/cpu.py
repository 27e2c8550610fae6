"""The CPU as a device: it works while it is called, so that its events are the host's clock."""

from __future__ import annotations

import ctypes
import gc
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast, final

import psutil

from perfmodel.devices.cpu_facts import read_cpu_facts
from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.profilers.runtime.device_runtime import DeviceRuntime, Event, MemoryPeak
from perfmodel.profilers.runtime.telemetry import NoTelemetry, Telemetry

#: What PyTorch's allocator for the CPU says, on Linux and on other systems.
_NO_MEMORY = ("can't allocate memory", "not enough memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class _ClockEvent:
    at_ns: int


@final
class CpuRuntime(DeviceRuntime):
    """The CPU of this machine; memory is that of this process.

    Parameters
    ----------
    telemetry : Telemetry or None
        None: nothing measures its energy.
    """

    def __init__(self, *, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry or NoTelemetry()
        self._memory = PeakMemory()

    @property
    def torch_device(self) -> str:
        """``"cpu"``."""
        return "cpu"

    @cached_property
    def facts(self) -> DeviceFacts:
        """What the operating system says."""
        cpu = read_cpu_facts()
        cache = cpu.last_level_cache_bytes
        return DeviceFacts(
            name=cpu.name,
            backend="cpu",
            memory_bytes=float(cpu.memory_bytes),
            architecture=cpu.machine,
            core_count=cpu.core_count,
            cache_bytes=float(cache) if cache else None,
            clock_hz=cpu.clock_hz,
            found_by=("os",),
        )

    def synchronise(self) -> None:
        """Return at once: a call that has returned has done its work."""

    def record(self) -> Event:
        """Note the time."""
        return _ClockEvent(at_ns=time.perf_counter_ns())

    def elapsed_s(self, begin: Event, end: Event) -> float:
        """Return the seconds between two notes."""
        return (cast(_ClockEvent, end).at_ns - cast(_ClockEvent, begin).at_ns) / 1e9

    def reset_peak_memory(self) -> None:
        """Forget the highest mark; the base line, taken when this was made, stays."""
        self._memory.reset()

    def peak_memory(self) -> MemoryPeak:
        """Return the highest resident memory above the base line."""
        return MemoryPeak(
            allocated_bytes=self._memory.peak_bytes(),
            reserved_bytes=None,
            method=self._memory.method,
        )

    def release_memory(self) -> None:
        """Give what was freed back to the system, and take a new base line."""
        gc.collect()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        self._memory = PeakMemory()

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Tell whether Python or PyTorch's allocator for the CPU got no memory."""
        said = str(error)
        return isinstance(error, MemoryError) or any(words in said for words in _NO_MEMORY)

    @property
    def telemetry(self) -> Telemetry:
        """As given."""
        return self._telemetry


class PeakMemory:
    """Highest resident memory of this process above a base line.

    The kernel keeps the high-water mark itself (``VmHWM``). Where it can be reset through
    ``/proc/self/clear_refs``, the mark since :meth:`reset` is read; elsewhere the mark since the
    process began, which in a fresh process differs only by what construction needed for a
    moment.

    Attributes
    ----------
    method : str
        ``"hwm_since_reset"`` or ``"hwm_since_start"``: which of the two was read.
    """

    def __init__(self) -> None:
        self._base_bytes = psutil.Process().memory_info().rss
        self.method = "hwm_since_start"

    def reset(self) -> None:
        """Forget the highest mark so far; the base line stays."""
        try:
            # 5 resets the high-water mark and nothing else (see proc(5)).
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return
        self.method = "hwm_since_reset"

    def peak_bytes(self) -> float | None:
        """Return the highest resident bytes above the base line; None where nothing tells."""
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return None
        for line in lines:
            if line.startswith("VmHWM:"):
                return float(max(0, int(line.split()[1]) * 1024 - self._base_bytes))
        return None

"""The device that a step runs on: one contract, whatever the device."""

from perfmodel.profilers.runtime.device_runtime import DeviceRuntime, Event, MemoryPeak, StepTime
from perfmodel.profilers.runtime.opening import open_runtime, works_by_itself
from perfmodel.profilers.runtime.telemetry import Telemetry, TelemetryReading

__all__ = [
    "DeviceRuntime",
    "Event",
    "MemoryPeak",
    "StepTime",
    "Telemetry",
    "TelemetryReading",
    "open_runtime",
    "works_by_itself",
]

"""Which counters watch a device, of those that are installed."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.profilers.runtime.counters import CounterTelemetry, DeviceCounters, EnergyCounter
from perfmodel.profilers.runtime.telemetry import NoTelemetry, Telemetry
from perfmodel.profilers.runtime.vendor_counters import (
    AmdSmiCounters,
    NvmlCounters,
    ZeusCpuEnergy,
    ZeusEnergy,
)


def telemetry_of(facts: DeviceFacts) -> Telemetry:
    """Return what watches a device: its driver's counters, energy through zeus where it is there.

    Nothing that is missing stops a measurement: its fields stay unknown.
    """
    counters, energy = _counters(facts), _zeus_energy(facts)
    if energy is None and isinstance(counters, EnergyCounter):
        energy = counters
    if counters is None and energy is None:
        return NoTelemetry()
    return CounterTelemetry(energy=energy, counters=counters)


def _counters(facts: DeviceFacts) -> DeviceCounters | None:
    if facts.backend == "cuda" and facts.uuid and (nvml := _imported("pynvml")):
        uuid = facts.uuid if "-" in facts.uuid[:4] else f"GPU-{facts.uuid}"
        try:
            return NvmlCounters(nvml, uuid, is_slice=facts.mig_profile is not None)
        except nvml.NVMLError:
            return None
    if facts.backend == "rocm" and (amdsmi := _imported("amdsmi")):
        try:
            return AmdSmiCounters(amdsmi, facts.index)
        except (amdsmi.AmdSmiException, IndexError):
            return None
    return None


def _zeus_energy(facts: DeviceFacts) -> EnergyCounter | None:
    """Return zeus's counter; zeus says in errors of its own what a machine does not have."""
    zeus = _imported("zeus.device")
    if zeus is None or facts.mig_profile is not None:
        return None
    from zeus.device.exception import ZeusBaseCPUError, ZeusBaseGPUError

    try:
        if facts.backend == "cpu":
            return ZeusCpuEnergy(zeus.get_cpus())
        if facts.backend in ("cuda", "rocm"):
            return ZeusEnergy(zeus.get_gpus(), facts.index)
    except (ZeusBaseCPUError, ZeusBaseGPUError, OSError):
        return None
    return None


def _imported(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except (ImportError, OSError, KeyError):
        # AMD's module fails in its own ways where its library is not installed.
        return None

"""From the name of a device, as an option or a settings file gives it, to its runtime."""

from __future__ import annotations

import importlib
import logging
import warnings
from pathlib import Path
from typing import Any

from perfmodel.devices.drivers.device_facts import DeviceFacts, merge_facts
from perfmodel.devices.drivers.driver import driver_facts
from perfmodel.errors import InvalidInputError
from perfmodel.profilers.runtime.accelerator import AcceleratorRuntime
from perfmodel.profilers.runtime.counters import CounterTelemetry, DeviceCounters, EnergyCounter
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.profilers.runtime.device_runtime import DeviceRuntime
from perfmodel.profilers.runtime.replay import ReplayRuntime, read_recording
from perfmodel.profilers.runtime.telemetry import NoTelemetry, Telemetry
from perfmodel.profilers.runtime.vendor_counters import (
    AmdSmiCounters,
    NvmlCounters,
    ZeusCpuEnergy,
    ZeusEnergy,
)

_log = logging.getLogger(__name__)

#: Forms of a device's name.
DEVICE_FORMS = ("cpu", "gpu", "gpu:<index>", "replay:<file>")

#: Words that all mean an accelerator of PyTorch: which backend it has is told by its build.
_ACCELERATOR_WORDS = ("gpu", "cuda", "rocm", "hip", "xpu", "accelerator")


def open_runtime(device: str = "cpu") -> DeviceRuntime:
    """Return the runtime of a device of this machine.

    Parameters
    ----------
    device : str
        ``"cpu"``; ``"gpu"`` or ``"gpu:1"`` (``cuda``, ``rocm`` and ``xpu`` mean the same: the
        accelerator that the installed PyTorch was built for); ``"replay:FILE"`` for recorded
        answers.

    Raises
    ------
    InvalidInputError
        Another word.
    MeasurementError
        PyTorch sees no such accelerator.

    Examples
    --------
    >>> open_runtime("cpu").torch_device
    'cpu'
    """
    word, _, rest = device.partition(":")
    if device == "cpu":
        return _cpu()
    if word == "replay" and rest:
        return ReplayRuntime(read_recording(Path(rest)))
    if word in _ACCELERATOR_WORDS and (rest.isdigit() or not rest):
        return _accelerator(int(rest or 0))
    raise InvalidInputError(
        f"A device is one of {', '.join(DEVICE_FORMS)}; got {device!r}.", allowed=DEVICE_FORMS
    )


def works_by_itself(device: str) -> bool:
    """Tell by its name whether a device is :attr:`~DeviceRuntime.asynchronous`, without opening it.

    Examples
    --------
    >>> works_by_itself("gpu:1"), works_by_itself("cpu"), works_by_itself("replay:gpu.json")
    (True, False, False)
    """
    return device.partition(":")[0] in _ACCELERATOR_WORDS


def _cpu() -> DeviceRuntime:
    plain = CpuRuntime()
    return CpuRuntime(telemetry=telemetry_of(plain.facts))


def _accelerator(index: int) -> DeviceRuntime:
    """Open an accelerator through PyTorch, then ask its vendor's driver for the same one."""
    told = AcceleratorRuntime(index=index).facts
    driver, problem = driver_facts(told)
    if problem is not None:
        _log.warning("%s Power, clocks and limits of %s stay unknown.", problem, told.name)
    facts = told if driver is None else merge_facts(driver, told)
    return AcceleratorRuntime(
        index=index, driver=driver, telemetry=telemetry_of(facts, visible_index=index)
    )


def telemetry_of(facts: DeviceFacts, *, visible_index: int | None = None) -> Telemetry:
    """Return what watches a device: its driver's counters, energy through zeus where it is there.

    Nothing that is missing stops a measurement: its fields stay unknown.

    Parameters
    ----------
    facts : DeviceFacts
        Its index is that of the driver, which knows of every device.
    visible_index : int or None
        Position among those that this process sees, as PyTorch and zeus count them; None: as the
        driver does.
    """
    index = facts.index if visible_index is None else visible_index
    counters, energy = _counters(facts), _zeus_energy(facts, index)
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


def _zeus_energy(facts: DeviceFacts, index: int) -> EnergyCounter | None:
    """Return zeus's counter; zeus says in errors of its own what a machine does not have.

    It knows neither GPUs that are made visible by their UUID, nor that CUDA puts the fastest first.
    """
    zeus = _imported("zeus.device")
    if zeus is None or facts.mig_profile is not None:
        return None
    from zeus.device.exception import ZeusBaseCPUError, ZeusBaseGPUError

    try:
        if facts.backend == "cpu":
            return ZeusCpuEnergy(zeus.get_cpus())
        if facts.backend in ("cuda", "rocm"):
            gpus = zeus.get_gpus()
            same = gpus.get_name(index) == facts.name or facts.backend == "rocm"
            return ZeusEnergy(gpus, index) if same else None
    except (ZeusBaseCPUError, ZeusBaseGPUError, OSError, IndexError, ValueError):
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

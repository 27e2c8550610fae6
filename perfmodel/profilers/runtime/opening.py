"""From the name of a device, as an option or a settings file gives it, to its runtime."""

from __future__ import annotations

import logging
from pathlib import Path

from perfmodel.devices.drivers.device_facts import merge_facts
from perfmodel.devices.drivers.driver import driver_facts
from perfmodel.errors import InvalidInputError
from perfmodel.profilers.runtime.accelerator import AcceleratorRuntime
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.profilers.runtime.device_runtime import DeviceRuntime
from perfmodel.profilers.runtime.replay import ReplayRuntime, read_recording
from perfmodel.profilers.runtime.watching import telemetry_of

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
    return AcceleratorRuntime(index=index, driver=driver, telemetry=telemetry_of(facts))

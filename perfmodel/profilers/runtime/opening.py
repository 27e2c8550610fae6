"""From the name of a device, as an option or a settings file gives it, to its runtime."""

from __future__ import annotations

from pathlib import Path

from perfmodel.errors import InvalidInputError
from perfmodel.profilers.runtime.accelerator import AcceleratorRuntime
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.profilers.runtime.device_runtime import DeviceRuntime
from perfmodel.profilers.runtime.replay import ReplayRuntime, read_recording

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
        return CpuRuntime()
    if word == "replay" and rest:
        return ReplayRuntime(read_recording(Path(rest)))
    if word in _ACCELERATOR_WORDS and (rest.isdigit() or not rest):
        return AcceleratorRuntime(index=int(rest or 0))
    raise InvalidInputError(
        f"A device is one of {', '.join(DEVICE_FORMS)}; got {device!r}.", allowed=DEVICE_FORMS
    )

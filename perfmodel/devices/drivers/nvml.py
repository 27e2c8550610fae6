"""What NVIDIA's driver says, through its management library (NVML)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from perfmodel.devices.aliases import mig_profile
from perfmodel.devices.drivers.device_facts import DeviceFacts, pci_address
from perfmodel.errors import MissingExtraError


def load_nvml() -> Any:
    """Return NVML's Python module.

    Raises
    ------
    MissingExtraError
        It is not installed.
    """
    try:
        import pynvml
    except ImportError as error:
        raise MissingExtraError("Asking NVIDIA's driver", extra="nvidia") from error
    return pynvml


@contextmanager
def nvml_session(nvml: Any) -> Iterator[None]:
    """Hold NVML open; it counts how often it was opened."""
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def nvml_facts(nvml: Any) -> tuple[DeviceFacts, ...]:
    """Return the facts of every GPU, and of every MIG slice in the place of its GPU.

    Parameters
    ----------
    nvml : module
        ``pynvml``, or a stand-in that replays it.

    Raises
    ------
    OSError
        The driver does not answer, with its words.
    """
    try:
        with nvml_session(nvml):
            driver = _text(nvml.nvmlSystemGetDriverVersion())
            return tuple(_all(nvml, driver))
    except nvml.NVMLError as error:
        raise OSError(f"NVML does not answer: {error}") from error


def _all(nvml: Any, driver: str) -> Iterator[DeviceFacts]:
    for index in range(nvml.nvmlDeviceGetCount()):
        whole = nvml.nvmlDeviceGetHandleByIndex(index)
        slices = list(_slices(nvml, whole))
        for handle in slices or [whole]:
            yield _facts(nvml, whole, handle, index, driver)


def _slices(nvml: Any, whole: Any) -> Iterator[Any]:
    mode = _asked(nvml, lambda: nvml.nvmlDeviceGetMigMode(whole))
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(whole)):
        found = _asked(nvml, lambda n=number: nvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, n))  # type: ignore[misc]
        if found is not None:
            yield found


def _facts(nvml: Any, whole: Any, handle: Any, index: int, driver: str) -> DeviceFacts:
    """Return the facts of a GPU or of one of its slices; power and PCI are of the whole."""
    name = _text(nvml.nvmlDeviceGetName(handle))
    sliced = mig_profile(name)
    pci = nvml.nvmlDeviceGetPciInfo(whole)
    limit_mw = _asked(nvml, lambda: nvml.nvmlDeviceGetPowerManagementLimit(whole))
    usual_mw = _asked(nvml, lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(whole))
    memory = _asked(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    clock_mhz = _asked(nvml, lambda: nvml.nvmlDeviceGetMaxClockInfo(whole, nvml.NVML_CLOCK_SM))
    compute = _asked(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(whole))
    return DeviceFacts(
        name=name,
        backend="cuda",
        index=index,
        memory_bytes=None if memory is None else float(memory.total),
        driver=driver,
        power_limit_w=None if limit_mw is None else limit_mw / 1e3,
        default_power_limit_w=None if usual_mw is None else usual_mw / 1e3,
        mig_profile=(sliced[1] or "unknown") if sliced else None,
        pci_id=_pci_id(pci),
        pci_address=pci_address(int(pci.domain), int(pci.bus), int(pci.device)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        architecture=None if compute is None else f"sm_{compute[0]}{compute[1]}",
        clock_hz=None if clock_mhz is None else clock_mhz * 1e6,
        found_by=("nvml",),
    )


def _pci_id(pci: Any) -> str:
    """Return vendor and device, of which NVML writes the vendor into the lower half.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> _pci_id(SimpleNamespace(pciDeviceId=0x20B210DE))
    '10de:20b2'
    """
    both = int(pci.pciDeviceId)
    return f"{both & 0xFFFF:04x}:{both >> 16:04x}"


def _asked(nvml: Any, question: Callable[[], Any]) -> Any:
    """Return an answer, or None where this card or this driver does not have it."""
    try:
        return question()
    except nvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    # Old versions of the library return bytes.
    return value.decode() if isinstance(value, bytes) else value

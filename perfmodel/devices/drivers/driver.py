"""The driver's facts of the one device that PyTorch shows."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.devices.drivers.amd_smi import amd_smi_facts
from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.devices.drivers.nvml import load_nvml, nvml_facts
from perfmodel.errors import MissingExtraError

#: How far the memories of one device may lie apart in two sources.
_SAME_MEMORY = 0.1


def driver_facts(told: DeviceFacts) -> tuple[DeviceFacts | None, str | None]:
    """Ask the driver of a device's vendor for the same device.

    Parameters
    ----------
    told : DeviceFacts
        As PyTorch tells them.

    Returns
    -------
    facts : DeviceFacts or None
    problem : str or None
        Why there are none, a sentence with what to do.
    """
    try:
        if told.backend == "cuda":
            return same_device(told, nvml_facts(load_nvml())), None
        if told.backend == "rocm":
            import amdsmi

            return same_device(told, amd_smi_facts(amdsmi)), None
    except (ImportError, KeyError):
        # AMD's module fails in its own ways where its library is not installed.
        return (
            None,
            "amdsmi is not installed: it comes with ROCm (pip install /opt/rocm/share/amd_smi).",
        )
    except (MissingExtraError, OSError) as error:
        return None, str(error)
    return None, None


def same_device(told: DeviceFacts, found: Sequence[DeviceFacts]) -> DeviceFacts | None:
    """Return which of a driver's devices is the one that PyTorch shows.

    The UUID tells, then the address on the PCI bus: HIP gives UUIDs of its own, and counts devices
    in another order than AMD SMI. Without either, the position among devices of the same memory
    does, which a variable such as ``CUDA_VISIBLE_DEVICES`` can move, so a lone candidate is
    preferred.
    """
    if told.uuid:
        wanted = _bare(told.uuid)
        for one in found:
            if one.uuid and _bare(one.uuid) == wanted:
                return one
    plugged = [one for one in found if told.pci_address and one.pci_address == told.pci_address]
    if len(plugged) == 1:
        return plugged[0]
    alike = [one for one in found if _alike(told, one)]
    if len(alike) == 1:
        return alike[0]
    return next((one for one in alike if one.index == told.index), None)


def _bare(uuid: str) -> str:
    """Return the digits of a UUID: vendors put ``GPU-`` or ``MIG-`` before it."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-").replace("-", "")


def _alike(told: DeviceFacts, one: DeviceFacts) -> bool:
    if told.memory_bytes is None or one.memory_bytes is None:
        return (told.mig_profile is None) == (one.mig_profile is None)
    return abs(told.memory_bytes / one.memory_bytes - 1.0) <= _SAME_MEMORY

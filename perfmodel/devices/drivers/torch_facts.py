"""What PyTorch says about an accelerator."""

from __future__ import annotations

from typing import Any

from perfmodel.devices.aliases import mig_profile
from perfmodel.devices.drivers.device_facts import DeviceBackend, DeviceFacts, pci_address


def torch_facts(torch: Any, index: int) -> DeviceFacts:
    """Return the properties of an accelerator; fields differ between backends and versions.

    Parameters
    ----------
    torch : module
        PyTorch, or a stand-in with ``accelerator``, ``get_device_module`` and ``version``.
    index : int
        Position among its accelerators.
    """
    kind = str(torch.accelerator.current_accelerator().type)
    told = torch.get_device_module(kind).get_device_properties(index)
    sliced = mig_profile(str(told.name))
    uuid = getattr(told, "uuid", None)
    return DeviceFacts(
        name=str(told.name),
        backend=_backend(torch, kind),
        index=index,
        memory_bytes=_number(told, "total_memory"),
        driver=_text(told, "driver_version"),
        mig_profile=sliced[1] or None if sliced else None,
        pci_address=_address(told),
        uuid=None if uuid is None else str(uuid),
        architecture=_architecture(told),
        core_count=_count(told),
        cache_bytes=_number(told, "L2_cache_size"),
        clock_hz=_number(told, "clock_rate", scale=1e3),
        found_by=("torch",),
    )


def _backend(torch: Any, kind: str) -> DeviceBackend:
    if kind == "cuda":
        return "rocm" if torch.version.hip else "cuda"
    if kind == "xpu":
        return "xpu"
    raise ValueError(f"PyTorch's accelerator {kind!r} is none that perfmodel knows")


def _architecture(told: Any) -> str | None:
    amd = getattr(told, "gcnArchName", None)
    if amd:
        # "gfx90a:sramecc+:xnack-" names switches of the card behind its architecture.
        return str(amd).split(":", 1)[0]
    major = getattr(told, "major", None)
    return None if major is None else f"sm_{major}{told.minor}"


def _address(told: Any) -> str | None:
    parts: list[Any] = [
        getattr(told, f"pci_{part}_id", None) for part in ("domain", "bus", "device")
    ]
    return pci_address(*parts) if all(isinstance(part, int) for part in parts) else None


def _count(told: Any) -> int | None:
    for name in ("multi_processor_count", "gpu_subslice_count"):
        if found := getattr(told, name, None):
            return int(found)
    return None


def _number(told: Any, name: str, *, scale: float = 1.0) -> float | None:
    found = getattr(told, name, None)
    return float(found) * scale if found else None


def _text(told: Any, name: str) -> str | None:
    found = getattr(told, name, None)
    return str(found) if found else None

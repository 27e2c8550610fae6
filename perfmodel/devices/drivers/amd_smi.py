"""What AMD's driver says, through its management library (AMD SMI, part of ROCm)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from perfmodel.devices.drivers.device_facts import DeviceFacts, pci_address

_ADDRESS = re.compile(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\.[0-9a-fA-F]+")


def amd_smi_facts(amdsmi: Any) -> tuple[DeviceFacts, ...]:
    """Return the facts of every GPU.

    Parameters
    ----------
    amdsmi : module
        ``amdsmi``, or a stand-in that replays it.

    Raises
    ------
    OSError
        The driver does not answer, with its words.
    """
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException as error:
        raise OSError(f"AMD SMI does not answer: {error}") from error
    try:
        handles = amdsmi.amdsmi_get_processor_handles()
        return tuple(_facts(amdsmi, handle, index) for index, handle in enumerate(handles))
    except amdsmi.AmdSmiException as error:
        raise OSError(f"AMD SMI does not list GPUs: {error}") from error
    finally:
        amdsmi.amdsmi_shut_down()


def _facts(amdsmi: Any, handle: Any, index: int) -> DeviceFacts:
    asic = _asked(amdsmi, lambda: amdsmi.amdsmi_get_gpu_asic_info(handle))
    board = _asked(amdsmi, lambda: amdsmi.amdsmi_get_gpu_board_info(handle))
    vram = _asked(amdsmi, lambda: amdsmi.amdsmi_get_gpu_vram_info(handle))
    power = _asked(amdsmi, lambda: amdsmi.amdsmi_get_power_cap_info(handle))
    driver = _asked(amdsmi, lambda: amdsmi.amdsmi_get_gpu_driver_info(handle))
    memory_mib = _number(vram, "vram_size")
    return DeviceFacts(
        name=_text(asic, "market_name") or _text(board, "product_name") or "unknown AMD GPU",
        backend="rocm",
        index=index,
        memory_bytes=None if memory_mib is None else memory_mib * 2**20,
        driver=_text(driver, "driver_version"),
        power_limit_w=_watts(power, "power_cap"),
        default_power_limit_w=_watts(power, "default_power_cap"),
        pci_id=_pci_id(asic),
        pci_address=_address(_asked(amdsmi, lambda: amdsmi.amdsmi_get_gpu_device_bdf(handle))),
        uuid=_asked(amdsmi, lambda: amdsmi.amdsmi_get_gpu_device_uuid(handle)) or None,
        architecture=_text(asic, "target_graphics_version"),
        core_count=None if (units := _number(asic, "num_compute_units")) is None else int(units),
        found_by=("amdsmi",),
    )


def _pci_id(asic: Mapping[str, Any]) -> str | None:
    vendor, device = _text(asic, "vendor_id"), _text(asic, "device_id")
    if vendor is None or device is None:
        return None
    return f"{_hexadecimal(vendor)}:{_hexadecimal(device)}"


def _address(told: Any) -> str | None:
    """Return the address out of ``0000:43:00.0``."""
    found = _ADDRESS.fullmatch(told) if isinstance(told, str) else None
    return pci_address(*(int(part, 16) for part in found.groups())) if found else None


def _hexadecimal(text: str) -> str:
    """Return four digits, whether a version of the library writes ``0x74a1`` or 29857.

    Examples
    --------
    >>> _hexadecimal("0x74a1"), _hexadecimal("29857")
    ('74a1', '74a1')
    """
    return f"{int(text, 16 if text.startswith('0x') else 10):04x}"


def _watts(told: Mapping[str, Any], name: str) -> float | None:
    """Return watts: caps are told in microwatts, by old versions in watts."""
    found = _number(told, name)
    return None if not found else found / 1e6 if found > 1e5 else found


def _number(told: Mapping[str, Any], name: str) -> float | None:
    found = told.get(name)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _text(told: Mapping[str, Any], name: str) -> str | None:
    found = told.get(name)
    return None if found in (None, "", "N/A") else str(found)


def _asked(amdsmi: Any, question: Callable[[], Any]) -> Any:
    """Return an answer, or nothing where this card or this driver does not have it."""
    try:
        return question()
    except amdsmi.AmdSmiException:
        return {}

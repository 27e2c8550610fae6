"""NVML and AMD SMI, replayed: what their libraries return for known cards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.devices.drivers.amd_smi import amd_smi_facts
from perfmodel.devices.drivers.nvml import nvml_facts


class FakeNvmlError(Exception):
    pass


def nvml(*, mig: bool = False, **without: bool) -> Any:
    """One A100 with, or without, a slice of it; what is in ``without`` is not supported."""

    def unsupported(*_: Any) -> Any:
        raise FakeNvmlError("Not Supported")

    names = {"card": "NVIDIA A100-SXM4-80GB", "slice": "NVIDIA A100-SXM4-80GB MIG 2g.20gb"}
    answers = {
        "nvmlDeviceGetMigMode": lambda handle: [int(mig), int(mig)],
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda handle, number: (
            "slice" if number == 0 else unsupported()
        ),
        "nvmlDeviceGetPowerManagementLimit": lambda handle: 300_000,
        "nvmlDeviceGetPowerManagementDefaultLimit": lambda handle: 400_000,
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(
            total=(20 if handle == "slice" else 80) * 2**30
        ),
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1410,
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (8, 0),
    }
    return SimpleNamespace(
        NVMLError=FakeNvmlError,
        NVML_DEVICE_MIG_ENABLE=1,
        NVML_CLOCK_SM=1,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: b"535.104.05",
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: "card",
        nvmlDeviceGetName=lambda handle: names[handle],
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(
            pciDeviceId=0x20B210DE, domain=0, bus=0x43, device=0
        ),
        **{name: unsupported if name in without else answer for name, answer in answers.items()},
    )


def test_nvml_tells_card_limits_and_bus() -> None:
    (card,) = nvml_facts(nvml())
    assert (card.name, card.driver, card.pci_id) == (
        "NVIDIA A100-SXM4-80GB", "535.104.05", "10de:20b2",
    )  # fmt: skip
    assert (card.power_limit_w, card.default_power_limit_w) == (300.0, 400.0)
    assert (card.memory_bytes, card.clock_hz, card.architecture) == (80 * 2**30, 1.41e9, "sm_80")
    assert card.mig_profile is None
    assert card.pci_address == "0000:43:00"


def test_nvml_shows_slices_in_the_place_of_their_card() -> None:
    (part,) = nvml_facts(nvml(mig=True))
    assert part.mig_profile == "2g.20gb"
    assert part.memory_bytes == 20 * 2**30
    assert part.power_limit_w == 300.0


def test_what_a_card_does_not_tell_stays_unknown() -> None:
    (card,) = nvml_facts(nvml(nvmlDeviceGetPowerManagementLimit=True, nvmlDeviceGetMigMode=True))
    assert card.power_limit_w is None
    assert card.name == "NVIDIA A100-SXM4-80GB"


def test_a_driver_that_does_not_answer_says_why() -> None:
    def refuse() -> None:
        raise FakeNvmlError("Driver Not Loaded")

    broken = nvml()
    broken.nvmlInit = refuse
    with pytest.raises(OSError, match="Driver Not Loaded"):
        nvml_facts(broken)


class FakeAmdSmiError(Exception):
    pass


def test_amd_smi_tells_card_limits_and_bus() -> None:
    def unsupported(handle: object) -> Any:
        raise FakeAmdSmiError("AMDSMI_STATUS_NOT_SUPPORTED")

    amdsmi = SimpleNamespace(
        AmdSmiException=FakeAmdSmiError,
        amdsmi_init=lambda: None,
        amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: ["a"],
        amdsmi_get_gpu_asic_info=lambda handle: {
            "market_name": "N/A", "vendor_id": "0x1002", "device_id": "0x74a1",
            "num_compute_units": 304, "target_graphics_version": "gfx942",
        },
        amdsmi_get_gpu_board_info=lambda handle: {"product_name": "AMD Instinct MI300X OAM"},
        amdsmi_get_gpu_vram_info=lambda handle: {"vram_size": 196_592},
        # Microwatts: 750 W.
        amdsmi_get_power_cap_info=lambda handle: {
            "power_cap": 600_000_000, "default_power_cap": 750_000_000,
        },
        amdsmi_get_gpu_driver_info=lambda handle: {"driver_version": "6.12.12"},
        amdsmi_get_gpu_device_bdf=lambda handle: "0000:C1:00.0",
        amdsmi_get_gpu_device_uuid=unsupported,
    )  # fmt: skip
    (card,) = amd_smi_facts(amdsmi)
    assert (card.name, card.pci_id, card.architecture) == (
        "AMD Instinct MI300X OAM", "1002:74a1", "gfx942",
    )  # fmt: skip
    assert (card.power_limit_w, card.default_power_limit_w) == (600.0, 750.0)
    assert card.memory_bytes == 196_592 * 2**20
    assert (card.core_count, card.uuid, card.driver) == (304, None, "6.12.12")
    assert card.pci_address == "0000:c1:00"

    amdsmi.amdsmi_get_processor_handles = lambda: unsupported("all")
    with pytest.raises(OSError, match="AMDSMI_STATUS_NOT_SUPPORTED"):
        amd_smi_facts(amdsmi)

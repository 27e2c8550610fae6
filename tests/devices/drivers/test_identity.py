"""What drivers say, matched to the catalogue."""

from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict, spec_to_dict
from perfmodel.devices.cpu_bench import Rates
from perfmodel.devices.drivers.device_facts import DeviceFacts, merge_facts
from perfmodel.devices.drivers.driver import same_device
from perfmodel.devices.drivers.identity import _pci_names, describe, identify, own_name
from perfmodel.errors import MeasurementError

CATALOG = Catalog.default()


def facts(name: str, gib: float | None = None, **more: object) -> DeviceFacts:
    memory = None if gib is None else gib * 2**30
    return DeviceFacts(name=name, backend="cuda", memory_bytes=memory, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "gib", "accelerator"),
    [
        # Names as nvidia-smi, rocm-smi and PyTorch print them, memory as they tell it.
        ("NVIDIA A100-SXM4-80GB", 79.2, "A100-SXM4-80GB"),
        ("NVIDIA A100-PCIE-40GB", 39.4, "A100-PCIe-40GB"),
        ("NVIDIA H100 80GB HBM3", 79.1, "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", 79.1, "H100-PCIe-80GB"),
        ("Tesla V100-SXM2-16GB", 15.8, "V100-SXM2-16GB"),
        ("Tesla T4", 14.6, "T4"),
        ("NVIDIA GeForce RTX 4090", 23.5, "RTX-4090"),
        ("NVIDIA L40S", 44.4, "L40S"),
        ("AMD Instinct MI300X", 191.7, "MI300X"),
        ("AMD Instinct MI210", 63.98, "MI210"),
    ],
)
def test_names_that_drivers_print_are_known(name: str, gib: float, accelerator: str) -> None:
    found = identify(facts(name, gib), CATALOG)
    assert found.accelerator is not None
    assert found.accelerator.name == accelerator
    assert found.notes == ()


def test_memory_decides_between_cards_of_one_name() -> None:
    # "A100-SXM4" alone means the 40 GB part; 79 GiB are those of the other one.
    found = identify(facts("NVIDIA A100-SXM4", 79.2), CATALOG)
    assert found.accelerator is not None
    assert found.accelerator.name == "A100-SXM4-80GB"
    # No T4 has 48 GiB, whatever its driver says.
    odd = identify(facts("Tesla T4", 48.0), CATALOG)
    assert odd.accelerator is None
    assert "48 GiB" in odd.notes[0]


def test_the_pci_bus_tells_what_a_driver_does_not() -> None:
    amd = DeviceFacts(name="AMD Radeon Graphics", backend="rocm", pci_id="1002:74A1:1002:74a1")
    found = identify(amd, CATALOG)
    assert found.accelerator is not None
    assert found.accelerator.name == "MI300X"
    assert set(_pci_names().values()) <= set(CATALOG.names())


def test_a_slice_is_never_its_card() -> None:
    sliced = facts("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9.5, mig_profile="1g.10gb")
    found = identify(sliced, CATALOG)
    assert found.accelerator is None
    assert "1g.10gb" in found.notes[0]
    assert own_name(sliced) == "A100-SXM4-80GB-MIG-1g.10gb"


def test_a_power_cap_is_told_and_rounding_is_none() -> None:
    capped = facts("NVIDIA L4", 22.5, power_limit_w=50.0, default_power_limit_w=72.0)
    assert identify(capped, CATALOG).power_limit_w == 50.0
    usual = facts("NVIDIA L4", 22.5, power_limit_w=71.5, default_power_limit_w=72.0)
    assert identify(usual, CATALOG).power_limit_w is None


def test_an_unknown_card_becomes_an_entry_that_can_be_saved() -> None:
    unknown = facts("NVIDIA A900-SXM4-80GB", 79.2, architecture="sm_80", found_by=("nvml",))
    assert identify(unknown, CATALOG).accelerator is None
    rates = Rates(
        gemm_flops_per_s={"fp32": 1.8e13, "bf16": 2.5e14},
        bandwidth_bytes_per_s=1.7e12,
        engine="torch",
    )
    spec = describe(unknown, rates)
    assert spec.name == "A900-SXM4-80GB"
    assert spec_from_dict(spec_to_dict(spec)) == spec
    assert CATALOG.with_own([spec], {}).get("NVIDIA A900-SXM4-80GB") == spec
    with pytest.raises(MeasurementError, match="how much memory"):
        describe(facts("NVIDIA A900-SXM4-80GB"), rates)


def test_the_same_device_is_found_by_its_uuid_then_by_its_memory() -> None:
    driver = [
        facts("NVIDIA L4", 22.5, index=0, uuid="GPU-AA-1"),
        facts("NVIDIA L4", 22.5, index=1, uuid="GPU-BB-2"),
        facts("NVIDIA A100-SXM4-80GB", 79.2, index=2, uuid="GPU-CC-3"),
    ]
    # CUDA_VISIBLE_DEVICES=1 makes the second card PyTorch's first.
    assert same_device(facts("NVIDIA L4", 22.0, index=0, uuid="bb-2"), driver) == driver[1]
    assert same_device(facts("NVIDIA A100", 79.1, index=0), driver) == driver[2]
    assert same_device(facts("NVIDIA L4", 22.0, index=1), driver) == driver[1]
    assert same_device(facts("NVIDIA B200", 178.0, index=0), driver) is None


def test_equal_devices_are_told_apart_by_where_they_are_plugged_in() -> None:
    driver = [
        facts("MI300X", 192.0, index=i, uuid=f"{i}-amd", pci_address=f"0000:{i}0:00")
        for i in range(3)
    ]
    # HIP counts in another order, hides some, and gives UUIDs of its own.
    told = facts("MI300X", 191.7, index=0, uuid="hip-9", pci_address="0000:20:00")
    assert same_device(told, driver) == driver[2]


def test_facts_of_the_driver_stand_before_those_of_torch() -> None:
    both = merge_facts(
        facts("NVIDIA L4", 22.5, driver="580.65", found_by=("nvml",)),
        facts("NVIDIA L4", 22.0, core_count=58, found_by=("torch",)),
    )
    assert (both.memory_bytes, both.core_count, both.driver) == (22.5 * 2**30, 58, "580.65")
    assert both.found_by == ("nvml", "torch")

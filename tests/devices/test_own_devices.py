"""An operator's own devices and aliases, beside the shipped catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict
from perfmodel.errors import InvalidInputError, TakenNameError, UnknownAcceleratorError

OURS = spec_from_dict(
    {
        "name": "Ours-64GB", "kind": "npu", "vendor": "us", "architecture": "v1",
        "form_factor": "PCIe", "peak_flops": {"bf16": 2e14}, "memory_bytes": 64 * 2**30,
        "bandwidth_bytes_per_s": 2e12,
    }
)  # fmt: skip
SHIPPED = Catalog.default()


def test_own_devices_are_found_by_their_names_and_aliases() -> None:
    catalog = SHIPPED.with_own([OURS], {"the fast one": "Ours-64GB", "old": "T4"})
    assert catalog.get("ours 64gb") is OURS
    assert catalog.get("The-Fast-One") is OURS
    assert catalog.get("old") is SHIPPED.get("T4")
    assert catalog.own() == ((OURS,), {"the fast one": "Ours-64GB", "old": "T4"})
    assert catalog.shipped is SHIPPED
    with pytest.raises(UnknownAcceleratorError):
        SHIPPED.get("Ours-64GB")


def test_what_is_added_replaces_what_was_added_before() -> None:
    first = SHIPPED.with_own([OURS], {"a": "Ours-64GB"})
    slower = replace(OURS, bandwidth_bytes_per_s=1e12)
    second = first.with_own([slower], {})
    assert second.get("Ours-64GB") is slower
    assert "a" not in second
    assert list(second.with_own([], {})) == list(SHIPPED)


def test_what_stays_the_same_stays_the_same_object() -> None:
    first = SHIPPED.with_own([OURS], {})
    assert first.with_own([replace(OURS)], {}) is first
    second = first.with_own([replace(OURS)], {"a": "Ours-64GB"})
    assert second.get("a") is OURS


@pytest.mark.parametrize(
    "name", ["T4", "gpu:h100", "h100-sxm5_80gb", "NVIDIA A100 80GB PCIe", "local", "cpu", "CPU"]
)
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(TakenNameError, match="Take another name"):
        SHIPPED.with_own([replace(OURS, name=name)], {})
    with pytest.raises(TakenNameError):
        SHIPPED.with_own([OURS], {name: "Ours-64GB"})


def test_other_names_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="MIG"):
        SHIPPED.with_own([replace(OURS, name="A100-MIG-1g.10gb")], {})
    with pytest.raises(InvalidInputError, match="no device"):
        SHIPPED.with_own([], {"a": "Ours-64GB"})
    with pytest.raises(InvalidInputError, match="means both"):
        SHIPPED.with_own([OURS, replace(OURS, name="ours 64gb")], {})


def test_a_shipped_device_that_came_later_stands() -> None:
    # The operator was first, then a model brought a device of that name.
    catalog = SHIPPED.with_own([OURS], {"a": "Ours-64GB", "b": "T4", "c": "Ours-64GB"})
    shipped = replace(OURS, memory_bytes=2.0**35)
    newer = catalog.with_device(shipped)
    assert newer.get("Ours-64GB") is shipped
    assert newer.own() == ((), {"a": "Ours-64GB", "b": "T4", "c": "Ours-64GB"})
    # An alias whose name was taken is gone, the others stay.
    named = catalog.with_device(replace(OURS, name="b"))
    assert named.own() == ((OURS,), {"a": "Ours-64GB", "c": "Ours-64GB"})
    assert named.get("b").name == "b"


def test_another_local_machine_keeps_them() -> None:
    catalog = SHIPPED.with_own([OURS], {"a": "Ours-64GB"}).with_local(None)
    assert catalog.get("a") is OURS
    assert "local" not in catalog

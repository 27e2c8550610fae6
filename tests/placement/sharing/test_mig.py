from __future__ import annotations

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.sharing.mig import (
    core_part,
    mig_part,
    part_accelerator,
    part_slowdown,
    share_part,
)

CATALOG = Catalog.default()
A100 = CATALOG.get("A100-SXM4-40GB")


@pytest.mark.parametrize(
    ("card", "profile", "sms", "eighths"),
    [
        ("A100-SXM4-40GB", "1g.5gb", 14, 1),
        ("A100-SXM4-40GB", "1g.10gb", 14, 2),
        ("A100-SXM4-40GB", "2g.10gb", 28, 2),
        ("A100-SXM4-40GB", "3g.20gb", 42, 4),
        ("A100-SXM4-40GB", "4g.20gb", 56, 4),
        ("A100-SXM4-40GB", "7g.40gb", 98, 8),
        ("A100-PCIe-80GB", "1g.10gb", 14, 1),
        ("H100-SXM5-80GB", "1g.10gb", 16, 1),
        ("H100-SXM5-80GB", "7g.80gb", 132, 8),
        ("H100-NVL-94GB", "3g.47gb", 48, 4),
        ("H200-SXM", "3g.71gb", 48, 4),
        ("A30", "1g.6gb", 14, 2),
        ("A30", "4g.24gb", 56, 8),
    ],
)
def test_profiles_by_the_table(card: str, profile: str, sms: int, eighths: int) -> None:
    spec = CATALOG.get(card)
    part = mig_part(spec, profile)
    assert round(part.sm_share * (spec.core_count or 0)) == sms
    assert part.memory_share == part.bandwidth_share == eighths / 8


def test_a_part_of_the_sms_of_a_slice_keeps_its_memory() -> None:
    part, whole = mig_part(A100, "1c.3g.20gb"), mig_part(A100, "3g.20gb")
    assert part.sm_share == pytest.approx(whole.sm_share / 3)
    assert part.memory_share == whole.memory_share


def test_a_slice_is_an_accelerator_with_less_of_everything() -> None:
    spec = part_accelerator(A100, mig_part(A100, "2g.10gb"))
    assert spec.name == "A100-SXM4-40GB/2g.10gb" and spec.core_count == 28
    assert spec.peak_flops["fp32"] == pytest.approx(A100.peak_flops["fp32"] * 28 / 108)
    assert spec.memory_bytes == A100.memory_bytes / 4
    assert spec.bandwidth_bytes_per_s == A100.bandwidth_bytes_per_s / 4
    assert spec.link is None and A100.link is not None


def test_a_share_keeps_the_links_and_more_of_the_bandwidth() -> None:
    spec = part_accelerator(A100, share_part(0.25))
    assert spec.link == A100.link
    assert spec.bandwidth_bytes_per_s == A100.bandwidth_bytes_per_s / 2
    assert part_accelerator(A100, share_part(1.0)).peak_flops == A100.peak_flops


@pytest.mark.parametrize("profile", ["5g.20gb", "1g.7gb"])
def test_a_profile_that_the_card_does_not_offer_is_refused(profile: str) -> None:
    with pytest.raises(InvalidPlacementError, match=r"1g\.5gb.*7g\.40gb"):
        mig_part(A100, profile)


def test_a_card_without_mig_is_refused() -> None:
    with pytest.raises(InvalidPlacementError, match="fraction"):
        mig_part(CATALOG.get("V100-SXM2-16GB"), "1g.5gb")


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(fraction: float) -> None:
    with pytest.raises(InvalidPlacementError, match="fraction"):
        share_part(fraction)


def test_a_larger_slice_is_never_slower_and_none_is_faster_than_the_whole() -> None:
    mixes = np.linspace(0, 1, 5)
    slow = [
        part_slowdown(mig_part(A100, profile), np.full(5, 0.9), mixes, 1 - mixes)
        for profile in ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
    ]
    assert np.all(np.diff(slow, axis=0) <= 0) and np.all(np.array(slow) >= 1)


def test_a_step_that_waits_for_its_host_loses_nothing() -> None:
    # Busy for a tenth: on a half it is busy for a fifth.
    assert part_slowdown(share_part(0.5), np.array([0.1]), np.ones(1), np.zeros(1))[0] == 1.0
    assert part_slowdown(share_part(1.0), np.ones(1), np.ones(1), np.zeros(1))[0] == 1.0


def test_cores_of_a_cpu_are_a_part_with_all_the_memory() -> None:
    spec = Catalog.default().get("EPYC-9654")
    part = core_part(spec, 8)
    assert part is not None
    # 8 of 96 cores draw at most a sixth of the bandwidth.
    assert (part.sm_share, part.bandwidth_share, part.memory_share) == (8 / 96, 16 / 96, 1.0)
    held = part_accelerator(spec, part)
    assert (held.name, held.core_count) == ("EPYC-9654/8-cores", 8)
    assert held.memory_bytes == spec.memory_bytes
    assert core_part(spec, 96) is None and core_part(spec, 200) is None

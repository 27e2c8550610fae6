from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.fabric.host_link import (
    has_optional_bridge,
    link_of,
    slot_bytes_per_s,
)
from perfmodel.placement.topology.links import (
    FAMILIES,
    GENERATIONS,
    LINKS,
    LinkClass,
    check_link_name,
    link_names,
    pcie_bytes_per_s,
)

CATALOG = Catalog.default()


def test_pcie_doubles_with_each_generation_and_halves_with_the_lanes() -> None:
    # 8 GT/s x 128/130 / 8 bit = 0.985 GB/s a lane; the catalogue of devices rounds to 15.75 GB/s.
    assert pcie_bytes_per_s(3) == pytest.approx(15.75e9)
    assert pcie_bytes_per_s(5) == 4 * pcie_bytes_per_s(3)
    assert pcie_bytes_per_s(4, 8) == pcie_bytes_per_s(4) / 2


@pytest.mark.parametrize(
    ("accelerator", "name", "link_class", "gigabytes_per_s"),
    [
        ("P100-SXM2-16GB", "nvlink1-mesh", LinkClass.NVLINK, 80),
        ("V100-SXM2-16GB", "nvlink2-mesh", LinkClass.NVLINK, 150),
        ("V100-SXM3-32GB", "nvswitch2", LinkClass.NVSWITCH, 150),
        ("A100-SXM4-80GB", "nvswitch3", LinkClass.NVSWITCH, 300),
        ("H100-SXM5-80GB", "nvswitch4", LinkClass.NVSWITCH, 450),
        ("B200-SXM", "nvswitch5", LinkClass.NVSWITCH, 900),
        ("GB200", "nvswitch5", LinkClass.NVSWITCH, 900),
        ("H100-NVL-94GB", "nvlink4-bridge", LinkClass.NVLINK_PAIR, 300),
        ("RTX-A6000", "pcie4", LinkClass.PCIE, 31.5),
        ("RTX-3090", "none", LinkClass.NONE, 15.75),
        ("T4", "pcie3", LinkClass.PCIE, 15.75),
        ("A2", "pcie4-x8", LinkClass.PCIE, 15.75),
        ("MI100", "xgmi2", LinkClass.XGMI, 138),
        ("MI300X", "xgmi4", LinkClass.XGMI, 448),
        ("TPU-v5p", "ici-v5p", LinkClass.ICI, 600),
    ],
)
def test_an_accelerator_has_the_link_it_comes_with(
    accelerator: str, name: str, link_class: LinkClass, gigabytes_per_s: float
) -> None:
    link = link_of(CATALOG.get(accelerator))
    assert (link.name, link.link_class) == (name, link_class)
    assert link.bytes_per_s == pytest.approx(gigabytes_per_s * 1e9)


@pytest.mark.parametrize("accelerator", CATALOG.names())
def test_every_accelerator_has_links_with_finite_rates(accelerator: str) -> None:
    spec = CATALOG.get(accelerator)
    for written in (None, "none", spec.link, "pcie" if spec.pcie_generation else None):
        link = link_of(spec, written)
        assert 0 < link.bytes_per_s < np.inf
        assert 0 < link.latency_s < 1e-3
        assert np.isfinite(link.bandwidth(np.arange(1, 65))).all()


@pytest.mark.parametrize(
    ("accelerator", "written", "name"),
    [
        ("A100-SXM4-80GB", "nvlink", "nvswitch3"),
        ("A100-SXM4-80GB", "NVLink3", "nvswitch3"),
        ("A100-SXM4-80GB", "nvswitch", "nvswitch3"),
        ("A100-SXM4-80GB", "nvlink3-mesh", "nvlink3-mesh"),
        ("V100-SXM2-16GB", "nvlink2", "nvlink2-mesh"),
        ("V100-SXM2-16GB", "nvswitch2", "nvswitch2"),
        ("RTX-3090", "nvlink", "nvlink3-bridge"),
        ("RTX-3090", "nvlink3-bridge", "nvlink3-bridge"),
        ("A100-PCIe-80GB", "nvlink3", "nvlink3-bridge"),
        ("A100-SXM4-80GB", "pcie", "pcie4"),
        ("A100-SXM4-80GB", "pcie3", "pcie3"),
        ("MI300X", "xgmi", "xgmi4"),
        ("TPU-v4", "ici", "ici-v4"),
    ],
)
def test_a_written_link_means_what_the_carrier_has_of_it(
    accelerator: str, written: str, name: str
) -> None:
    assert link_of(CATALOG.get(accelerator), written).name == name


@pytest.mark.parametrize(
    ("accelerator", "written"),
    [
        ("T4", "nvlink"),
        ("A100-SXM4-80GB", "nvlink4"),
        ("A100-SXM4-80GB", "nvlink3-bridge"),
        ("RTX-3090", "nvswitch3"),
        ("RTX-3090", "nvlink3-mesh"),
        ("MI300X", "nvlink"),
        ("TPU-v4", "ici-v5p"),
    ],
)
def test_a_link_that_an_accelerator_has_not_is_refused(accelerator: str, written: str) -> None:
    spec = CATALOG.get(accelerator)
    with pytest.raises(InvalidPlacementError, match=f"{spec.name} has no {written}") as caught:
        link_of(spec, written, pointer="/here")
    assert caught.value.pointer == "/here"
    for offered in caught.value.allowed:
        link_of(spec, offered)


def test_every_name_is_known_in_any_case() -> None:
    for name in link_names():
        assert check_link_name(f" {name.upper()} ") == name
        assert (name in LINKS) + (name in FAMILIES) + (name in GENERATIONS) == 1


def test_an_unknown_name_comes_with_the_nearest_ones() -> None:
    with pytest.raises(InvalidPlacementError, match="Did you mean 'nvswitch3'"):
        check_link_name("nvswtch3")


def test_a_newer_slot_makes_no_card_faster() -> None:
    assert link_of(CATALOG.get("T4"), "pcie5").bytes_per_s == pcie_bytes_per_s(3)
    assert link_of(CATALOG.get("A100-SXM4-80GB"), "pcie3").bytes_per_s == pcie_bytes_per_s(3)


def test_cards_without_peer_access_go_through_the_host() -> None:
    assert link_of(CATALOG.get("RTX-4090"), "pcie4") == link_of(CATALOG.get("RTX-4090"), "none")
    assert link_of(CATALOG.get("RTX-4090"), "pcie3").bytes_per_s == pcie_bytes_per_s(3) / 2


def test_the_way_through_the_host_takes_half_of_the_slot() -> None:
    assert link_of(CATALOG.get("T4"), "none").bytes_per_s == pcie_bytes_per_s(3) / 2


def test_few_ranks_of_a_mesh_use_few_of_its_links() -> None:
    # Seven links of 64 GB/s, one to each neighbour; three ranks use two of them.
    mesh = link_of(CATALOG.get("MI300X"))
    assert mesh.bandwidth([2, 3, 8]).tolist() == [64e9, 128e9, 448e9]
    # Through a switch all links reach whoever is there.
    switch = link_of(CATALOG.get("H100"))
    assert switch.bandwidth([2, 8]).tolist() == [450e9, 450e9]


def test_a_bridge_joins_two_and_pcie_the_rest() -> None:
    bridge = link_of(CATALOG.get("RTX-A6000"), "nvlink")
    assert bridge.bandwidth([2, 3, 4]).tolist() == [56e9, 31.5e9, 31.5e9]
    # Cards without access to each other over PCIe go through the memory of the host.
    bridge = link_of(CATALOG.get("RTX-3090"), "nvlink")
    assert bridge.bandwidth([2, 3, 4]).tolist() == [56e9, 15.75e9, 15.75e9]
    # The bridge of an H200 NVL joins four: one of three neighbours has a third of it.
    four = link_of(CATALOG.get("H200-NVL"))
    assert four.bandwidth([2, 4, 5]).tolist() == [150e9, 450e9, 63e9]


@given(st.sampled_from(sorted(LINKS)), st.integers(2, 64), st.floats(0.0, 3.0))
def test_the_steady_form_never_rewards_more_ranks(name: str, ranks: int, once: float) -> None:
    link = LINKS[name]
    few, more = link.bandwidth([ranks, ranks + 1], steady=True)
    # Time of an exchange over the rate, with what every rank does once:
    # (c + (n - 1) / n) / bandwidth.
    assert (once + (ranks - 1) / ranks) / few <= (once + ranks / (ranks + 1)) / more * (1 + 1e-12)
    assert few >= link.bandwidth(ranks)


def test_bridges_that_are_sold_apart_are_told_from_those_that_are_not() -> None:
    assert has_optional_bridge(CATALOG.get("RTX-3090"))
    assert not has_optional_bridge(CATALOG.get("H200-NVL"))
    assert not has_optional_bridge(CATALOG.get("A100"))


def test_an_accelerator_reaches_the_network_through_its_slot() -> None:
    assert slot_bytes_per_s(CATALOG.get("T4")) == pcie_bytes_per_s(3)
    assert slot_bytes_per_s(CATALOG.get("TPU-v4")) == np.inf

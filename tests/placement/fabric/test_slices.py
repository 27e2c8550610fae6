"""Hosts beyond the largest set that their accelerators' own link joins."""

from __future__ import annotations

import pytest

from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.topology.parse import parse_placement


@pytest.mark.parametrize(
    ("text", "largest", "between"),
    [
        # 64 hosts of 4 are a slice of 256; two of them have 64 x 2 x 25 GB/s each between them.
        ("128x(4xTPU-v6e)", 256, 64 * 2 * 25e9),
        ("96x(4xTPU-v6e)", 192, 48 * 2 * 25e9),
        # 18 hosts of 4 are a rack of 72, with four adapters of 50 GB/s a host.
        ("36x(4xGB200)", 72, 18 * 4 * 50e9),
    ],
)
def test_whole_slices_are_joined_by_the_networks_of_their_hosts(
    text: str, largest: int, between: float
) -> None:
    fabric = Fabric.of(parse_placement(text))
    group = fabric.slowest_group(Dimension.DATA)
    assert group.hosts.tolist() == [2.0]
    assert group.largest_share.tolist() == [largest]
    assert fabric.network is not None
    assert fabric.network.bandwidth_bytes_per_s == between
    (said,) = fabric.warnings
    assert said.startswith(f"2 sets of {largest} ")


def test_one_slice_needs_no_network() -> None:
    fabric = Fabric.of(parse_placement("64x(4xTPU-v6e)"))
    assert fabric.network is None and not fabric.warnings
    assert fabric.slowest_group(Dimension.DATA).hosts.tolist() == [1.0]


@pytest.mark.parametrize("text", ["65x(4xTPU-v6e)", "128x(4xTPU-v6e)@2xeth-200g"])
def test_unequal_slices_and_hosts_with_a_network_are_apart(text: str) -> None:
    group = Fabric.of(parse_placement(text)).slowest_group(Dimension.DATA)
    assert group.largest_share.tolist() == [4.0]

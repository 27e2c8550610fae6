from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.networks import (
    NETWORKS,
    default_network,
    named_network,
    network_class,
)
from perfmodel.placement.topology.topology import Network

CATALOG = Catalog.default()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_name_says_the_rate_of_a_host(name: str) -> None:
    network = named_network(name)
    gbit = int(name.rpartition("-")[2].removesuffix("g"))
    assert network.name == name
    assert network.bandwidth_bytes_per_s == gbit * 1e9 / 8
    assert network.oversubscription == 1.0


def test_adapters_add_up() -> None:
    # 8 x 200 Gbit/s / 8 bit = 200 GB/s.
    eight = named_network("8 x IB-200G")
    assert (eight.bandwidth_bytes_per_s, eight.rails, eight.name) == (200e9, 8, "8xib-200g")
    assert named_network("ib-1600g").bandwidth_bytes_per_s == eight.bandwidth_bytes_per_s
    assert named_network("1xib-200g") == named_network("ib-200g")


@pytest.mark.parametrize("name", ["0xib-200g", "65xib-200g", "2x8xib-200g", "8xib-3200g", "ib200"])
def test_nonsense_is_refused_where_it_stands(name: str) -> None:
    with pytest.raises(InvalidPlacementError) as caught:
        named_network(name, pointer="/here")
    assert caught.value.pointer == "/here"


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (named_network("ib-400g"), LinkClass.RDMA),
        (named_network("8xroce-400g"), LinkClass.RDMA),
        (named_network("efa-400g"), LinkClass.RDMA),
        (named_network("4xeth-25g"), LinkClass.ETHERNET),
        (Network(bandwidth_bytes_per_s=1e9, latency_s=5e-6), LinkClass.RDMA),
        (Network(bandwidth_bytes_per_s=1e9, latency_s=5e-5), LinkClass.ETHERNET),
        (Network(bandwidth_bytes_per_s=1e9, latency_s=5e-6, name="eth-mine"), LinkClass.ETHERNET),
    ],
)
def test_the_class_comes_from_the_name_else_from_the_latency(
    network: Network, expected: LinkClass
) -> None:
    assert network_class(network) is expected


@pytest.mark.parametrize(
    ("accelerators", "name"),
    [
        (["H100"], "8xib-400g"),
        (["A100-SXM4-80GB"], "8xib-200g"),
        (["V100-SXM2-16GB"], "ib-100g"),
        (["B300-SXM"], "8xib-800g"),
        (["MI300X"], "8xib-400g"),
        (["A100-PCIe-40GB"], "eth-100g"),
        (["GB200"], "4xib-400g"),
        (["L4"], "eth-100g"),
        (["T4"], "eth-25g"),
        (["RTX-4090"], "eth-10g"),
        (["TPU-v5e"], "eth-100g"),
        (["H100", "T4"], "eth-25g"),
    ],
)
def test_hosts_are_joined_by_what_they_usually_have(accelerators: list[str], name: str) -> None:
    assert default_network([CATALOG.get(one) for one in accelerators]).name == name

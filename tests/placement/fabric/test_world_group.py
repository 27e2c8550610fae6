from __future__ import annotations

import itertools
from dataclasses import fields

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.host_link import link_of, slot_bytes_per_s
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Network, Node, Placement

NETWORKS = (
    None,
    named_network("ib-400g"),
    Network(bandwidth_bytes_per_s=1e9, latency_s=3e-5, oversubscription=4.0, rails=2),
)
TEXTS = (
    "8xA100+4xV100",
    "A100+T4",
    "(1+1+4)xT4@eth-10g/2",
    "(4+2)xA100-SXM4-80GB@ib-200g",
    "3x(8xH100-SXM5-80GB)+2x(1xMI300X)+RTX-3090@efa-400g",
    "2xV100[nvlink]+3xV100[pcie]@eth-25g",
    "4xGB200+2xGB200@ib-400g",
    "64xL4+2xA10",
)


def test_equal_hosts_are_what_the_groups_say() -> None:
    catalog, seen = Catalog.default(), set()
    for name, network in itertools.product(catalog.names(), NETWORKS):
        spec = catalog.get(name)
        links = (link_of(spec), slot_bytes_per_s(spec), network)
        if network and links in seen:  # what is assumed without one follows the accelerator too
            continue
        seen.add(links)
        for count, repeat in ((1, 1), (2, 1), (8, 1), (40, 1), (1, 2), (4, 3), (8, 9)):
            node = Node(accelerator=name, count=count, repeat=repeat)
            fabric = Fabric.of(Placement(nodes=(node,), network=network))
            same(fabric.world, fabric.slowest_group(Dimension.WORLD))


def test_unlike_hosts_are_what_the_groups_say() -> None:
    for text in TEXTS:
        fabric = Fabric.of(parse_placement(text))
        same(fabric.world, fabric.slowest_group(Dimension.WORLD))


def test_the_fullest_host_is_a_group_of_its_own() -> None:
    several = Fabric.of(parse_placement("3x(4xA100)@ib-100g")).world_group
    one = Fabric.of(parse_placement("4xA100")).world_group
    assert (several.ranks, several.hosts) == (12.0, 3.0)
    assert several.fullest_host == one == one.fullest_host


def same(one: CommGroups, other: CommGroups) -> None:
    """Compare two columns of groups exactly."""
    for field in fields(CommGroups):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert mine.tolist() == theirs.tolist(), field.name

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.topology.equal_hosts import world_of_equal_hosts
from perfmodel.placement.topology.fabric import Fabric
from perfmodel.placement.topology.groups import CommGroups
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.rank_groups import Dimension
from perfmodel.placement.topology.topology import Network, Node, Placement

NETWORKS = (
    None,
    named_network("ib-400g"),
    Network(bandwidth_bytes_per_s=1e9, latency_s=3e-5, oversubscription=4.0, rails=2),
)


@pytest.mark.parametrize("name", Catalog.default().names())
def test_the_closed_form_is_what_the_groups_say(name: str) -> None:
    for network in NETWORKS:
        for count, repeat in ((1, 1), (2, 1), (8, 1), (40, 1), (1, 2), (4, 3), (8, 9)):
            node = Node(accelerator=name, count=count, repeat=repeat)
            fabric = Fabric.of(Placement(nodes=(node,), network=network))
            assert fabric.equal_hosts is not None
            kind, here, hosts = fabric.equal_hosts
            same(world_of_equal_hosts(kind, [here], [hosts]), fabric.slowest_group(Dimension.WORLD))


def test_many_placements_at_once_are_as_one_by_one() -> None:
    fabric = Fabric.of(Placement(nodes=(Node(accelerator="A100", count=8, repeat=2),)))
    assert fabric.equal_hosts is not None
    kind = fabric.equal_hosts[0]
    many = world_of_equal_hosts(kind, [8, 8, 4], [1, 2, 9])
    for row, (count, repeat) in enumerate(((8, 1), (8, 2), (4, 9))):
        same(many.take(np.array([row])), world_of_equal_hosts(kind, [count], [repeat]))


def test_unlike_hosts_are_not_equal() -> None:
    nodes = (Node(accelerator="A100", count=8), Node(accelerator="A100", count=4))
    assert Fabric.of(Placement(nodes=nodes)).equal_hosts is None


def same(one: CommGroups, other: CommGroups) -> None:
    """Compare two columns of groups exactly."""
    for field in fields(CommGroups):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert mine.tolist() == theirs.tolist(), field.name

from __future__ import annotations

from dataclasses import fields

import pytest

from perfmodel.placement.topology.fabric import Fabric
from perfmodel.placement.topology.groups import CommGroups
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.rank_groups import Dimension
from perfmodel.placement.topology.unlike_hosts import links_of_world

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


@pytest.mark.parametrize("text", TEXTS)
def test_plain_numbers_are_what_the_groups_say(text: str) -> None:
    fabric = Fabric.of(parse_placement(text))
    assert fabric.equal_hosts is None
    world = fabric.slowest_group(Dimension.WORLD)
    least = min(node.count for node in fabric.placement.nodes)
    links = links_of_world(fabric.hosts, fabric.network)
    found = links.groups([fabric.accelerator_count], float(least))
    for field in fields(CommGroups):
        mine, theirs = getattr(found, field.name), getattr(world, field.name)
        assert mine.tolist() == theirs.tolist(), field.name

from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import (
    FormCurve,
    collective_time_s,
    fastest_s,
    form_curves,
)
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks, world_columns
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.topology import Network, Node, Placement

SIZES = (0.0, 1.0, 4e3, 1e6, 2.6e7, 1e9)
SHARING = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
NETWORKS = (named_network("ib-400g"), named_network("eth-10g"))


def group(
    share: float, hosts: float, link: LinkClass, rate: float, ranks: float | None = None
) -> WorldGroup:
    """Ranks that a link joins inside hosts and InfiniBand between them."""
    several = hosts > 1
    links = WorldLinks(
        largest_share=share, intra_class=int(link),
        inter_class=int(LinkClass.RDMA if several else LinkClass.NONE),
        intra_bytes_per_s=rate, intra_latency_s=2e-6,
        inter_bytes_per_s=2.5e10 if several else float("inf"),
        inter_latency_s=4e-6 if several else 0.0,
    )  # fmt: skip
    return WorldGroup(share * hosts if ranks is None else ranks, hosts, links)


GROUPS = (
    *(group(n, 1.0, LinkClass.NVSWITCH, 4.5e11) for n in (1.0, 2.0, 8.0)),
    *(group(n, 1.0, LinkClass.PCIE, 1.2e10) for n in (1.0, 2.0, 8.0)),
    group(4.0, 3.0, LinkClass.NVLINK, 1.5e11),
    group(1.0, 3.0, LinkClass.NVLINK, 1.5e11),
    group(8.0, 70.0, LinkClass.NVSWITCH, 4.5e11),
    group(8.0, 3.0, LinkClass.NONE, 6e9, ranks=13.0),
)


def _on(name: str, count: int, repeat: int, network: Network | None) -> WorldGroup:
    node = Node(accelerator=name, count=count, repeat=repeat)
    return Fabric.of(Placement(nodes=(node,), network=network)).world_group


def test_curves_are_the_columns_in_plain_numbers_on_every_accelerator() -> None:
    cases = ((8, 1, None), *((4, 5, network) for network in NETWORKS))
    # Accelerators with the same links are one group.
    groups = {_on(name, *case) for name in Catalog.default().names() for case in cases}
    for asked in (*GROUPS, *groups):
        for collective in SHARING:
            times = collective_time_s(collective, SIZES, world_columns([asked]))
            found = fastest_s(form_curves(collective, asked), SIZES)
            assert found == pytest.approx(times.tolist(), rel=1e-14), (collective, asked)


def test_one_rank_has_no_curves() -> None:
    first, *others = (form_curves(Collective.ALL_REDUCE, one) for one in GROUPS[:3])
    assert first == ()
    assert fastest_s(first, [1e9]) == [0.0]
    # Ring, tree, and the switch that reduces.
    assert [len(curves) for curves in others] == [3, 3]


def test_a_knee_gives_back_what_is_not_yet_paid() -> None:
    # 1e-5 + 1e-9 * 1e4 - 4e-10 / (1e-5 + 3e-5) = 1e-5 + 1e-5 - 1e-5.
    curve = FormCurve(1e-5, 1e-9, ((4e-10, 3e-5),))
    assert fastest_s([curve], [1e4]) == [pytest.approx(1e-5)]

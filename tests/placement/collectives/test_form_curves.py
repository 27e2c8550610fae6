from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.collectives.collectives import Collective, collective_time_s
from perfmodel.placement.collectives.form_curves import FormCurve, fastest_s, form_curves
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.topology import Node, Placement

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


@pytest.mark.parametrize("collective", SHARING)
@pytest.mark.parametrize("asked", GROUPS)
def test_curves_are_the_columns_in_plain_numbers(collective: Collective, asked: WorldGroup) -> None:
    columns = asked.columns()
    for size, found in zip(SIZES, fastest_s(form_curves(collective, asked), SIZES), strict=True):
        assert found == pytest.approx(collective_time_s(collective, size, columns)[0], rel=1e-14)


@pytest.mark.parametrize("name", Catalog.default().names())
def test_so_they_are_on_every_accelerator(name: str) -> None:
    for count, repeat, network in ((8, 1, None), *((4, 5, network) for network in NETWORKS)):
        node = Node(accelerator=name, count=count, repeat=repeat)
        asked = Fabric.of(Placement(nodes=(node,), network=network)).world_group
        for collective in SHARING:
            times = [collective_time_s(collective, size, asked.columns())[0] for size in SIZES]
            found = fastest_s(form_curves(collective, asked), SIZES)
            assert found == pytest.approx(times, rel=1e-14)


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

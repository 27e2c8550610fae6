from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from work_done import calls_of

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError, UnknownAcceleratorError
from perfmodel.placement.collectives.collective_constants import CollectiveConstants
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.fabric.world_group import scaling_groups, world_columns
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.networks import NETWORKS, named_network
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Network, Node, Placement, Plan

CATALOG = Catalog.default()


def fabric(text: str) -> Fabric:
    return Fabric.of(parse_placement(text), CATALOG, latencies={})


def row(groups: CommGroups, position: int = 0) -> dict[str, float]:
    return {name: float(getattr(groups, name)[position]) for name in CommGroups.__slots__}


def test_hosts_are_looked_up_and_counted() -> None:
    found = fabric("2x(8xA100)+4xV100@ib-100g")
    assert (found.placement.accelerator_count, found.placement.host_count) == (20, 3)
    assert [one.name for one in found.accelerators] == ["A100-SXM4-40GB", "V100-SXM2-16GB"]
    assert [one.link.name for one in found.hosts] == ["nvswitch3", "nvlink2-mesh"]


def test_what_is_wrong_is_pointed_at() -> None:
    with pytest.raises(UnknownAcceleratorError) as unknown:
        fabric("A100+nowhere")
    assert unknown.value.pointer == "/placement/nodes/1/accelerator"
    with pytest.raises(InvalidPlacementError) as impossible:
        fabric("A100+2xT4[nvlink]")
    assert impossible.value.pointer == "/placement/nodes/1/link"


def test_one_host_needs_no_network() -> None:
    groups = fabric("8xH100@ib-400g").groups(Dimension.WORLD)
    assert row(groups) == {
        "ranks": 8, "hosts": 1, "largest_share": 8,
        "intra_class": LinkClass.NVSWITCH, "inter_class": LinkClass.NONE,
        "intra_bytes_per_s": 450e9, "intra_latency_s": 2e-6,
        "inter_bytes_per_s": np.inf, "inter_latency_s": 0,
    }  # fmt: skip


def test_learned_latencies_take_the_place_of_stated_ones() -> None:
    placement, spec = parse_placement("8xH100"), CATALOG.get("H100")
    learned = {"nvswitch4": 7e-6, "pcie4": 1.0}
    groups = Fabric.of(placement, CATALOG, latencies=learned).groups(Dimension.WORLD)
    assert groups.intra_latency_s.tolist() == [7e-6]
    assert scaling_groups(spec, [8], 8, latencies=learned).intra_latency_s.tolist() == [7e-6]
    fitted = CollectiveConstants.fitted().link_latency_s["nvswitch4"]
    assert scaling_groups(spec, [8], 8).intra_latency_s.tolist() == [fitted]


def test_tensor_ranks_stay_in_a_host_and_replicas_share_the_network() -> None:
    # Each of 8 tensor ranks has a replica on the other host: 8 groups of 2 over 25 GB/s.
    two = fabric("2x(8xA100-SXM4-80GB)@ib-200g tp=8")
    tensor, data = two.groups(Dimension.TENSOR), two.groups(Dimension.DATA)
    assert tensor.ranks.tolist() == [8, 8]
    assert tensor.hosts.tolist() == [1, 1]
    assert data.ranks.tolist() == [2] * 8
    assert data.hosts.tolist() == [2] * 8
    assert data.inter_bytes_per_s.tolist() == [25e9 / 8] * 8
    assert set(data.inter_class) == {LinkClass.RDMA}


def test_oversubscription_divides_and_adapters_limit_one_rank() -> None:
    whole = fabric("2x(8xA100)@8xib-200g/4").groups(Dimension.WORLD)
    assert whole.inter_bytes_per_s.tolist() == [200e9 / 4]
    # One rank a host has one of the eight adapters, 25 GB/s, below its slot of 31.5 GB/s.
    assert fabric("2x(A100)@8xib-200g").groups(Dimension.WORLD).inter_bytes_per_s[0] == 25e9
    # And no more than its slot: PCIe 3 carries 15.75 GB/s.
    assert fabric("2x(T4)@ib-400g").groups(Dimension.WORLD).inter_bytes_per_s[0] == 15.75e9


def test_tensor_groups_that_do_not_fit_a_host_cross_it() -> None:
    # Six ranks a host, groups of four: the second has two ranks on either host.
    groups = fabric("2x(6xA100)@ib-200g tp=4").groups(Dimension.TENSOR)
    assert groups.hosts.tolist() == [1, 2, 1]
    assert groups.largest_share.tolist() == [4, 2, 4]
    assert groups.inter_bytes_per_s.tolist() == [np.inf, 25e9, np.inf]


def test_dimensions_follow_the_order_of_ranks() -> None:
    # 16 ranks, tensor 2, context 2, data 2, pipeline 2, hosts of four: stages are hosts 0-1, 2-3.
    plan = "4x(4xA100)@ib-200g tp=2 cp=2 dp=2 pp=2 ep=2"
    found = fabric(plan)
    sizes = {d: found.groups(d).ranks.tolist() for d in Dimension}
    assert sizes[Dimension.TENSOR] == [2] * 8
    assert sizes[Dimension.EXPERT] == [2] * 8
    assert sizes[Dimension.EXPERT_DATA] == [1] * 16
    assert sizes[Dimension.DATA_CONTEXT] == [4] * 4
    assert sizes[Dimension.PIPELINE] == [2] * 8
    assert sizes[Dimension.WORLD] == [16]
    # Context ranks are two apart, within a host; replicas four apart, on the next.
    assert found.groups(Dimension.CONTEXT).hosts.tolist() == [1] * 8
    assert found.groups(Dimension.DATA).hosts.tolist() == [2] * 8
    assert found.groups(Dimension.PIPELINE).hosts.tolist() == [2] * 8


def test_pairs_of_a_pipeline_share_the_network_of_the_middle() -> None:
    # Three stages of two ranks, a host each: the middle sends for two pairs on either side.
    pairs = fabric("3x(2xA100)@ib-200g pp=3 tp=2").groups(Dimension.PIPELINE)
    assert pairs.ranks.tolist() == [2] * 4
    assert pairs.inter_bytes_per_s.tolist() == [25e9 / 4] * 4
    # Interleaved, the last stage sends to the first: six pairs.
    ring = fabric("3x(2xA100)@ib-200g pp=3 tp=2 schedule=interleaved vp=2")
    assert ring.groups(Dimension.PIPELINE).ranks.size == 6
    assert fabric("4xA100").groups(Dimension.PIPELINE).ranks.tolist() == [1] * 4


def test_uneven_hosts_show_their_shares() -> None:
    groups = fabric("(1+1+4)xT4@eth-10g").groups(Dimension.WORLD)
    found = row(groups)
    assert (found["ranks"], found["hosts"]) == (6, 3)
    assert found["largest_share"] == 4
    assert found["inter_class"] == LinkClass.ETHERNET
    assert found["inter_bytes_per_s"] == 1.25e9


def test_the_slowest_link_of_unlike_hosts_counts() -> None:
    mixed = fabric("8xA100+4xT4@ib-100g").groups(Dimension.WORLD)
    assert mixed.intra_class.tolist() == [LinkClass.PCIE]
    assert mixed.intra_bytes_per_s.tolist() == [15.75e9]
    # A host with a single rank has no talk inside.
    alone = fabric("8xA100+T4@ib-100g").groups(Dimension.WORLD)
    assert alone.intra_class.tolist() == [LinkClass.NVSWITCH]


def test_a_slice_and_a_rack_are_one_domain_until_a_network_is_named() -> None:
    for text, link_class in (
        ("16x(4xTPU-v4)", LinkClass.ICI),
        ("18x(4xGB200)", LinkClass.NVSWITCH),
    ):
        joined = fabric(text)
        assert joined.network is None and joined.warnings == ()
        assert joined.groups(Dimension.WORLD).hosts.tolist() == [1]
        assert joined.groups(Dimension.WORLD).intra_class.tolist() == [link_class]
        assert fabric(f"{text}@eth-100g").groups(Dimension.WORLD).hosts[0] > 1
    # 76 are more than a rack.
    assert fabric("19x(4xGB200)").network is not None


def test_what_is_assumed_is_said() -> None:
    assert fabric("8xA100").warnings == ()
    assert fabric("2x(8xA100)@ib-200g").warnings == ()
    (network,) = fabric("2x(8xA100)").warnings
    assert "8xib-200g is assumed" in network
    (bridge,) = fabric("2xRTX-3090").warnings
    assert "the host's memory alone" in bridge and "nvlink3-bridge" in bridge
    (bridge,) = fabric("2xA40").warnings
    assert "pcie4 alone" in bridge
    assert fabric("2xRTX-3090[pcie4]").warnings == ()
    (large,) = fabric("64xA100").warnings
    assert "write '8x(8xA100-SXM4-40GB)'" in large


def test_another_plan_can_be_asked_for_and_must_fit() -> None:
    found = fabric("2x(8xA100)@ib-200g")
    plans = [Plan(tensor=degree) for degree in (1, 2, 8, 16)]
    groups = found.slowest_groups(Dimension.TENSOR, plans)
    assert groups.ranks.tolist() == [1, 2, 8, 16]
    assert groups.hosts.tolist() == [1, 1, 1, 2]
    with pytest.raises(InvalidPlacementError):
        found.groups(Dimension.TENSOR, Plan(tensor=3))


def test_the_slowest_group_is_the_one_that_crosses() -> None:
    slowest = fabric("2x(6xA100)@ib-200g tp=4").slowest_group(Dimension.TENSOR)
    assert slowest.hosts.tolist() == [2]


_PARTS = st.tuples(
    st.sampled_from(["A100", "T4", "MI300X", "H200-NVL"]), st.integers(1, 8), st.integers(1, 3)
)


@st.composite
def _fabrics(draw: st.DrawFn, network: Network | None = None) -> Fabric:
    parts = draw(st.lists(_PARTS, min_size=1, max_size=3))
    nodes = tuple(Node(accelerator=name, count=count, repeat=n) for name, count, n in parts)
    count = sum(node.count * node.repeat for node in nodes)
    tensor = draw(st.sampled_from([n for n in (1, 2, 3, 4, 8) if count % n == 0]))
    rest = count // tensor
    pipeline = draw(st.sampled_from([n for n in (1, 2, 3, 4) if rest % n == 0]))
    chosen = network or draw(st.sampled_from(list(NETWORKS.values())))
    placement = Placement(nodes=nodes, network=chosen, plan=Plan(tensor=tensor, pipeline=pipeline))
    return Fabric.of(placement, CATALOG)


@given(_fabrics(), st.sampled_from(list(Dimension)))
def test_groups_are_sound(found: Fabric, dimension: Dimension) -> None:
    groups = found.groups(dimension)
    if dimension is not Dimension.PIPELINE:
        assert groups.ranks.sum() == found.placement.accelerator_count
    assert (groups.largest_share <= groups.ranks).all()
    assert (groups.hosts * groups.largest_share >= groups.ranks).all()
    assert ((groups.hosts > 1) == np.isfinite(groups.inter_bytes_per_s)).all()
    assert ((groups.hosts > 1) == (groups.inter_class > 0)).all()
    assert (groups.inter_bytes_per_s > 0).all()
    assert ((groups.intra_bytes_per_s > 0) & np.isfinite(groups.intra_bytes_per_s)).all()


@given(_fabrics(named_network("ib-200g")), st.sampled_from(list(Dimension)))
def test_hosts_never_send_more_than_they_have(found: Fabric, dimension: Dimension) -> None:
    faster = Fabric.of(
        Placement(
            nodes=found.placement.nodes,
            network=named_network("ib-400g"),
            plan=found.placement.plan,
        ),
        CATALOG,
    )
    before, after = found.groups(dimension), faster.groups(dimension)
    assert (before.inter_bytes_per_s <= after.inter_bytes_per_s).all()
    crossing = before.hosts > 1
    # All groups that cross share 25 GB/s a host, so that hosts together bound their sum.
    shared = np.where(crossing, before.inter_bytes_per_s * before.hosts, 0.0).sum()
    assert shared <= 25e9 * found.placement.host_count * (1 + 1e-9)


@pytest.mark.parametrize("accelerator", ["A100", "V100", "MI300X", "T4", "H200-NVL", "TPU-v4"])
@pytest.mark.parametrize("network", [None, "ib-100g", "8xib-200g/2"])
def test_a_curve_is_what_its_placements_are(accelerator: str, network: str | None) -> None:
    chosen = parse_placement(f"A100@{network}").network if network else None
    for per_host in (1, 4, 8):
        _is_what_its_placements_are(accelerator, chosen, per_host)


def _is_what_its_placements_are(accelerator: str, chosen: Network | None, per_host: int) -> None:
    counts = np.array([1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 33, 40])
    curve = scaling_groups(CATALOG.get(accelerator), counts, per_host, chosen)
    fabrics = [Fabric.of(_filled(accelerator, int(n), per_host, chosen), CATALOG) for n in counts]
    each = CommGroups.join([one.groups(Dimension.WORLD) for one in fabrics])
    for name in CommGroups.__slots__:
        assert getattr(curve, name).tolist() == getattr(each, name).tolist(), name


def _filled(accelerator: str, count: int, per_host: int, network: Network | None) -> Placement:
    full, rest = divmod(count, per_host)
    nodes = [Node(accelerator=accelerator, count=per_host, repeat=full)] if full else []
    nodes += [Node(accelerator=accelerator, count=rest)] if rest else []
    return Placement(nodes=tuple(nodes), network=network)


def test_links_never_reward_growing() -> None:
    # Rates of a ring over n ranks: the slowest level carries 2 (n - 1) / n of the bytes.
    n = np.arange(2, 257)
    for accelerator in CATALOG.names():
        groups = scaling_groups(CATALOG.get(accelerator), n, 8)
        slowest = np.minimum(
            np.where(groups.largest_share > 1, groups.intra_bytes_per_s, np.inf),
            groups.inter_bytes_per_s,
        )
        seconds_per_byte = 2 * (n - 1) / n / slowest
        assert (np.diff(seconds_per_byte) >= -1e-12 * seconds_per_byte[1:]).all(), accelerator


def test_counts_below_one_are_refused() -> None:
    with pytest.raises(InvalidPlacementError):
        scaling_groups(CATALOG.get("A100"), [0, 1], 8)
    with pytest.raises(InvalidPlacementError):
        scaling_groups(CATALOG.get("A100"), [1], 0)


def test_a_curve_to_1024_takes_as_many_calls_as_one_to_16() -> None:
    def calls(most: int) -> int:
        counts = np.arange(1, most + 1)
        return calls_of(lambda: scaling_groups(CATALOG.get("A100"), counts, 8))

    assert calls(1024) == calls(16)


def test_many_placements_and_large_ones_take_little_work() -> None:
    fabrics = [fabric(f"{n}x(8xA100)@ib-200g") for n in range(1, 68)]
    # Fifty-six calls a placement, however many accelerators it has.
    assert calls_of(lambda: world_columns([f.world_group for f in fabrics])) < 80 * len(fabrics)

    def calls(hosts: int) -> int:
        def groups() -> None:
            ranks = fabric(f"{hosts}x(8xA100)@8xib-200g tp=8").groups(Dimension.DATA).ranks
            assert ranks.tolist() == [hosts] * 8

        return calls_of(groups)

    assert calls(125_000) < 2 * calls(125)

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collectives import (
    Cost,
    collective_time_s,
    form_costs,
    link_rates,
)
from perfmodel.placement.fabric.groups import CommGroups, FloatArray
from perfmodel.placement.topology.links import LinkClass

SIZES = np.exp2(np.arange(4, 36.0))
EVERY = list(Collective)
#: Those whose payload is shared out, so that more ranks send more of it.
SHARED = [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER]
INSIDE = [
    LinkClass.NVSWITCH, LinkClass.NVLINK, LinkClass.NVLINK_PAIR, LinkClass.XGMI, LinkClass.PCIE,
    LinkClass.ICI,
]  # fmt: skip


def spread(
    ranks: float,
    hosts: float,
    *,
    link: LinkClass = LinkClass.NVSWITCH,
    network: LinkClass = LinkClass.RDMA,
    intra: float = 3e11,
    inter: float = 5e10,
) -> CommGroups:
    """Return one group of ranks spread evenly over hosts."""
    share = ranks / hosts
    group = CommGroups.one_host([ranks], link, intra, 2e-6)
    if hosts == 1:
        return group
    return replace(
        group,
        hosts=np.array([hosts]),
        largest_share=np.array([share]),
        inter_class=np.array([int(network)]),
        inter_bytes_per_s=np.array([inter]),
        inter_latency_s=np.array([5e-6]),
    )


def rises(values: np.ndarray) -> bool:
    """Tell whether values never fall, but for rounding."""
    return bool(np.all(np.diff(values) >= -1e-9 * values[:-1]))


@pytest.mark.parametrize("collective", EVERY)
def test_one_rank_or_no_bytes_take_no_time(collective: Collective) -> None:
    alone = CommGroups.one_host([1], LinkClass.NVSWITCH, 3e11)
    assert not collective_time_s(collective, SIZES, alone).any()
    assert not collective_time_s(collective, 0.0, spread(8, 1)).any()


@pytest.mark.parametrize("collective", EVERY)
def test_more_bytes_never_take_less(collective: Collective) -> None:
    for link, hosts in itertools.product(INSIDE, (1, 4)):
        times = collective_time_s(collective, SIZES, spread(8, hosts, link=link))
        assert np.all(np.isfinite(times) & (times > 0)), (link, hosts)
        assert rises(times), (link, hosts)


@pytest.mark.parametrize("collective", EVERY)
def test_no_link_carries_more_than_its_rate(collective: Collective) -> None:
    for link, ranks in itertools.product(INSIDE, (2, 8, 64)):
        times = collective_time_s(collective, SIZES, spread(ranks, 1, link=link, intra=9e11))
        shared = collective not in (Collective.BROADCAST, Collective.SEND_RECV)
        passes = 2 if collective is Collective.ALL_REDUCE else 1
        bus = (passes * (ranks - 1) / ranks if shared else 1.0) * SIZES / times
        # A switch that reduces takes each byte once where a ring passes it 2 (n-1)/n times.
        saved = 2.0 if collective is Collective.ALL_REDUCE and link == LinkClass.NVSWITCH else 1.0
        assert bus.max() <= saved * 9e11


@pytest.mark.parametrize("collective", EVERY)
def test_no_network_carries_more_than_its_rate(collective: Collective) -> None:
    # 4 hosts of 8: each host takes in at least what its ranks do not hold themselves.
    times = collective_time_s(collective, 1e9, spread(32, 4, inter=2.5e10))
    crossing = {Collective.ALL_REDUCE: 2 * 3 / 4, Collective.ALL_TO_ALL: 8 * 24 / 32}
    assert times[0] >= crossing.get(collective, 3 / 4) * 1e9 / 2.5e10


@pytest.mark.parametrize("collective", [op for op in EVERY if op is not Collective.SEND_RECV])
def test_more_ranks_never_take_less(collective: Collective) -> None:
    ranks, sizes = np.arange(2.0, 73), np.array([[1e3], [1e6], [1e9]])
    for link, rate in itertools.product(INSIDE, (2e10, 3e11, 9e11, 2e12)):
        group = CommGroups.one_host(ranks, link, rate, 2e-6)
        for times in collective_time_s(collective, sizes, group):
            assert rises(times), (link, rate)


@pytest.mark.parametrize("collective", SHARED)
def test_more_hosts_of_eight_never_take_less(collective: Collective) -> None:
    for size in (1e3, 1e6, 1e9):
        times = [collective_time_s(collective, size, spread(8 * h, h))[0] for h in (1, 2, 4, 64)]
        assert rises(np.array(times))


@pytest.mark.parametrize("collective", EVERY)
def test_a_better_link_never_hurts(collective: Collective) -> None:
    sizes = np.array([[1e3], [1e7], [1e10]])
    rates, latencies = np.exp2(np.linspace(41, 30, 40)), np.geomspace(1e-7, 1e-3, 40)
    worse = {
        "intra_bytes_per_s": rates, "inter_bytes_per_s": rates,
        "intra_latency_s": latencies, "inter_latency_s": latencies,
    }  # fmt: skip
    for hosts, (field, values) in itertools.product((1, 2, 8), worse.items()):
        group = replace(spread(8, hosts), **{field: values})
        for times in collective_time_s(collective, sizes, group):
            assert rises(times), (hosts, field)


@pytest.mark.parametrize("collective", EVERY)
def test_two_hosts_are_no_faster_than_one_with_the_faster_link(collective: Collective) -> None:
    for link, ranks in itertools.product(INSIDE, (2, 8, 64)):
        one = collective_time_s(collective, SIZES, spread(ranks, 1, link=link, intra=1e11))
        two = collective_time_s(
            collective, SIZES, spread(ranks, 2, link=link, intra=1e11, inter=5e10)
        )
        assert np.all(two >= one)


def test_a_tree_beats_a_ring_over_a_slow_network_and_a_ring_one_inside_a_host() -> None:
    # 4 hosts of 8: a ring takes 31 hops and sends 2 * 31/32 of the payload out of each host, a tree
    # log2 4 levels and 2 * 3/4 of it. Inside a host both send as much, and 7 hops are less than
    # log2 8 levels of a tree, which cost 2.5 hops and more each.
    known = CollectiveConstants.fitted()

    def ring_and_tree(group: CommGroups) -> list[Cost[FloatArray]]:
        links = link_rates(Collective.ALL_REDUCE, group, known)
        return form_costs(Collective.ALL_REDUCE, links, known)

    ring, tree = ring_and_tree(spread(32, 4, inter=1.25e10))
    assert tree.latency_s < ring.latency_s and tree.s_per_byte < ring.s_per_byte
    ring, tree = ring_and_tree(spread(8, 1))
    assert tree.latency_s > ring.latency_s and tree.s_per_byte == ring.s_per_byte


def test_only_newer_switches_reduce() -> None:
    def costs(link: LinkClass, rate: float) -> list[Cost[FloatArray]]:
        group, known = spread(8, 1, link=link, intra=rate), CollectiveConstants.fitted()
        return form_costs(
            Collective.ALL_REDUCE, link_rates(Collective.ALL_REDUCE, group, known), known
        )

    # A ring passes 2 * 7/8 of the payload, the switch takes it once.
    ring, _, switch = costs(LinkClass.NVSWITCH, 4.5e11)
    assert 1.0 < ring.s_per_byte[0] / switch.s_per_byte[0] < 1.75
    assert len(costs(LinkClass.NVSWITCH, 3e11)) == len(costs(LinkClass.PCIE, 4.5e11)) == 2
    both = CommGroups.join([spread(8, 1, intra=rate) for rate in (3e11, 4.5e11)])
    each = [spread(8, 1, intra=rate) for rate in (3e11, 4.5e11)]
    assert collective_time_s(Collective.ALL_REDUCE, 1e9, both).tolist() == [
        collective_time_s(Collective.ALL_REDUCE, 1e9, one)[0] for one in each
    ]


@pytest.mark.parametrize("collective", EVERY)
def test_cells_and_sizes_broadcast(collective: Collective) -> None:
    ranks = np.array([2.0, 4.0, 8.0])
    rows = CommGroups.one_host(ranks, LinkClass.NVSWITCH, 9e11)
    column = CommGroups(**{f.name: getattr(rows, f.name)[:, None] for f in fields(CommGroups)})
    table = collective_time_s(collective, SIZES, column)
    assert table.shape == (3, len(SIZES))
    for row, count in enumerate(ranks):
        alone = CommGroups.one_host([count], LinkClass.NVSWITCH, 9e11)
        assert np.array_equal(table[row], collective_time_s(collective, SIZES, alone))


@pytest.mark.parametrize("collective", EVERY)
def test_every_input_gives_a_finite_time(collective: Collective) -> None:
    generator = np.random.default_rng(3)
    count = 2_000
    share = generator.integers(1, 17, count).astype(float)
    hosts = generator.integers(1, 129, count).astype(float)
    groups = CommGroups(
        ranks=share * hosts,
        hosts=hosts,
        largest_share=share,
        intra_class=generator.integers(0, 9, count),
        inter_class=generator.integers(0, 9, count),
        intra_bytes_per_s=generator.choice([0.0, 1.0, 1e9, 1e12, np.inf], count),
        intra_latency_s=generator.choice([0.0, 1e-6, 1.0], count),
        inter_bytes_per_s=generator.choice([0.0, 1.0, 1e9, 1e12, np.inf], count),
        inter_latency_s=generator.choice([0.0, 1e-6, 1.0], count),
    )
    times = collective_time_s(collective, generator.choice([0.0, 1.0, 1e6, 1e15], count), groups)
    assert np.all(np.isfinite(times) & (times >= 0))


def test_uneven_hosts_send_as_their_fullest() -> None:
    # 1 + 1 + 4 ranks: the host of four sends 4 * 2/6 of a payload out, one alone 1 * 5/6.
    uneven = replace(spread(6, 3), largest_share=np.array([4.0]))
    even = spread(6, 3)  # 2 * 4/6 of a payload: as much as the host of four
    times = [collective_time_s(Collective.ALL_TO_ALL, 1e10, g)[0] for g in (uneven, even)]
    assert times[0] == pytest.approx(times[1], rel=1e-3)


@pytest.mark.parametrize(
    "collective", [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER]
)
def test_a_fuller_last_host_is_never_faster(collective: Collective) -> None:
    hosts, per_host = 3, 4
    ranks = np.arange(per_host * (hosts - 1) + 1.0, per_host * hosts + 1)
    groups = [
        replace(
            spread(int(n), hosts),
            largest_share=np.array([float(per_host)]),
        )
        for n in ranks
    ]
    times = [collective_time_s(collective, np.array([1e4, 1e6, 1e8]), group) for group in groups]
    assert np.all(np.diff(times, axis=0) >= -1e-15)


def test_long_messages_reach_the_learned_share_of_the_link() -> None:
    known = CollectiveConstants.fitted()
    share = known.efficiency[LinkClass.PCIE][Collective.SEND_RECV]
    one = known.operations[Collective.SEND_RECV]
    pair = CommGroups.one_host([2], LinkClass.PCIE, 3e10)
    expected = 1e13 * (1 / (share * 3e10) + one.fixed_s_per_byte)
    assert collective_time_s(Collective.SEND_RECV, 1e13, pair)[0] == pytest.approx(expected, 1e-3)

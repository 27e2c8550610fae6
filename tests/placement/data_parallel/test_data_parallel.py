from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest
from made_up_steps import made_up_profile
from work_done import calls_of

from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.data_parallel_constants import DataParallelConstants
from perfmodel.placement.data_parallel.gradient_buckets import gradient_buckets
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.topology.links import LinkClass

STAGES = (0, 1, 2, 3)
LINKS = (LinkClass.NVSWITCH, LinkClass.NVLINK, LinkClass.NVLINK_PAIR, LinkClass.PCIE)
#: Nothing but the streams.
BARE = DataParallelConstants(
    contention=0.0, straggler=0.0, bucket_s=0.0, piece_s=0.0, pack_bytes_per_s=np.inf
)


def _one_host(
    ranks: npt.ArrayLike, link: LinkClass = LinkClass.PCIE, bytes_per_s: npt.ArrayLike = 1.2e10
) -> CommGroups:
    return CommGroups.one_host(ranks, link, bytes_per_s)


def _many_hosts(ranks: npt.ArrayLike, bytes_per_s: npt.ArrayLike) -> CommGroups:
    """Full hosts of eight."""
    groups = CommGroups.one_host(ranks, LinkClass.NVSWITCH, 3e11)
    hosts = np.ceil(groups.ranks / 8)
    several = hosts > 1
    return dataclasses.replace(
        groups,
        hosts=hosts,
        largest_share=np.minimum(groups.ranks, 8),
        inter_class=np.where(several, int(LinkClass.RDMA), int(LinkClass.NONE)),
        inter_bytes_per_s=np.where(several, bytes_per_s, np.inf),
        inter_latency_s=np.where(several, 5e-6, 0.0),
    )


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("link", LINKS)
def test_one_accelerator_is_the_single_step_exactly(stage: int, link: LinkClass) -> None:
    parts = DataParallelCells(made_up_profile(), [0.1, 0.3], _one_host([1, 1], link)).parts(
        zero_stage=stage
    )
    assert parts.step_time_s.tolist() == [0.1, 0.3]
    assert parts.communication_s.tolist() == [0.0, 0.0]


def test_replicas_of_inference_do_not_communicate() -> None:
    nothing = np.zeros(0)
    profile = dataclasses.replace(
        made_up_profile(),
        gradient_bytes=0.0,
        gradient_ready=nothing,
        gradient_piece_bytes=nothing,
        forward_share=1.0,
        backward_share=0.0,
        optimizer_share=0.0,
    )
    parts = DataParallelCells(profile, 0.1, _one_host([1, 8])).parts()
    assert parts.step_time_s.tolist() == [0.1, 0.1]


@pytest.mark.parametrize("stage", STAGES)
def test_more_bandwidth_never_hurts(stage: int) -> None:
    rates = np.geomspace(1e8, 1e12, 40)
    for groups in (
        _one_host(np.full(40, 8), bytes_per_s=rates),
        _many_hosts(np.full(40, 16), rates),
    ):
        step = DataParallelCells(made_up_profile(), 0.1, groups).parts(zero_stage=stage).step_time_s
        assert np.all(np.diff(step) <= 1e-15)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("accumulation", [1, 4])
def test_a_faster_accelerator_is_never_slower(stage: int, accumulation: int) -> None:
    alone = np.geomspace(1e-3, 10, 80)
    step = (
        DataParallelCells(made_up_profile(), alone, _one_host(np.full(80, 8)))
        .parts(zero_stage=stage, accumulation_steps=accumulation)
        .step_time_s
    )
    assert np.all(np.diff(step) > 0)


@pytest.mark.parametrize("link", LINKS)
def test_throughput_per_accelerator_never_rises_with_the_count(link: LinkClass) -> None:
    step = (
        DataParallelCells(made_up_profile(), 0.1, _one_host(np.arange(1, 17), link))
        .parts()
        .step_time_s
    )
    assert np.all(np.diff(step) >= 0)


def test_throughput_per_accelerator_never_rises_over_full_hosts() -> None:
    counts = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
    step = (
        DataParallelCells(made_up_profile(), 0.1, _many_hosts(counts, 2.5e10)).parts().step_time_s
    )
    assert np.all(np.diff(step) >= 0)


@pytest.mark.parametrize("stage", STAGES)
def test_no_more_is_exposed_than_there_is(stage: int) -> None:
    rates = np.geomspace(1e8, 1e12, 20)
    parts = DataParallelCells(
        made_up_profile(), 0.1, _one_host(np.full(20, 8), bytes_per_s=rates)
    ).parts(zero_stage=stage)
    assert np.all(parts.exposed_communication_s >= 0)
    assert np.all(parts.exposed_communication_s <= parts.communication_s)


def test_communication_that_is_short_enough_hides_but_for_the_last_bucket() -> None:
    profile = made_up_profile(gradient_bytes=1e8, pieces=100)
    parts = DataParallelCells(profile, 10.0, _one_host([8])).parts(constants=BARE)
    buckets = gradient_buckets(profile)
    last = int(buckets.count[0].sum()) - 1
    share = buckets.size_bytes[0][last] / 1e8
    # The last bucket is ready at the very end of the backward pass.
    assert parts.exposed_communication_s[0] < 2 * share * parts.communication_s[0]
    assert parts.communication_s[0] < 0.1


def test_communication_that_takes_long_is_all_exposed_but_for_the_overlap() -> None:
    parts = DataParallelCells(made_up_profile(), 0.1, _one_host([8], bytes_per_s=1e7)).parts(
        constants=BARE
    )
    # Gradients come during 60 ms; the communication of many seconds begins within them.
    hidden = float((parts.communication_s - parts.exposed_communication_s)[0])
    assert 0.05 < hidden < 0.061


def test_contention_turns_hidden_communication_into_exposed() -> None:
    groups = _one_host([8], LinkClass.NVSWITCH, 3e11)
    none, all_of_it = (
        DataParallelCells(made_up_profile(), 1.0, groups).parts(
            constants=dataclasses.replace(BARE, contention=share)
        )
        for share in (0.0, 1.0)
    )
    assert none.exposed_communication_s[0] < none.communication_s[0] / 2
    assert all_of_it.exposed_communication_s[0] == pytest.approx(all_of_it.communication_s[0])


def test_a_sharded_optimizer_takes_its_part_of_the_time() -> None:
    profile = made_up_profile(optimizer_share=0.2)
    groups = _one_host([4], LinkClass.NVSWITCH, 1e15)
    parts = DataParallelCells(profile, 1.0, groups).parts(zero_stage=1, constants=BARE)
    # 0.8 s of passes and a quarter of 0.2 s.
    assert parts.compute_s[0] == pytest.approx(0.85)


def test_only_sharded_gradients_communicate_in_every_micro_batch() -> None:
    groups = _one_host([8], bytes_per_s=1e9)
    one, four = (
        {
            stage: DataParallelCells(made_up_profile(), 0.4, groups)
            .parts(zero_stage=stage, accumulation_steps=k, constants=BARE)
            .communication_s[0]
            for stage in STAGES
        }
        for k in (1, 4)
    )
    assert four[0] == one[0]
    assert four[1] == one[1]
    # One scattering and one gathering take equally long; four scatterings and one gathering.
    assert four[2] / one[2] == pytest.approx(2.5, rel=0.1)
    assert four[3] == pytest.approx(4 * one[3])


def test_gathered_parameters_cost_half_as_much_again() -> None:
    groups = _one_host([8], bytes_per_s=1e8)
    plain, sharded = (
        DataParallelCells(made_up_profile(), 0.1, groups)
        .parts(zero_stage=stage, constants=BARE)
        .communication_s[0]
        for stage in (0, 3)
    )
    # All-reduce moves 2 volumes, reduce-scatter 1 and two all-gathers 2.
    assert sharded / plain == pytest.approx(1.5, rel=0.1)


def test_jobs_by_placements_are_what_they_are_one_by_one() -> None:
    jobs = [made_up_profile(gradient_bytes=size) for size in (1e7, 1e8, 3e9)]
    groups = _one_host([1, 2, 8])
    alone = np.array([[0.1], [0.2], [0.3]])
    table = DataParallelCells(jobs, alone, groups).parts().step_time_s
    assert table.shape == (3, 3)
    for row, job in enumerate(jobs):
        single = DataParallelCells(job, float(alone[row, 0]), groups).parts().step_time_s
        assert table[row].tolist() == pytest.approx(single.tolist(), rel=1e-12)


def test_a_curve_over_a_thousand_counts_takes_as_many_calls_as_one_over_sixteen() -> None:
    def calls(most: int) -> int:
        groups = _many_hosts(np.arange(1, most + 1), 2.5e10)
        return calls_of(lambda: DataParallelCells(made_up_profile(), 0.1, groups).parts())

    assert calls(1024) == calls(16)

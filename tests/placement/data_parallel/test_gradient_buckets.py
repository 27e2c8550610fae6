from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from made_up_steps import made_up_profile

from perfmodel.placement.data_parallel.gradient_buckets import (
    GradientBuckets,
    gradient_buckets,
    within_share,
)
from perfmodel.placement.data_parallel.streams import within_share_of
from perfmodel.placement.fabric.world_group import WorldGroup, WorldLinks, world_columns
from perfmodel.placement.topology.links import LinkClass

MIB = 2**20


def test_the_first_bucket_is_small_and_a_large_piece_has_its_own() -> None:
    pieces = np.array([0.5, 0.5, 10, 10, 100, 1]) * MIB
    ready = np.array([0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    profile = dataclasses.replace(
        made_up_profile(),
        gradient_ready=ready,
        gradient_piece_bytes=pieces,
        gradient_bytes=float(pieces.sum()),
    )
    buckets = gradient_buckets(profile)
    # 0.5 + 0.5 fill the first; 10, 10 and 100 begin below 25; the last begins beyond.
    assert (buckets.size_bytes[0] / MIB).tolist() == [1, 120, 1]
    assert buckets.ready[0].tolist() == [0.5, 0.8, 0.9]
    assert buckets.count[0].tolist() == [1, 1, 1]


def test_many_buckets_are_grouped_and_no_byte_is_lost() -> None:
    buckets = gradient_buckets(made_up_profile(gradient_bytes=4e9, pieces=400), most_groups=8)
    assert buckets.ready.shape == (1, 8)
    assert float((buckets.count * buckets.size_bytes).sum()) == pytest.approx(4e9)
    # 4e9 bytes are 152.6 buckets of 25 MiB and the first one of 1 MiB.
    assert buckets.count.sum() in (153, 154)
    assert np.all(np.diff(buckets.ready[0]) > 0)


def test_jobs_of_different_depth_share_a_table() -> None:
    jobs = [made_up_profile(gradient_bytes=1e7, pieces=4), made_up_profile(gradient_bytes=1e9)]
    buckets = gradient_buckets(jobs)
    total = (buckets.count * buckets.size_bytes).sum(axis=1)
    assert total.tolist() == pytest.approx([1e7, 1e9])
    assert buckets.spread(3).ready.shape == (2, 1, 1, buckets.ready.shape[1])


def test_jobs_that_were_cut_alone_join_as_if_cut_together() -> None:
    bare = dataclasses.replace(
        made_up_profile(), gradient_ready=np.zeros(0), gradient_piece_bytes=np.zeros(0)
    )
    jobs = [made_up_profile(gradient_bytes=1e7, pieces=4), bare, made_up_profile()]
    joined = GradientBuckets.join([gradient_buckets(job) for job in jobs])
    assert joined.ready.shape == joined.count.shape == joined.size_bytes.shape
    assert joined.count[1].sum() == 0 and (np.diff(joined.ready) >= 0).all()
    together = gradient_buckets(jobs)
    for one in dataclasses.fields(GradientBuckets):
        assert np.array_equal(getattr(joined, one.name), getattr(together, one.name))


def test_rows_between_jobs_of_equal_gradients_share_their_steps_in_between() -> None:
    few = gradient_buckets(made_up_profile())
    many = dataclasses.replace(
        few, optimizer_share=few.optimizer_share / 4, ready=1 - (1 - few.ready) / 4
    )
    first, second = np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.int64)
    found = GradientBuckets.join([few, many]).between(first, second, np.array([0.0, 0.5, 1.0]))
    assert found.optimizer_share == pytest.approx(
        few.optimizer_share[0] * np.array([1, 0.625, 0.25])
    )
    assert found.ready[[0, 2]] == pytest.approx(np.concatenate([few.ready, many.ready]))
    assert found.ready[1] == pytest.approx((few.ready[0] + many.ready[0]) / 2)
    assert found.size_bytes == pytest.approx(np.repeat(few.size_bytes, 3, axis=0))


def test_a_job_without_gradients_has_no_buckets() -> None:
    profile = dataclasses.replace(
        made_up_profile(),
        gradient_bytes=0.0,
        gradient_ready=np.zeros(0),
        gradient_piece_bytes=np.zeros(0),
    )
    assert gradient_buckets(profile).count.sum() == 0


def test_what_is_sent_within_a_host_is_a_part_of_what_all_hosts_send() -> None:
    links = WorldLinks(4.0, LinkClass.PCIE, LinkClass.ETHERNET, 1.2e10, 5e-6, 1e9, 2e-5)
    slow = WorldGroup(8.0, 2.0, links)
    fast = slow._replace(links=links._replace(inter_class=LinkClass.RDMA, inter_bytes_per_s=1e12))
    alone = WorldGroup(8.0, 8.0, links._replace(largest_share=1.0))
    one_host, one = slow.fullest_host, WorldGroup(1.0, 1.0, slow.fullest_host.links)
    groups = [one, one_host, slow, fast, alone]
    shares = within_share(world_columns(groups))
    assert shares.tolist() == pytest.approx([within_share_of(one) for one in groups], rel=1e-12)
    assert shares[:2].tolist() == [1.0, 1.0]
    assert 0.05 < shares[2] < 0.5 < shares[3] <= 1.0
    assert shares[4] == 0.0

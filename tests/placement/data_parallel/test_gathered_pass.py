from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from made_up_steps import made_up_profile

from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.data_parallel.data_parallel_constants import DataParallelConstants
from perfmodel.placement.data_parallel.gathered_pass import gathered_pass_parts
from perfmodel.placement.data_parallel.gradient_buckets import (
    BUCKET_BYTES,
    GradientBuckets,
    gradient_buckets,
)
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.topology.links import LinkClass

#: Nothing but the streams.
BARE = DataParallelConstants(contention=0.0, bucket_s=0.0, crowding=0.0)


def _served(parameter_bytes: float) -> GradientBuckets:
    """Return a pass of inference: parameters, and no gradients."""
    nothing = np.zeros(0)
    profile = dataclasses.replace(
        made_up_profile(), parameter_bytes=parameter_bytes, gradient_bytes=0.0,
        gradient_ready=nothing, gradient_piece_bytes=nothing,
        forward_share=1.0, backward_share=0.0, optimizer_share=0.0,
    )  # fmt: skip
    return gradient_buckets(profile)


def _unit_s(groups: CommGroups) -> float:
    gathered = collective_time_s(Collective.ALL_GATHER, np.array([BUCKET_BYTES]), groups)
    return float(gathered[0])


@pytest.mark.parametrize("compute_s", [0.1, 100.0])
def test_gathering_runs_one_unit_ahead_of_computing(compute_s: float) -> None:
    groups = CommGroups.one_host([8], LinkClass.PCIE, 1.2e10)
    gather_s = _unit_s(groups)
    parts = gathered_pass_parts(
        _served(40 * BUCKET_BYTES), np.array([compute_s]), groups, constants=BARE
    )
    # The first of 40 units is waited for; of the others what computing one unit does not cover.
    unit_s = compute_s / 40
    expected = gather_s + 39 * max(gather_s, unit_s) + unit_s
    assert float(parts.step_time_s[0]) == pytest.approx(expected)
    assert float(parts.communication_s[0]) == pytest.approx(40 * gather_s)


def test_a_slow_network_decides() -> None:
    # 13 GB of parameters: the other of two hosts holds half, 6.6 GB over 1.25 GB/s are 5 s.
    groups = CommGroups.one_host([2], LinkClass.PCIE, 1.25e9)
    parts = gathered_pass_parts(_served(13.2e9), np.array([0.3]), groups, constants=BARE)
    assert float(parts.step_time_s[0]) > 5.0


def test_one_accelerator_holds_everything() -> None:
    groups = CommGroups.one_host([1], LinkClass.PCIE, 1.2e10)
    parts = gathered_pass_parts(_served(1e9), np.array([0.3]), groups)
    assert parts.step_time_s.tolist() == [0.3]
    assert parts.communication_s.tolist() == [0.0]


def test_hidden_gathering_slows_down_what_hides_it() -> None:
    groups = CommGroups.one_host([8], LinkClass.PCIE, 1.2e10)
    slowed = dataclasses.replace(BARE, contention=0.5)
    served, compute_s = _served(40 * BUCKET_BYTES), np.array([100.0])
    bare = gathered_pass_parts(served, compute_s, groups, constants=BARE)
    parts = gathered_pass_parts(served, compute_s, groups, constants=slowed)
    # 39 of the 40 units are hidden, and half of their time is felt.
    added = float(parts.step_time_s[0] - bare.step_time_s[0])
    assert added == pytest.approx(0.5 * 39 * _unit_s(groups))

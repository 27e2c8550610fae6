"""How many micro-batches a stage holds, in every count of memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.placement.memory.memory_parts import (
    MemoryPlan,
    memory_parts,
    micro_batches_in_flight,
)
from perfmodel.placement.memory.memory_profile import MemoryProfile
from perfmodel.placement.topology.topology import Schedule

PROFILE = MemoryProfile(
    parameter_bytes=8e9,
    buffer_bytes=0.0,
    input_bytes=0.0,
    optimizer_state_bytes=16e9,
    optimizer_bytes=0.0,
    largest_parameter_bytes=1e8,
    reserved_ratio=1.0,
    gradient_bytes=8e9,
    activation_corners=np.array([4e9, 1e9]),
    gradient_corners=np.array([0.0, 8e9]),
)


@pytest.mark.parametrize("schedule", list(Schedule))
def test_no_stage_holds_more_than_there_are(schedule: Schedule) -> None:
    for p in (1, 2, 8, 16):
        for v in (1, 2, 4):
            held = [
                float(micro_batches_in_flight(p, n, schedule, v)) for n in (1, 2, 4, 8, 16, 64, 256)
            ]
            assert held == sorted(held)
            assert all(one <= n for one, n in zip(held, (1, 2, 4, 8, 16, 64, 256), strict=True))
            last = float(micro_batches_in_flight(p, 256, schedule, v, is_last=True))
            assert 1.0 <= last <= held[-1]


def test_one_chunk_a_stage_is_not_interleaved() -> None:
    plain = micro_batches_in_flight(8, 64, Schedule.ONE_F_ONE_B)
    assert micro_batches_in_flight(8, 64, Schedule.INTERLEAVED, 1) == plain == 8.0


def test_more_chunks_hold_less_ahead() -> None:
    held = micro_batches_in_flight(8.0, 64.0, Schedule.INTERLEAVED, np.array([2.0, 4.0, 8.0]))
    assert held.tolist() == [8 + 7 / 2, 8 + 7 / 4, 8 + 7 / 8]


def test_with_as_many_micro_batches_as_stages_all_schedules_hold_all() -> None:
    plan = MemoryPlan(pipeline=8.0, micro_batches=8.0, virtual_stages=2.0)
    corners = [
        memory_parts(PROFILE, replace(plan, schedule=schedule)).activation_corners
        for schedule in Schedule
    ]
    for found in corners:
        np.testing.assert_allclose(found[0], PROFILE.activation_corners)

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.gradient_buckets import gradient_buckets
from perfmodel.placement.data_parallel.step_profile import StepProfile
from perfmodel.placement.data_parallel.streams import (
    BucketNumbers,
    StepNumbers,
    one_step,
)
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.placement.topology.parse import parse_placement

TEXTS = (
    "A100", "2xA100", "8xA100", "33xA100", "5xT4", "2xV100[nvlink]", "8xMI300X",
    "3x(1xA100)@eth-10g", "2x(8xH100-SXM5-80GB)@ib-400g", "70x(4xV100)@ib-100g/2", "(1+1+4)xT4",
)  # fmt: skip


def profile(pieces: int) -> StepProfile:
    """A job of so many gradients of 2 MB each."""
    return StepProfile(
        parameter_bytes=2e6 * pieces, gradient_bytes=2e6 * pieces, input_bytes=2e7,
        forward_share=0.33, backward_share=0.62, optimizer_share=0.05,
        gradient_ready=np.linspace(0.35, 0.95, pieces), gradient_piece_bytes=np.full(pieces, 2e6),
        node_count=500.0,
    )  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pieces", [0, 3, 900])
@pytest.mark.parametrize("alone_s", [1e-3, 0.2])
@pytest.mark.parametrize(("stage", "micro"), [(0, 1), (1, 4), (2, 4), (3, 1), (3, 4)])
def test_numbers_are_the_columns(
    text: str, pieces: int, alone_s: float, stage: int, micro: int
) -> None:
    fabric, buckets = Fabric.of(parse_placement(text)), gradient_buckets(profile(pieces))
    (found,) = one_step(
        BucketNumbers.of(buckets), fabric.world_group, [alone_s],
        straggler=0.02, zero_stage=stage, accumulation_steps=micro,
    )  # fmt: skip
    world = fabric.slowest_group(Dimension.WORLD)
    parts = DataParallelCells(buckets, [alone_s], world).parts(
        straggler=0.02, zero_stage=stage, accumulation_steps=micro
    )
    for name in StepNumbers._fields:
        assert getattr(found, name) == pytest.approx(getattr(parts, name)[0], rel=1e-12), name
    assert found.step_time_s == pytest.approx(parts.step_time_s[0], rel=1e-12)


def test_one_rank_is_the_single_step() -> None:
    buckets = BucketNumbers.of(gradient_buckets(profile(5)))
    alone = Fabric.of(parse_placement("A100")).world_group
    assert one_step(buckets, alone, [0.1, 0.2], straggler=0.5) == [
        StepNumbers(0.1), StepNumbers(0.2),
    ]  # fmt: skip


def test_the_slowest_rank_is_waited_for() -> None:
    buckets = BucketNumbers.of(gradient_buckets(profile(5)))
    eight = Fabric.of(parse_placement("8xA100")).world_group
    (even,), (uneven,) = (one_step(buckets, eight, [0.1], straggler=of) for of in (0.0, 0.5))
    # sqrt(2 ln 8) = sqrt(4.1589) = 2.0393 spreads of 0.05 s above the mean.
    waited_s = uneven.overhead_s - even.overhead_s
    assert waited_s == pytest.approx(0.05 * 2.0393, rel=1e-4)

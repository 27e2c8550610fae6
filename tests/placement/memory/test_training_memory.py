"""Memory of shards in groups, of kept types and of what lies on the host, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.placement.memory.memory_parts import MemoryParts, MemoryPlan, memory_parts
from perfmodel.placement.memory.memory_profile import MemoryProfile
from perfmodel.placement.topology.topology import Offload

#: Parameters 1, gradients 1, state 2 and activations 6 GB; the largest parameter has 0.1 GB.
PROFILE = MemoryProfile(
    parameter_bytes=1e9, buffer_bytes=0.2e9, input_bytes=0.0, optimizer_state_bytes=2e9,
    gradient_bytes=1e9, activation_corners=np.array([6e9]), gradient_corners=np.array([0.5e9]),
    optimizer_bytes=0.4e9, largest_parameter_bytes=0.1e9, reserved_ratio=1.0,
)  # fmt: skip


def _parts(**plan: object) -> MemoryParts:
    return memory_parts(PROFILE, MemoryPlan(**plan))  # type: ignore[arg-type]


def _held(**plan: object) -> float:
    return float(_parts(**plan).held_bytes[0])


def test_shards_are_those_of_a_group() -> None:
    # 16 replicas in two groups: what stage 1 shares out is shared by 8.
    grouped = _held(data=16.0, zero_stage=1.0, replicate=2.0)
    assert grouped == pytest.approx(1e9 + 0.2e9 + 2e9 / 8)
    assert grouped == _held(data=8.0, zero_stage=1.0)


def test_kept_types_stand_beside_what_is_computed_with() -> None:
    # Kept in 4 bytes and computed with in 2: a rank of eight keeps 2 / 8, gathers 2 x 0.1, and has
    # state for fp32.
    sharded = _held(data=8.0, zero_stage=3.0, kept=2.0)
    assert sharded == pytest.approx((2e9 + 4e9) / 8 + 2 * 0.1e9 + 0.2e9)
    # Where nothing is shared out all of both stand side by side.
    assert _held(kept=2.0) == pytest.approx(2e9 + 1e9 + 4e9 + 0.2e9)
    assert _parts(kept=2.0).gradient_bytes[0] == 2e9
    # Buffers have a type of their own.
    assert _held(buffers=2.0) - _held() == pytest.approx(0.2e9)


def test_weights_that_are_read_as_they_are_kept_have_no_copies() -> None:
    assert _held() - _held(kept=0.5) == pytest.approx(0.5e9 + 1e9)


def test_what_is_offloaded_leaves_the_device() -> None:
    optimizer = _parts(offload=(Offload.OPTIMIZER,))
    assert optimizer.held_bytes[0] == pytest.approx(1e9 + 0.2e9)
    for gone in (optimizer.gradient_bytes, optimizer.optimizer_bytes, optimizer.gradient_corners):
        assert not gone.any()
    both = (Offload.OPTIMIZER, Offload.PARAMETERS)
    assert _held(zero_stage=3.0, offload=both) == pytest.approx(2 * 0.1e9 + 0.2e9)
    kept = _parts(offload=(Offload.ACTIVATIONS,), activation_share=0.25)
    assert kept.activation_corners[0].tolist() == [1.5e9]

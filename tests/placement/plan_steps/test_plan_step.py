from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_plans import cells, choice, shape

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.fabric.groups import FloatArray
from perfmodel.placement.fitted.forms import read_constants
from perfmodel.placement.plan_steps.layer_time import device_times, layer_times
from perfmodel.placement.plan_steps.plan_cells import Checkpointing, PlanCells
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_exchanges import exchanges
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.placement.topology.topology import Schedule
from perfmodel.placement.transformers.transformer_shape import TransformerShape

#: Products at half of the peak, and nothing else takes time.
FREE = PlanConstants(
    weight_efficiency=0.5, fused_score_efficiency=0.5, head_efficiency=0.5, product_latency_s=0.0,
    power=0.0, score_cycles=0.0, activation_passes=0.0, head_passes=0.0, layer_launch_s=0.0,
    reduce_launch_s=0.0, head_launch_s=0.0, update_bytes=0.0, overhead_s=0.0, straggler=0.0,
    gradient_latency_s=0.0, send_latency_s=0.0,
)  # fmt: skip
PLANS: list[dict[str, Any]] = [
    {"data": 4},
    {"data": 4, "zero_stage": 1},
    {"data": 4, "zero_stage": 2},
    {"data": 4, "zero_stage": 3},
    {"tensor": 4},
    {"tensor": 4, "sequence_parallel": True},
    {"pipeline": 4},
    {"pipeline": 4, "schedule": Schedule.GPIPE},
    {"pipeline": 2, "schedule": Schedule.INTERLEAVED, "virtual_stages": 2},
    {"context": 4},
    {"data": 4, "expert": 4},
    {"data": 2, "tensor": 2, "pipeline": 2},
    {"data": 2, "pipeline": 2, "checkpointing": Checkpointing.FULL},
]


def _cells(plan: dict[str, Any], **device: Any) -> PlanCells:
    return cells([choice(4, 8, **plan)], [_model(plan)], **device)


def _model(plan: dict[str, Any]) -> TransformerShape:
    return shape(experts=4, experts_per_token=2) if plan.get("expert", 1) > 1 else shape()


def _all_cells(**device: Any) -> PlanCells:
    choices, models = [choice(4, 8, **plan) for plan in PLANS], [_model(plan) for plan in PLANS]
    return cells(choices, models, **device)


def _all_steps_s(**device: Any) -> FloatArray:
    return plan_step(_all_cells(**device), PlanConstants.fitted()).step_time_s


def _step_s(plan: dict[str, Any], constants: PlanConstants | None = None, **device: Any) -> float:
    known = PlanConstants.fitted() if constants is None else constants
    return float(plan_step(_cells(plan, **device), known).step_time_s[0])


def test_one_device_without_overheads_runs_the_flops_at_the_efficiency() -> None:
    one = cells([choice(4, 8)], memory_bytes_per_s=1e18)
    # Scores are made again in the backward pass: 3.5 instead of 3 passes of them.
    scores = 0.5 * 8 * 4 * 8 * 4 * 256 * 256 * 512
    expected = (one.plan.samples[0] * one.shape.sample_flops[0] + scores) / 0.5e14
    assert plan_step(one, FREE).step_time_s[0] == pytest.approx(expected, rel=1e-6)


def test_scores_on_the_chip_follow_what_warps_reach_and_products_the_peak() -> None:
    one = cells([choice(4, 8)], memory_bytes_per_s=1e18)
    halved = replace(one, device=replace(one.device, score_flops=0.5 * one.device.score_flops))
    # 3.5 passes of scores at half of the peak, and now at a quarter of it.
    scores = 3.5 * 8 * 4 * 8 * 4 * 256 * 256 * 512
    more = plan_step(halved, FREE).step_time_s[0] - plan_step(one, FREE).step_time_s[0]
    assert more == pytest.approx(scores / 0.25e14 - scores / 0.5e14, rel=1e-6)


def test_no_product_is_faster_than_the_fastest_that_was_measured() -> None:
    # At half of the peak, on devices whose fastest product reached all of it, 0.6 and a quarter.
    ones = [_cells({}, memory_bytes_per_s=1e18, reached_share=r) for r in (1.0, 0.6, 0.25)]
    usual, able, slow = (device_times(one, exchanges(one), FREE) for one in ones)
    assert able.forward_s == usual.forward_s
    assert slow.forward_s == pytest.approx(2 * usual.forward_s)
    assert slow.backward_s == pytest.approx(2 * usual.backward_s)


def test_recomputation_is_a_fourth_pass_through_the_layers() -> None:
    written = replace(FREE, score_efficiency=0.5, score_passes=0.0)
    plain, again = (
        device_times(one, exchanges(one), written)
        for one in (
            cells([choice(checkpointing=kind)], fused_attention=False)
            for kind in (Checkpointing.NONE, Checkpointing.FULL)
        )
    )
    once = plain.forward_s[0]
    assert plain.backward_s[0] == pytest.approx(2 * once)
    assert again.backward_s[0] == pytest.approx(3 * once)


def test_the_host_bounds_small_layers() -> None:
    one = _cells({})
    slow = layer_times(one, exchanges(one), replace(FREE, layer_launch_s=3.0))
    assert slow.forward_s[0] == 1.0 and slow.backward_s[0] == 2.0


def test_a_softmax_that_no_kernel_takes_costs_launches() -> None:
    # 4 samples x 8 heads are 32 maps of scores; on 16 ranks (2 maps) four do not fit.
    constants = replace(FREE, loose_softmax_s=1.0)
    plans = cells([choice(4, 1, tensor=t) for t in (8, 16)], fused_attention=False)
    passes = layer_times(plans, exchanges(plans), constants)
    assert passes.forward_s[0] < 1.0 <= passes.forward_s[1] + passes.forward_exchange_s[1]


def test_the_bubble_is_that_of_1f1b() -> None:
    # 4 stages of 2 layers, 8 micro-batches; no tables and no words, so that stages are equal.
    bare = cells(
        [choice(4, 8, pipeline=4)], [shape(has_head=False)], peak_flops=1e12,
        memory_bytes_per_s=1e18, link_bytes_per_s=1e18,
    )  # fmt: skip
    found = plan_step(bare, FREE)
    # A send of next to nothing still has the latency of its link.
    assert found.bubble_s[0] / found.step_time_s[0] == pytest.approx(3 / (8 + 3), rel=1e-3)


@pytest.mark.parametrize(
    ("word", "rates"),
    [
        ("link_bytes_per_s", (1e9, 1e10, 1e11, 1e12)),
        ("memory_bytes_per_s", (1e11, 1e12, 1e13)),
        ("peak_flops", (1e13, 1e14, 1e15)),
    ],
)
def test_nothing_faster_ever_hurts(word: str, rates: tuple[float, ...]) -> None:
    times = [_all_steps_s(**{word: rate}) for rate in rates]
    assert np.all(np.diff(times, axis=0) <= 0)


def test_no_step_is_faster_than_the_peak() -> None:
    slow = _all_cells(peak_flops=1e9)
    for constants in (PlanConstants.fitted(), replace(FREE, weight_efficiency=2.0)):
        assert np.all(plan_step(slow, constants).step_time_s >= slow.least_time_s)


@pytest.mark.parametrize("stage", [0, 3])
def test_replicas_never_raise_throughput_per_accelerator(stage: int) -> None:
    counts = [1, 2, 4, 8, 16]
    times = [_step_s({"data": data, "zero_stage": stage * (data > 1)}) for data in counts]
    # Sharing out the update saves at most the update itself.
    saved = 37.8 * shape().parameter_count / 1e12 if stage else 0.0
    assert np.all(np.diff(times) >= -saved)


def test_parts_add_up_and_communication_covers_what_is_exposed() -> None:
    found = plan_step(_all_cells(), PlanConstants.fitted())
    parts = found.parts
    for name in ("compute_s", "exposed_communication_s", "overhead_s", "communication_s"):
        assert np.isfinite(getattr(parts, name)).all() and (getattr(parts, name) >= 0).all()
    assert np.all((found.bubble_s >= 0) & (found.bubble_s <= parts.compute_s))


def test_gradients_that_micro_batches_scattered_are_not_reduced_again() -> None:
    # With one micro-batch stage 2 sends what stage 1 sends, in pieces; stage 3 scatters as stage 2
    # does and gathers weights twice.
    shares, wide = (
        [choice(4, 1, data=4, zero_stage=stage) for stage in (1, 2, 3)],
        shape(hidden_size=8192),
    )
    sent_s = plan_step(cells(shares, [wide] * 3), FREE).parts.communication_s
    assert sent_s[1] == pytest.approx(sent_s[0], rel=0.1)
    assert sent_s[1] < sent_s[2]


def test_steps_of_a_table_are_the_steps_one_by_one() -> None:
    alone = [_step_s(plan) for plan in PLANS]
    np.testing.assert_array_equal(_all_steps_s(), alone)


def test_both_stacks_have_constants_and_nonsense_is_refused() -> None:
    for stack in Stack:
        assert 0 < PlanConstants.fitted(stack).weight_efficiency < 1
    with pytest.raises(DamagedArtifactError, match="warp_speed"):
        read_constants(PlanConstants, {"warp_speed": 1.0}, least=0.0)
    with pytest.raises(DamagedArtifactError, match="overhead_s"):
        read_constants(PlanConstants, {"overhead_s": -1.0}, least=0.0)

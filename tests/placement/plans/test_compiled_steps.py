"""Steps that are compiled as a whole, products in 8 bits, and loads of experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_plans import cells, choice, shape

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.layer_time import device_times, head_times
from perfmodel.placement.plan_steps.plan_cells import Checkpointing, DeviceColumns
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_exchanges import exchanges
from perfmodel.placement.plans.compiled_memory import compiled_memory_bytes
from perfmodel.placement.plans.plan_answer import TransformerTraining, plan_answer
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Schedule
from perfmodel.types import Mode, Precision

CATALOG = Catalog.default()
TPU, A100, H100 = (CATALOG.get(n) for n in ("TPU-v5p", "A100-SXM4-80GB", "H100-SXM5-80GB"))
#: A layer of 512 features with 8 heads of 64: 4 x 512^2 + 2 x 512 x 2048 weights, ungated.
TRAINING = TransformerTraining(shape=shape(), precision=Precision.BF16)


def test_where_it_runs_decides_the_software() -> None:
    megatron = replace(TRAINING, stack=Stack.MEGATRON, fused_attention=False)
    assert megatron.on([A100]) == megatron
    since = megatron.on([H100])
    assert since.stack is since.split_stack is Stack.MEGATRON_CORE and since.fused_attention
    # Of mixed accelerators the oldest counts.
    assert megatron.on([H100, A100]) == megatron
    for any_of_them in (megatron, TRAINING):
        on_tpu = any_of_them.on([TPU])
        assert on_tpu.stack is Stack.XLA and on_tpu.fused_attention


def test_no_host_launches_a_compiled_step() -> None:
    fabric = Fabric.of(parse_placement("TPU-v5p"))
    short = [choice(1, 1)]
    found = plan_answer(TRAINING, fabric, short).step_time_s[0]
    # On a GPU the same step waits 8 layers long for its launches.
    gpu = plan_answer(TRAINING, Fabric.of(parse_placement("A100-SXM4-80GB")), short).step_time_s[0]
    assert found < gpu / 3
    assert gpu > 8 * PlanConstants.fitted(Stack.TORCH).layer_launch_s


def test_the_output_of_a_job_in_8_bits_is_computed_in_16() -> None:
    device = DeviceColumns.of([H100], [Precision.FP8])
    assert device.peak_flops[0] == H100.flops_per_s(Precision.FP8)
    assert device.output_flops[0] == H100.flops_per_s(Precision.BF16) < device.peak_flops[0]
    constants = replace(PlanConstants(), head_passes=0.0, head_launch_s=0.0, head_efficiency=0.5)
    plans = cells([choice(4, 1)], precision=Precision.FP8)
    wide = replace(plans, device=replace(plans.device, output_flops=plans.device.peak_flops / 2))
    one, other = (head_times(p, constants).forward_s[0] for p in (plans, wide))
    # 2 x 4 x 256 tokens x 1,000 words x 512 features at half of 1e14 FLOP/s
    assert one == pytest.approx(2 * 1024 * 1000 * 512 / 0.5e14)
    assert other == pytest.approx(2 * one)


def test_casts_to_8_bits_go_through_memory() -> None:
    constants = replace(PlanConstants(), activation_passes=0.0)
    times = []
    for precision in (Precision.BF16, Precision.FP8):
        plans = cells([choice(4, 1)], precision=precision)
        times.append(device_times(plans, exchanges(plans), constants).forward_s[0])
    # Inputs of 512 + 512 + 512 + 2,048 elements for a token, 4 bytes each, at 1e12 B/s
    assert times[1] - times[0] == pytest.approx(4 * 1024 * 3584 / 1e12)


def test_the_fullest_expert_sets_the_pace() -> None:
    plans = cells([choice(4, 1)], [shape(experts=8, experts_per_token=2)])
    even, full = (
        device_times(plans, exchanges(plans), replace(PlanConstants(), expert_load=load)).forward_s
        for load in (1.0, 1.5)
    )
    # Half more of 2 experts of 2 x 512 x 2,048 weights, at 0.8 of 1e14 FLOP/s, held back by 1.1
    more = 0.5 * 2 * 1024 * 2 * 2 * 512 * 2048 / (0.8e14 / 1.1)
    assert full[0] - even[0] == pytest.approx(more)
    dense = cells([choice(4, 1)])
    same = [
        device_times(dense, exchanges(dense), replace(PlanConstants(), expert_load=load)).forward_s
        for load in (1.0, 1.5)
    ]
    np.testing.assert_array_equal(same[0], same[1])


def test_a_compiled_step_keeps_what_its_products_write() -> None:
    # 4 x 256 tokens: products of a layer write 4 x 512 of attention, 2,048 and 512 inside.
    tokens, outputs = 4 * 256, 2 * (4 * 512 + 2048 + 512)
    words = 2 * 2 * 1000
    kept = {
        Checkpointing.NONE: 8 * (8 * 512 + 4 * (512 + 512) + 4 * 2048),
        Checkpointing.SELECTIVE: 8 * outputs,
        Checkpointing.FULL: 8 * 2 * 512 + outputs,
    }
    # Weights, gradients and two vectors of state, 2 bytes each.
    held = 2 * 4 * TRAINING.shape.parameter_count
    for again, layers in kept.items():
        found = compiled_memory_bytes(TRAINING, choice(4, 1, checkpointing=again))
        assert found == pytest.approx(held + tokens * (layers + words)), again


def test_plans_divide_compiled_memory() -> None:
    full = Checkpointing.FULL
    one, split, sharded = (
        compiled_memory_bytes(TRAINING, choice(4, 1, checkpointing=full, **plan))
        for plan in ({}, {"tensor": 4, "sequence_parallel": True}, {"data": 4, "zero_stage": 3})
    )
    assert split == pytest.approx(one / 4, rel=0.01)
    assert sharded < one


def test_schedules_hold_as_many_micro_batches_as_they_run_ahead() -> None:
    def passing(**plan: Any) -> float:
        held = compiled_memory_bytes(TRAINING, choice(1, 16, pipeline=4, **plan))
        return held - compiled_memory_bytes(TRAINING, choice(1, 1, pipeline=4))

    def micro_batches(**plan: Any) -> float:
        """Return how many are held beside one, in those of 1F1B, which holds four."""
        return 3 * passing(**plan) / passing() + 1

    interleaved = {"schedule": Schedule.INTERLEAVED, "virtual_stages": 2}
    assert micro_batches(schedule=Schedule.GPIPE) == pytest.approx(16, rel=1e-3)
    assert micro_batches(**interleaved) == pytest.approx(4 + 3 / 2, rel=1e-3)


def test_more_links_never_slow_a_compiled_step() -> None:
    job = Job(
        model="zoo/gpt3", model_kwargs={"size": "13b"}, mode=Mode.TRAINING, batch_size=4,
        precision=Precision.AMP_BF16, sequence_length=2048, activation_checkpointing=True,
    )  # fmt: skip
    training = TransformerTraining.of(job)
    assert training is not None
    rates = []
    for chips in (16, 64, 256):
        fabric = Fabric.of(parse_placement(f"{chips // 4}x(4xTPU-v5p) zero=3"))
        chosen = choice(4, 1, data=chips, zero_stage=3, checkpointing=Checkpointing.FULL)
        rates.append(4 / plan_answer(training, fabric, [chosen]).step_time_s[0])
    # Throughput of a chip falls with their number, but by little inside a slice.
    assert rates[0] >= rates[1] >= rates[2] > 0.9 * rates[0]

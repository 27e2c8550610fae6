from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError, InvalidPlacementError
from perfmodel.placement.topology import Plan
from perfmodel.placement.transformer_plan import (
    PlanConstants,
    PlanTable,
    TransformerPlan,
    layer_compute_s,
    layer_reduce_s,
    plan_times,
)

SIZES: dict[str, Any] = {
    "layers": 8, "hidden_size": 512, "heads": 8, "sequence_length": 256, "vocabulary": 1000,
    "micro_batch": 4, "micro_batches": 6, "peak_flops": 1e14, "memory_bytes_per_s": 1e12,
    "link_bytes_per_s": 1e11,
}  # fmt: skip
FREE = PlanConstants(
    weight_efficiency=0.5, score_efficiency=0.5, head_efficiency=0.5, link_efficiency=0.5,
    product_latency_s=0.0, activation_passes=0.0, score_passes=0.0, head_passes=0.0,
    layer_launch_s=0.0, reduce_launch_s=0.0, head_launch_s=0.0, reduce_latency_s=0.0,
    send_latency_s=0.0, gradient_latency_s=0.0, update_bytes=0.0, overhead_s=0.0,
)  # fmt: skip


def _table(**changes: Any) -> PlanTable:
    return PlanTable.of([TransformerPlan(**{**SIZES, **changes})])


def _step_s(constants: PlanConstants = FREE, **changes: Any) -> float:
    return float(plan_times(_table(**changes), constants).step_time_s[0])


def test_one_device_without_overheads_runs_the_flops_at_the_efficiency() -> None:
    # Model FLOPs of 6 micro-batches of 4 x 256 tokens, at half of 1e14 FLOP/s.
    token = 8 * (24 * 512**2 + 4 * 256 * 512) + 2 * 512 * 1000
    assert _table().model_flops[0] == 3 * 6 * 1024 * token
    assert _step_s() == pytest.approx(3 * 6 * 1024 * token / 0.5e14)


def test_recomputation_is_a_fourth_pass_through_the_layers() -> None:
    plain, again = _table(), _table(recomputes=True)
    assert layer_compute_s(again, FREE) / layer_compute_s(plain, FREE) == pytest.approx(4 / 3)


def test_bubble_is_that_of_1f1b() -> None:
    # (p - 1) / (n + p - 1) of the layers' time.
    times = plan_times(_table(pipeline=4), FREE)
    assert times.bubble_s[0] / times.layers_s[0] == pytest.approx(3 / (6 + 3))


def test_tensor_split_divides_arithmetic_and_adds_reductions() -> None:
    assert layer_compute_s(_table(tensor=4), FREE)[0] == pytest.approx(
        layer_compute_s(_table(), FREE)[0] / 4
    )
    # Four all-reduces of 2 x 3/4 of 1024 tokens x 512 in fp16, at half of 1e11 bytes/s.
    expected = 4 * 2 * 3 / 4 * 1024 * 512 * 2 / 0.5e11
    assert layer_reduce_s(_table(tensor=4), FREE)[0] == pytest.approx(expected)
    assert layer_reduce_s(_table(), FREE)[0] == 0.0


def test_gradients_are_reduced_over_replicas() -> None:
    # 12 h^2 l + h V parameters in fp16; a ring of two sends each byte once.
    parameters = 12 * 512**2 * 8 + 512 * 1000
    assert plan_times(_table(data=2), FREE).gradients_s[0] == pytest.approx(parameters * 2 / 0.5e11)
    assert plan_times(_table(), FREE).gradients_s[0] == 0.0


def test_the_host_bounds_small_layers() -> None:
    slow_host = replace(FREE, layer_launch_s=1.0)
    assert plan_times(_table(), slow_host).layers_s[0] == pytest.approx(6 * 8 * 1.0)
    times = plan_times(_table(), replace(FREE, layer_launch_s=1e-9))
    assert times.layers_s[0] == pytest.approx(6 * 8 * times.layer_compute_s[0])


@pytest.mark.parametrize(
    "better", [{"peak_flops": 2e14}, {"memory_bytes_per_s": 2e12}, {"link_bytes_per_s": 2e11}]
)
@pytest.mark.parametrize("plan", [{}, {"tensor": 2}, {"data": 4}, {"pipeline": 2, "tensor": 2}])
def test_a_better_device_is_never_slower(better: dict[str, float], plan: dict[str, int]) -> None:
    assert _step_s(PlanConstants(), **better, **plan) <= _step_s(PlanConstants(), **plan)


@pytest.mark.parametrize("more", ["layers", "hidden_size", "micro_batch", "micro_batches"])
def test_more_work_takes_longer(more: str) -> None:
    doubled = {more: 2 * SIZES[more]}
    assert _step_s(FREE, **doubled) > _step_s(FREE)
    # Where the host sets the pace, a larger micro-batch may be free.
    assert _step_s(PlanConstants(), **doubled) >= _step_s(PlanConstants())


def test_parts_add_up() -> None:
    times = plan_times(_table(tensor=2, pipeline=2, data=2), PlanConstants())
    parts = (times.layers_s, times.head_s, times.sends_s, times.update_s, times.gradients_s,
             times.overhead_s)  # fmt: skip
    assert times.step_time_s[0] == pytest.approx(float(np.sum(parts)))
    assert all(part[0] > 0 for part in parts)


def test_facts_come_from_the_catalogue() -> None:
    a100 = Catalog.default().get("A100-SXM4-80GB")

    def of(plan: Plan) -> TransformerPlan:
        return TransformerPlan.of(
            a100,
            plan,
            layers=4,
            hidden_size=64,
            heads=4,
            sequence_length=32,
            micro_batch=1,
            micro_batches=3,
        )

    plan = of(Plan(data=2, tensor=4))
    assert (plan.peak_flops, plan.link_bytes_per_s) == (312e12, a100.link_bandwidth_bytes_per_s)
    assert (plan.data, plan.tensor, plan.pipeline) == (2, 4, 1)
    with pytest.raises(InvalidPlacementError, match="data parallelism"):
        of(Plan())


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(InvalidPlacementError, match="3 pipeline stages"):
        TransformerPlan(**{**SIZES, "pipeline": 3})
    with pytest.raises(InvalidInputError, match="micro_batch of a plan"):
        TransformerPlan(**{**SIZES, "micro_batch": 0})

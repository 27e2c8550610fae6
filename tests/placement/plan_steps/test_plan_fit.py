from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_up_plans import cells, choice, shape

from perfmodel.placement.fabric.groups import FloatArray
from perfmodel.placement.plan_steps.plan_cells import PlanCells
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_fit import fit_constants
from perfmodel.placement.plan_steps.plan_step import plan_step

TRUE = PlanConstants(
    weight_efficiency=0.6, layer_launch_s=2e-3, update_bytes=20.0, gradient_overlap=0.0
)


def _plans(widths: tuple[int, ...], layers: tuple[int, ...] = (8, 16)) -> PlanCells:
    asked = list(itertools.product(widths, layers, (1, 4), (2, 8), (1, 2, 4), (1, 2), (1, 2)))
    return cells(
        [
            choice(b, n, tensor=t, pipeline=p, data=d, checkpointing=2)
            for _, _, b, n, t, p, d in asked
        ],
        [
            shape(layers=depth, hidden_size=width, heads=16, sequence_length=1024)
            for width, depth, *_ in asked
        ],
        peak_flops=3e14, memory_bytes_per_s=2e12, link_bytes_per_s=3e11, fused_attention=False,
    )  # fmt: skip


PLANS = _plans((1024, 2048))


def _times(plans: PlanCells, constants: PlanConstants = TRUE) -> FloatArray:
    return plan_step(plans, constants).step_time_s


def test_constants_are_found_again() -> None:
    found = fit_constants(PLANS, _times(PLANS), Stack.MEGATRON)
    assert np.abs(_times(PLANS, found) / _times(PLANS) - 1).max() < 0.05
    assert found.layer_launch_s == pytest.approx(2e-3, rel=0.1)
    assert all(0 < value < 1 for value in (found.weight_efficiency, found.head_efficiency))
    assert found.fused_score_efficiency == TRUE.fused_score_efficiency  # not open in this stack


def test_they_carry_to_depths_and_widths_never_seen() -> None:
    found = fit_constants(PLANS, _times(PLANS), Stack.MEGATRON, starts=1)
    deeper = _plans((1536, 4096), layers=(32, 64))
    assert np.abs(_times(deeper, found) / _times(deeper) - 1).max() < 0.1


def test_a_few_odd_steps_do_not_bend_them() -> None:
    odd = np.where(np.arange(len(PLANS)) % 20 == 0, 3.0, 1.0)
    found = fit_constants(PLANS, _times(PLANS) * odd, Stack.MEGATRON, starts=1)
    assert np.median(np.abs(_times(PLANS, found) / _times(PLANS) - 1)) < 0.05

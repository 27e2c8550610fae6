from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from made_up_plans import cells, choice, shape

from perfmodel.errors import TrainingError
from perfmodel.placement.plans.plan_cells import PlanCells
from perfmodel.placement.plans.plan_constants import PlanConstants, Stack
from perfmodel.placement.plans.plan_efficiency import FloatArray, PlanPredictor
from perfmodel.placement.plans.plan_fit import fit_constants
from perfmodel.placement.plans.plan_step import plan_step

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


def _quirk(plans: PlanCells) -> FloatArray:
    """Return a slowdown of one split that no equation knows."""
    return np.where((plans.plan.tensor == 4) & (plans.plan.micro_batch == 1), 1.3, 1.0)


def test_constants_are_found_again() -> None:
    found = fit_constants(PLANS, _times(PLANS), Stack.MEGATRON)
    assert np.abs(_times(PLANS, found) / _times(PLANS) - 1).max() < 0.05
    assert found.layer_launch_s == pytest.approx(2e-3, rel=0.1)
    assert all(0 < value < 1 for value in (found.weight_efficiency, found.head_efficiency))
    assert found.fused_score_efficiency == TRUE.fused_score_efficiency  # not open in this stack


def test_equations_carry_to_depths_and_widths_never_seen() -> None:
    predictor = PlanPredictor(boosted=False).fit(PLANS, _times(PLANS))
    deeper = _plans((1536, 4096), layers=(32, 64))
    errors = predictor.predict(deeper) / _times(deeper) - 1
    assert np.abs(errors).max() < 0.1


def test_trees_learn_what_the_equations_leave() -> None:
    times = _times(PLANS) * _quirk(PLANS)
    deeper = _plans((1024, 2048), layers=(32,))
    truth = _times(deeper) * _quirk(deeper)

    def error(boosted: bool) -> float:
        answers = PlanPredictor(boosted=boosted).fit(PLANS, times).predict(deeper)
        return float(np.abs(answers / truth - 1).mean())

    assert error(boosted=True) < error(boosted=False) / 2


def test_beyond_what_was_seen_the_equations_answer_alone() -> None:
    times = _times(PLANS) * _quirk(PLANS)
    predictor = PlanPredictor().fit(PLANS, times)
    wider = _plans((8192,))
    assert predictor.is_within(PLANS).all() and not predictor.is_within(wider).any()
    alone = _times(wider, predictor.constants_)
    np.testing.assert_array_equal(predictor.predict(wider), alone)


def test_same_seed_same_answer_and_back_from_json() -> None:
    times = _times(PLANS) * _quirk(PLANS)
    first, second = (PlanPredictor(seed=3).fit(PLANS, times) for _ in range(2))
    answers = first.predict(PLANS)
    np.testing.assert_array_equal(second.predict(PLANS), answers)
    first.calibrate(PLANS, times)
    again = PlanPredictor.from_dict(json.loads(json.dumps(first.to_dict())))
    np.testing.assert_array_equal(again.predict(PLANS), answers)
    np.testing.assert_array_equal(again.interval(PLANS), first.interval(PLANS))


def test_intervals_hold_most_times_of_sizes_never_seen() -> None:
    noise = np.random.default_rng(1).normal(0.0, 0.05, len(PLANS))
    times = _times(PLANS) * np.exp(noise)
    predictor = PlanPredictor(boosted=False).fit(PLANS, times).calibrate(PLANS, times)
    between = _plans((1024, 2048), layers=(12,))
    again = np.random.default_rng(2).normal(0.0, 0.05, len(between))
    truth = _times(between) * np.exp(again)
    low, high = predictor.interval(between)
    assert 0.8 < np.mean((low <= truth) & (truth <= high)) <= 1.0
    assert predictor.half_width_ == pytest.approx(1.645 * 0.05, rel=0.5)


def test_beyond_one_width_there_is_no_interval() -> None:
    narrow = _plans((1024,))
    times = _times(narrow)
    predictor = PlanPredictor(boosted=False).fit(narrow, times).calibrate(narrow, times)
    assert predictor.half_width_ is not None and predictor.half_width_beyond_ is None
    low, high = predictor.interval(_plans((4096,)))
    assert np.isnan(low).all() and np.isnan(high).all()


def test_too_little_and_nonsense_are_refused() -> None:
    few = _plans((1024,), layers=(8,))
    none = few.take(np.zeros(len(few), dtype=np.bool_))
    with pytest.raises(TrainingError, match="at least"):
        PlanPredictor().fit(none, np.zeros(0))
    with pytest.raises(TrainingError, match="above zero"):
        PlanPredictor().fit(few, np.zeros(len(few)))

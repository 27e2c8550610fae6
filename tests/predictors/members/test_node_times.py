"""Operator times are averaged over equal nodes and scaled to the step."""

from __future__ import annotations

import dataclasses

import pytest
import synthetic_workloads as made_up

from perfmodel.features.node_rows import node_rows
from perfmodel.predictors.members.node_times import LARGEST_SCALE, class_times, step_scale

SAMPLE = made_up.samples(families=2)[1]


def test_scaled_times_add_up_to_the_step() -> None:
    times = class_times(SAMPLE, node_rows(SAMPLE.workload))
    assert (times.mean_s * times.measured).sum() == pytest.approx(SAMPLE.step_time_s)


def test_the_scale_by_hand_and_its_limits() -> None:
    def scale(step_s: float) -> float:
        return step_scale(
            dataclasses.replace(SAMPLE, step_time_s=step_s, node_times_s={0: 0.25, 1: 0.75})
        )

    assert scale(1.5) == 1.5
    assert scale(100.0) == LARGEST_SCALE
    assert scale(0.01) == 1 / LARGEST_SCALE
    assert step_scale(dataclasses.replace(SAMPLE, node_times_s={})) == 1.0


def test_unmeasured_classes_have_no_time() -> None:
    one = dataclasses.replace(SAMPLE, node_times_s={0: SAMPLE.step_time_s})
    times = class_times(one, node_rows(one.workload))
    assert times.measured.sum() == 1
    assert (times.mean_s > 0).sum() == 1

"""What a graph stands for: an operator alone, or a whole step."""

from __future__ import annotations

import pytest
import synthetic_workloads as made_up

from perfmodel.features.asked import Asked
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.job import Job
from perfmodel.types import Mode
from perfmodel.zoo.resolve import capture_job


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("model", ["zoo/operator-linear", "zoo/operator-batch-norm"])
def test_operators_are_alone_in_both_modes(model: str, mode: Mode) -> None:
    graph = capture_job(Job(model=model, mode=mode, batch_size=2))
    assert Asked.of(graph) is Asked.of_sketch(step_sketch(graph)) is Asked.OPERATOR


@pytest.mark.parametrize("training", [False, True])
def test_the_smallest_models_are_steps(training: bool) -> None:
    graph = made_up.mlp(64, [64, 64], "relu", training=training)
    assert Asked.of(graph) is Asked.of_sketch(step_sketch(graph)) is Asked.STEP
    assert Asked.of(capture_job(Job(model="zoo/ncf", batch_size=1))) is Asked.STEP

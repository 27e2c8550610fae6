from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.graph.job import Job
from perfmodel.placement.memory.liveness import Held, lifetimes
from perfmodel.placement.memory.memory import peak_tensor_bytes
from perfmodel.placement.memory.memory_parts import MemoryPlan, memory_parts, stacked
from perfmodel.placement.memory.memory_profile import memory_profile, tensors_of
from perfmodel.placement.topology.topology import Schedule
from perfmodel.types import Mode
from perfmodel.zoo.resolve import capture_job

JOB = Job(model="zoo/resnet50-v1.5", mode=Mode.TRAINING, batch_size=4, optimizer="adam")


@pytest.fixture(scope="module")
def captured():  # type: ignore[no-untyped-def]
    graph = capture_job(JOB)
    return graph, memory_profile(graph)


def test_the_corners_hold_the_peak_exactly(captured) -> None:  # type: ignore[no-untyped-def]
    graph, profile = captured
    assert profile.peak_tensor_bytes == peak_tensor_bytes(graph)
    assert profile.reserved_ratio >= 1


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 2.0])
def test_the_corners_hold_the_peak_under_any_division(captured, share) -> None:  # type: ignore[no-untyped-def]
    graph, profile = captured
    lives = lifetimes(graph)
    start = lives.optimizer_start
    activations = lives.occupied(lives.held == Held.ACTIVATION)[:start]
    gradients = lives.occupied(lives.held == Held.GRADIENT)[:start]
    corners = profile.activation_corners + share * profile.gradient_corners
    assert corners.max() == pytest.approx((activations + share * gradients).max())
    assert len(corners) < 40


def test_adam_keeps_two_numbers_for_each_parameter(captured) -> None:  # type: ignore[no-untyped-def]
    _, profile = captured
    assert profile.gradient_bytes == profile.parameter_bytes
    assert profile.optimizer_state_bytes == pytest.approx(2 * profile.parameter_bytes, rel=1e-4)


def test_pipelines_keep_the_micro_batches_that_are_under_way(captured) -> None:  # type: ignore[no-untyped-def]
    _, profile = captured
    whole = profile.activation_corners.max()

    def kept(schedule: Schedule, **degrees: float) -> float:
        plan = MemoryPlan(pipeline=4.0, micro_batches=8.0, schedule=schedule, **degrees)
        return float(memory_parts(profile, plan).activation_corners.max() / whole)

    # A quarter of the layers: eight batches of it with GPipe, four with 1F1B, and with two chunks
    # each 1 + 3 / 8 times that.
    assert kept(Schedule.GPIPE) == pytest.approx(8 / 4)
    assert kept(Schedule.ONE_F_ONE_B) == pytest.approx(4 / 4)
    assert kept(Schedule.INTERLEAVED, virtual_stages=2.0) == pytest.approx(1 + 3 / 8)


def test_tensor_ranks_keep_some_activations_whole_unless_sequences_are_split(captured) -> None:  # type: ignore[no-untyped-def]
    _, profile = captured
    plans = MemoryPlan(tensor=4.0, sequence_parallel=np.array([False, True]))
    kept = memory_parts(profile, plans).activation_corners.max(axis=1)
    assert kept[1] == pytest.approx(profile.activation_corners.max() / 4)
    assert kept[0] > kept[1]


def test_stacking_keeps_every_maximum(captured) -> None:  # type: ignore[no-untyped-def]
    _, profile = captured
    both = stacked([memory_parts(profile), memory_parts(tensors_of(5.0))])
    assert both.activation_corners[0].max() == profile.activation_corners.max()
    assert both.activation_corners[1].max() == 0
    assert both.held_bytes[1] == 5


def test_scores_that_are_computed_again_wait_for_one_layer_at_a_time() -> None:
    job = Job(model="zoo/gpt2", mode=Mode.TRAINING, model_kwargs={"num_layers": 3})
    graph = capture_job(job)
    again = capture_job(replace(job, activation_checkpointing=True))
    # A matrix of one layer: 1 sample x 12 heads x 1,024 x 1,024 scores of 4 bytes.
    one = 12 * 1024 * 1024 * 4
    assert memory_profile(graph).attention_bytes == 3 * one
    assert memory_profile(graph, selective_checkpointing=True).attention_bytes == one
    assert memory_profile(again).attention_bytes == one
    inference = capture_job(replace(job, mode=Mode.INFERENCE))
    assert memory_profile(inference).attention_bytes == 0

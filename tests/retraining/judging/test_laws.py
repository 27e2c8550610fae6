"""How often laws are broken is counted, by versions that break them on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import synthetic_workloads as made_up
import torch
from retraining_world import SAMPLES

from perfmodel.capture.torch import capture_module
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction
from perfmodel.retraining.judging.laws import law_steps, reversed_graph, violations
from perfmodel.retraining.judging.version_at_hand import VersionAtHand, analytical_version
from perfmodel.types import Basis, Mode


@dataclass
class Says:
    """Answers whatever a function says."""

    time_s: Any
    version: str = "made-up/1"

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        return [
            Prediction(
                time_s=time_s, low_s=time_s, high_s=time_s, coverage=0.9, basis=Basis.DEFAULT,
                out_of_distribution=False, nearest=(), model_version=self.version,
            )
            for time_s in map(self.time_s, workloads)
        ]  # fmt: skip


def _version(time_s: Any) -> VersionAtHand:
    return VersionAtHand(name="made-up/1", model=Says(time_s))


def test_the_analytical_model_breaks_no_law() -> None:
    steps = law_steps(SAMPLES)
    assert 40 < len(steps) <= 64
    assert set(violations(analytical_version(), steps).values()) == {0}


def test_what_breaks_a_law_is_counted() -> None:
    steps = law_steps(SAMPLES)
    # Groups are of batches 4 and 16: each pair shrinks.
    shrinking = violations(_version(lambda one: 1e3 / one.batch_size), steps)
    assert (shrinking["monotone in batch"], shrinking["under the roofline"]) == (len(steps) // 2, 0)
    fast = violations(_version(lambda one: 1e-12), steps)
    assert (fast["monotone in batch"], fast["under the roofline"]) == (0, len(steps))


def test_measured_steps_that_shrank_are_no_violation() -> None:
    odd = [
        replace(one, step_time_s=1.0 / one.workload.batch_size) for one in law_steps(SAMPLES)[:2]
    ]
    assert violations(_version(lambda one: 1e3 / one.batch_size), odd)["monotone in batch"] == 0


def test_nodes_are_put_into_another_order_that_is_as_good() -> None:
    graph = made_up.mlp(16, [64, 64, 64], "relu", training=True)
    turned = reversed_graph(graph)
    assert [node.op for node in turned.nodes] != [node.op for node in graph.nodes]
    assert turned.content_hash == graph.content_hash
    assert sorted(node.op for node in turned.nodes) == sorted(node.op for node in graph.nodes)


def test_what_is_written_in_place_stays_behind_what_reads_it_before() -> None:
    class Kept(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            kept = (first := 2 * x).clone()
            return first.relu_().exp(), kept

    graph = capture_module(Kept(), (torch.empty(4, 8),), mode=Mode.INFERENCE)
    turned = reversed_graph(graph)
    ops = [node.op for node in turned.nodes]
    assert ops.index("clone") < ops.index("relu_")
    assert step_sketch(turned).class_of_node.size == step_sketch(graph).class_of_node.size
    assert np.array_equal(step_sketch(turned).neighbours, step_sketch(graph).neighbours)


def test_laws_are_asked_of_steps_that_nobody_measured() -> None:
    hashes = {one.workload.content_hash for one in SAMPLES}
    assert not hashes & {one.workload.content_hash for one in law_steps(SAMPLES)}

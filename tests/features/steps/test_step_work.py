"""The work of whole steps is that of their operators."""

from __future__ import annotations

from dataclasses import replace

import pytest
import synthetic_workloads as made_up

from perfmodel.devices.catalog import Catalog
from perfmodel.features.nodes import node_table
from perfmodel.features.roofline import node_roofline
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_work import step_work
from perfmodel.graph.workload import Workload
from perfmodel.types import Compiler, Mode

GRAPHS = (
    made_up.mlp(32, [64, 128, 16], "relu", training=True),
    made_up.convnet(4, 8, 2, 3, training=True, size=14),
)
WORKLOADS = [
    Workload(
        graph=graph, accelerator=Catalog.default().get("V100-SXM2-16GB"), mode=Mode.TRAINING,
        batch_size=4,
    )
    for graph in GRAPHS
]  # fmt: skip


def test_work_is_the_sum_over_operators_that_are_no_views() -> None:
    found = step_work([Step.of(workload) for workload in WORKLOADS])
    for i, workload in enumerate(WORKLOADS):
        assert found.roofline_s[i] == pytest.approx(node_roofline(workload).roofline_s.sum())
        assert found.calls[i] == (~node_table(workload.graph).is_view).sum()


def test_a_compiler_adds_no_work() -> None:
    steps = [Step.of(workload) for workload in WORKLOADS]
    eager = step_work(steps)
    fused = step_work([replace(step, compiler=Compiler.INDUCTOR) for step in steps])
    assert (fused.roofline_s <= eager.roofline_s).all() and (fused.calls <= eager.calls).all()


def test_of_no_steps_there_is_no_work() -> None:
    assert len(step_work([]).calls) == 0

"""What the work of a step is of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_products import product_step

from perfmodel.features.steps.sketch import step_sketch
from perfmodel.feedback.operator_mix import operator_class, operator_mix
from perfmodel.graph.ir import Graph, Node
from perfmodel.types import Phase


def test_the_work_is_the_larger_of_arithmetic_and_traffic() -> None:
    # 64 x 512 times 512 x 256: 2 * 64 * 512 * 256 = 16.8 MFLOP, and 4 * (64 * 512 + 512 * 256 +
    # 64 * 256) = 0.72 MB, 23.1 MFLOP's worth. A rectifier over the result reads and writes
    # 64 * 256 * 4 * 2 = 0.13 MB: 4.2 MFLOP's worth.
    graph = product_step(64, 512, 256).graph
    rectified = replace(graph.tensors[2], storage=3)
    rectifier = Node(op="relu", phase=Phase.FORWARD, inputs=(2,), outputs=(3,))
    graph = Graph(nodes=(*graph.nodes, rectifier), tensors=(*graph.tensors, rectified))
    mix = operator_mix(step_sketch(graph))
    product = 32 * 4 * (64 * 512 + 512 * 256 + 64 * 256)
    pointwise = 32 * 4 * 2 * 64 * 256
    assert mix == {
        "products": pytest.approx(product / (product + pointwise)),
        "point-wise": pytest.approx(pointwise / (product + pointwise)),
    }
    assert operator_class(mix) == "products"


def test_real_networks_are_told_apart() -> None:
    from perfmodel.estimator.jobs.capture import capture_in_process
    from perfmodel.graph.job import Job

    found = {
        name: operator_class(operator_mix(step_sketch(capture_in_process(Job(model=name)).graph)))
        for name in ("zoo/resnet18-cifar", "zoo/mlp")
    }
    assert found == {"zoo/resnet18-cifar": "convolutions", "zoo/mlp": "products"}

"""Fused kernels by the names that inductor gives them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from perfmodel.capture.program import make_program
from perfmodel.capture.torch import capture
from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators.dispatched import OperatorEvent, join_operators
from perfmodel.profilers.operators.fused_kernels import claim_fused, fused_names
from perfmodel.types import Mode


def blocks(count: int) -> Graph:
    """Capture ``count`` times convolution, batch norm, relu."""
    layers = [
        layer
        for _ in range(count)
        for layer in (nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    ]
    images = torch.randn(2, 4, 8, 8)
    return capture(make_program(nn.Sequential(*layers), (images,), mode=Mode.INFERENCE))


def test_names_list_what_was_fused() -> None:
    name = "graph_0_cpp_fused__native_batch_norm_legit_no_training_relu_2"
    assert fused_names(name) == "_native_batch_norm_legit_no_training_relu"
    assert fused_names("triton_red_fused_add_mean_0") == "add_mean"
    assert fused_names("convolution") is None


def test_equal_kernels_stand_for_the_nodes_between_their_neighbours() -> None:
    graph = blocks(2)
    assert [node.op for node in graph.nodes] == ["convolution", "native_batch_norm", "relu"] * 2
    name = "_native_batch_norm_legit_no_training_relu"
    # convolution (0), fused (1), convolution (2), fused (3); convolutions are nodes 0 and 3.
    claimed = claim_fused({1: name, 3: name}, {0: 0, 2: 3}, graph)
    assert [sorted(shares) for shares in claimed.values()] == [[1, 2], [4, 5]]
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in claimed.values())


def test_a_kernel_for_which_no_node_is_left_keeps_its_name() -> None:
    graph = blocks(1)
    events = [
        OperatorEvent(op="convolution", shapes=((2, 4, 8, 8), (4, 4, 3, 3)), time_s=3e-6),
        OperatorEvent(op="graph_0_cpp_fused_relu_1", shapes=(), time_s=2e-6),
        OperatorEvent(op="graph_0_cpp_fused_relu_2", shapes=(), time_s=1e-6),
    ]
    joined = join_operators(graph, [events])
    assert joined.times_s == {0: 3e-6, 2: 2e-6}
    assert joined.unjoined_s == {"graph_0_cpp_fused_relu_2": 1e-6}


def test_a_call_that_the_compiler_moved_is_found_by_its_shape() -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    graph = capture(make_program(module, (torch.randn(2, 8),), mode=Mode.INFERENCE))
    events = [
        OperatorEvent(op="addmm", shapes=((4,), (2, 16), (16, 4)), time_s=5e-6),
        OperatorEvent(op="addmm", shapes=((16,), (2, 8), (8, 16)), time_s=7e-6),
        OperatorEvent(op="cpp_fused_relu_0", shapes=(), time_s=1e-6),
    ]
    joined = join_operators(graph, [events])
    assert joined.joined_share == pytest.approx(1.0)
    products = {
        graph.inputs_of(graph.nodes[n])[0].shape: s
        for n, s in joined.times_s.items()
        if graph.nodes[n].op == "addmm"
    }
    assert products == {(4,): 5e-6, (16,): 7e-6}

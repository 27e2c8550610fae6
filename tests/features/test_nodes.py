"""Node columns against hand arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.features.nodes import STATIC_COLUMNS, node_table
from perfmodel.features.operand_shapes import convolution_shape, gemm_shape
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.types import Phase, Role

MLP = made_up.mlp(32, [64, 128, 16], "relu", training=True)
CONV = made_up.convnet(4, 8, 2, 3, training=True, size=14)


def _column(graph: Graph, name: str) -> np.ndarray:
    return node_table(graph).column(name)


def test_columns_are_finite_and_named_once() -> None:
    assert len(set(STATIC_COLUMNS)) == len(STATIC_COLUMNS)
    for graph in (MLP, CONV):
        table = node_table(graph)
        assert table.static.shape == (len(graph.nodes), len(STATIC_COLUMNS))
        assert np.isfinite(table.static).all()


def test_is_computed_once_per_graph() -> None:
    assert node_table(MLP) is node_table(MLP)


def test_first_product_by_hand() -> None:
    # addmm(bias, [32, 64], [64, 128]): m = 32, n = 128, k = 64.
    # The formula may count the bias too, which moves k by less than one.
    assert MLP.nodes[0].op == "addmm"
    assert _column(MLP, "log_gemm_m")[0] == pytest.approx(math.log2(33))
    assert _column(MLP, "log_gemm_n")[0] == pytest.approx(math.log2(129))
    assert _column(MLP, "log_gemm_k")[0] == pytest.approx(math.log2(65), abs=0.02)
    assert _column(MLP, "log_output")[0] == pytest.approx(math.log2(1 + 32 * 128))
    # Parameters: weight 64 * 128 and bias 128, 4 bytes each.
    assert _column(MLP, "log_parameter_bytes")[0] == pytest.approx(
        math.log2(1 + 4 * (64 * 128 + 128))
    )


def test_convolution_by_hand() -> None:
    # 8 -> 8 channels, 3 x 3, stride 1, 14 x 14 positions in and out.
    assert CONV.nodes[0].op == "convolution"
    expected = {
        "log_channels_in": math.log2(9), "log_channels_out": math.log2(9),
        "log_kernel_area": math.log2(10), "stride": 1.0, "depthwise": 0.0,
        "log_spatial_in": math.log2(197), "log_spatial_out": math.log2(197), "gradients": 0.0,
    }  # fmt: skip
    for name, value in expected.items():
        assert _column(CONV, name)[0] == pytest.approx(value), name


def test_backward_convolution_takes_its_operands_by_their_places() -> None:
    position = next(i for i, n in enumerate(CONV.nodes) if n.op == "convolution_backward")
    node = CONV.nodes[position]
    shape = convolution_shape(node, CONV.inputs_of(node), CONV.outputs_of(node))
    assert (shape.channels_in, shape.channels_out, shape.kernel_area) == (8, 8, 9)
    assert (shape.spatial_in, shape.spatial_out, shape.gradients) == (196, 196, 2)


def test_depthwise_is_seen() -> None:
    make = made_up.GraphBuilder()
    source = make.tensor((1, 32, 8, 8), Role.INPUT)
    weight = make.tensor((32, 1, 3, 3), Role.PARAMETER)
    make.node("convolution", (source, weight), [(1, 32, 8, 8)], groups=32, stride=(1, 1))
    graph = make.build()
    assert _column(graph, "depthwise")[0] == 1.0
    assert _column(graph, "log_groups")[0] == pytest.approx(math.log2(33))


def test_odd_operands_give_no_shape_and_no_error() -> None:
    scalar = Tensor(shape=(), dtype="float32", role=Role.ACTIVATION, storage=0)
    node = Node(op="convolution", phase=Phase.FORWARD, inputs=(0, 0), outputs=(0,))
    assert sum(convolution_shape(node, (scalar, scalar), (scalar,))) == 0
    assert sum(gemm_shape((), 10.0)) == 0
    assert gemm_shape((scalar,), 10.0).k == 5.0


def test_views_are_skipped_between_producer_and_consumer() -> None:
    # mm reads t(source): its producer is whoever wrote the source, not the view.
    table = node_table(MLP)
    view = next(i for i, n in enumerate(MLP.nodes) if n.op == "t")
    assert not np.any(table.edges[0] == view) or "t" not in {
        MLP.nodes[i].op for i in table.edges[0]
    }


def test_reuse_distance_is_the_traffic_in_between() -> None:
    # relu reads what addmm has just written: the distance is the traffic of addmm itself,
    # (32*64 + 64*128 + 128 + 32*128) * 4 = 57 856 bytes: 2^16 after rounding.
    assert _column(MLP, "log_nearest_reuse")[1] == pytest.approx(16.0)
    assert _column(MLP, "recent_share_18")[1] == pytest.approx(1.0)
    # The weights of the first product come from nowhere in this step: the whole step.
    assert _column(MLP, "log_nearest_reuse")[0] > 16.0


def test_unpriced_nodes_are_marked_and_their_traffic_is_that_of_their_operands() -> None:
    make = made_up.GraphBuilder()
    source = make.tensor((256,), Role.INPUT)
    make.node("mylib::mystery", (source,), [(256,)])
    table = node_table(make.build())
    assert table.column("priced")[0] == 0.0
    assert table.traffic_bytes[0] == 2 * 256 * 4


def test_a_graph_of_one_node_without_tensors_works() -> None:
    graph = Graph(
        nodes=(Node(op="mystery", phase=Phase.FORWARD, inputs=(), outputs=()),), tensors=()
    )
    assert np.isfinite(node_table(graph).static).all()

"""A training step from ONNX: backward rules, gradient accumulation, optimizer updates."""

from __future__ import annotations

import pytest
from graph_totals import totals
from onnx import TensorProto, helper
from onnx_files import numbers, one_node, onnx_file, tensor_info, weight

from perfmodel.capture.onnx import capture_onnx
from perfmodel.capture.onnx.rules.reduction import _PLAIN
from perfmodel.errors import InvalidInputError, UnsupportedOnnxError
from perfmodel.types import Mode, Phase, Role


def trained(data, optimizer="sgd", **options):
    if hasattr(data, "SerializeToString"):
        data = data.SerializeToString()
    return capture_onnx(data, mode=Mode.TRAINING, optimizer=optimizer, **options)


def after_weight(op, shape, *initializers, outputs=1, **attrs):
    """A file in which the operator reads ``x * p``, so that gradients pass through it."""
    names = [f"y{p}" for p in range(outputs)]
    nodes = [
        helper.make_node("Mul", ["x", "p"], ["scaled"], name="scale"),
        helper.make_node(op, ["scaled", *(t.name for t in initializers)], names, "node", **attrs),
    ]
    infos = [tensor_info(n, None) for n in names]
    return onnx_file(nodes, [tensor_info("x", shape)], infos, [weight("p", 1), *initializers])


def ops(graph, phase):
    return [n.op for n in graph.nodes if n.phase is phase]


def test_the_gradient_of_every_parameter_has_its_shape_and_role():
    graph = trained(one_node("Gemm", [(3, 8)], [weight("w", 5, 8), weight("b", 5)], transB=1))
    (update,) = [n for n in graph.nodes if n.phase is Phase.OPTIMIZER]
    assert update.op == "_foreach_add_"
    parameters, gradients = graph.inputs_of(update)[:2], graph.inputs_of(update)[2:]
    assert [t.shape for t in parameters] == [t.shape for t in gradients] == [(5, 8), (5,)]
    assert {t.role for t in parameters} == {Role.PARAMETER}
    assert {t.role for t in gradients} == {Role.GRADIENT}
    assert [t.storage for t in graph.outputs_of(update)] == [t.storage for t in parameters]
    assert graph.storage_bytes(Role.GRADIENT) == graph.storage_bytes(Role.PARAMETER) == 4 * 45


def test_a_linear_layer_trains_in_three_products_of_equal_size():
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    data = onnx_file(nodes, [tensor_info("x", [3, 8])], [tensor_info("y", None)],
                     [weight("v", 8, 8), weight("w", 8, 8)])  # fmt: skip
    graph = trained(data)
    # The first layer's input needs no gradient: 2 forward products, 3 backward ones.
    assert ops(graph, Phase.FORWARD).count("mm") == 2
    assert ops(graph, Phase.BACKWARD).count("mm") == 3
    products = [n for n in graph.nodes if n.op == "mm"]
    assert sum(2 * 3 * 8 * 8 for _ in products) == 5 * 384


def test_gradients_of_a_tensor_used_twice_are_added():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="mm"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Add", ["a", "b"], ["y"], name="residual"),
    ]
    graph = trained(
        onnx_file(nodes, [tensor_info("x", [2, 4])], [tensor_info("y", None)], [weight("w", 4, 4)])
    )
    assert ops(graph, Phase.BACKWARD).count("add") == 1


def test_a_parameter_shared_by_two_layers_is_updated_once():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    graph = trained(
        onnx_file(nodes, [tensor_info("x", [2, 4])], [tensor_info("y", None)], [weight("w", 4, 4)])
    )
    (update,) = [n for n in graph.nodes if n.phase is Phase.OPTIMIZER]
    assert len(update.outputs) == 1
    assert ops(graph, Phase.BACKWARD).count("add") == 1
    assert graph.parameter_count == 16


@pytest.mark.parametrize(
    ("optimizer", "states"), [("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2)]
)
def test_optimizers_keep_their_state(optimizer, states):
    data = one_node("Gemm", [(3, 8)], [weight("w", 8, 5), weight("b", 5)])
    graph = trained(data, optimizer)
    steps = 2 * 4 if states == 2 else 0  # Adam counts its steps for each parameter
    assert graph.storage_bytes(Role.OPTIMIZER_STATE) == states * 4 * 45 + steps


def test_phases_stand_in_order():
    graph = trained(one_node("Gemm", [(3, 8)], [weight("w", 8, 5)]))
    order = [tuple(Phase).index(n.phase) for n in graph.nodes]
    assert order == sorted(order)
    assert set(order) == {0, 1, 2}


def test_backward_nodes_bear_the_name_of_their_onnx_node():
    graph = trained(one_node("Gemm", [(3, 8)], [weight("w", 8, 5)]))
    assert any(n.name.startswith("node#backward") for n in graph.nodes)


def test_batch_norm_trains_on_batch_statistics_and_keeps_buffers():
    affine = [weight(n, 4) for n in "somv"]
    graph = trained(one_node("BatchNormalization", [(2, 4, 3, 3)], affine))
    forward = graph.nodes[0]
    assert forward.attrs["training"] is True
    assert forward.attrs["momentum"] == pytest.approx(0.1)
    assert graph.storage_bytes(Role.PARAMETER) == graph.storage_bytes(Role.BUFFER) == 2 * 4 * 4
    assert "native_batch_norm_backward" in ops(graph, Phase.BACKWARD)


def test_dropout_takes_part_in_training_only():
    ratio = helper.make_tensor("r", TensorProto.FLOAT, [], [0.1])
    data = after_weight("Dropout", [2, 4], ratio)
    assert "native_dropout_backward" in ops(trained(data), Phase.BACKWARD)
    assert "native_dropout" not in ops(capture_onnx(data.SerializeToString()), Phase.FORWARD)


DIFFERENTIABLE = [
    *((op, [2, 3, 4, 4], (), {}) for op in (
        "Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish",
        "HardSigmoid", "ThresholdedRelu", "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Sin",
        "Cos", "Tan", "Atan", "Erf", "Clip", "Softmax", "LogSoftmax", "GlobalAveragePool",
        "GlobalMaxPool", "Transpose", "Flatten", "Trilu", "Identity",
    )),
    *((op, [2, 3, 4], (), {"axes": [1]}) for op in _PLAIN if op not in ("ReduceSum", "ReduceProd")),
    ("ReduceSum", [2, 3, 4], (numbers("a", [1]),), {"keepdims": 0}),
    ("ReduceL1", [2, 3, 4], (), {"axes": [1], "keepdims": 0}),
    ("ReduceL2", [2, 3, 4], (), {"axes": [1], "keepdims": 0}),
    ("MaxPool", [1, 2, 9, 9], (), {"kernel_shape": [3, 3]}),
    ("MaxPool", [1, 2, 9], (), {"kernel_shape": [3]}),
    ("AveragePool", [1, 2, 9, 9], (), {"kernel_shape": [3, 3]}),
    ("ConvTranspose", [1, 2, 5, 5], (weight("w", 2, 3, 3, 3), weight("b", 3)), {"strides": [2, 2]}),
    ("Reshape", [2, 6], (numbers("s", [-1]),), {}),
    ("Expand", [3, 1], (numbers("s", [2, 3, 4]),), {}),
    ("Tile", [2, 3], (numbers("r", [2, 1]),), {}),
    ("Pad", [1, 2, 5, 5], (numbers("pads", [0, 0, 1, 1, 0, 0, 1, 1]),), {"mode": "reflect"}),
    ("Pad", [2, 3], (numbers("pads", [0, 1, 0, 1]),), {}),
    ("Slice", [9, 4], (numbers("s", [1]), numbers("e", [5])), {}),
    ("Slice", [9, 4], (numbers("s", [-1]), numbers("e", [-5]), numbers("a", [0]),
                       numbers("t", [-1])), {}),
    ("Gather", [9, 4], (numbers("i", [1, 2]),), {}),
    ("GatherElements", [9, 4], (helper.make_tensor("i", TensorProto.INT64, [1, 4], [0] * 4),), {}),
    ("GatherND", [9, 4], (helper.make_tensor("i", TensorProto.INT64, [2, 1], [0, 3]),), {}),
    ("ScatterND", [9, 4], (helper.make_tensor("i", TensorProto.INT64, [2, 1], [0, 3]),
                           weight("u", 2, 4)), {}),
    ("Split", [2, 6], (numbers("s", [2, 4]),), {"axis": 1, "outputs": 2}),
    ("TopK", [2, 6], (numbers("k", [2]),), {"outputs": 2}),
    ("CumSum", [2, 6], (numbers("a", [1]),), {}),
    ("DepthToSpace", [1, 8, 2, 3], (), {"blocksize": 2}),
    ("SpaceToDepth", [1, 2, 4, 6], (), {"blocksize": 2}),
    ("PRelu", [2, 3, 4], (weight("w", 3, 1),), {}),
    ("Pow", [2, 3], (weight("e", 3),), {}),
    ("Div", [2, 3], (weight("e", 3),), {}),
    ("Sub", [2, 3], (weight("e", 3),), {}),
    ("Max", [2, 3], (weight("e", 3),), {}),
    ("Min", [2, 3], (weight("e", 3),), {}),
    ("LayerNormalization", [2, 3, 4], (weight("w", 4), weight("b", 4)), {}),
    ("InstanceNormalization", [2, 3, 4], (weight("w", 3), weight("b", 3)), {}),
    ("LSTM", [5, 2, 3], (weight("w", 1, 16, 3), weight("r", 1, 16, 4), weight("b", 1, 32)),
     {"hidden_size": 4}),
    ("GRU", [5, 2, 3], (weight("w", 1, 12, 3), weight("r", 1, 12, 4)), {"hidden_size": 4}),
    ("Einsum", [2, 3], (weight("w", 3, 4),), {"equation": "ij,jk->ki"}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape", "initializers", "attrs"), DIFFERENTIABLE)
def test_gradients_pass_through(op, shape, initializers, attrs):
    graph = trained(after_weight(op, shape, *initializers, **attrs))
    gradients = [t for t in graph.tensors if t.role is Role.GRADIENT and t.shape == (1,)]
    assert gradients, "no gradient reached the parameter before the operator"
    assert not totals(graph).unpriced
    # Each parameter's gradient has its shape, whatever happened in between.
    update = graph.nodes[-1]
    tensors = graph.inputs_of(update)
    half = len(tensors) // 2
    assert [t.shape for t in tensors[:half]] == [t.shape for t in tensors[half:]]


def test_an_operator_without_a_backward_rule_is_named():
    data = after_weight("ReduceProd", [2, 3], axes=[1])
    with pytest.raises(UnsupportedOnnxError, match=r"backward rule for the operator 'prod' \(ONNX"):
        trained(data)


def test_a_graph_without_parameters_cannot_be_trained():
    with pytest.raises(UnsupportedOnnxError, match="nothing to train"):
        trained(one_node("Relu", [(2, 3)]))


def test_unknown_optimizers_are_refused():
    with pytest.raises(InvalidInputError, match="use one of sgd, momentum, adam, adamw") as caught:
        trained(one_node("Relu", [(2, 3)]), "lion")
    assert caught.value.allowed == ("sgd", "momentum", "adam", "adamw")

"""Functions, branches and loops are followed in place where they are decided beforehand."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from onnx_files import numbers, onnx_file, tensor_info, weight

from perfmodel.capture.onnx import OnnxLimits, capture_onnx
from perfmodel.errors import UnsupportedOnnxError

X, Y = tensor_info("x", [2, 4]), tensor_info("y", None)


def function(name, nodes, attributes=()):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, opsets, attributes)


def calling(name, functions, **attrs):
    node = helper.make_node(name, ["x"], ["y"], name="call", domain="own", **attrs)
    model = onnx_file([node], [X], [Y], functions=functions, domains=["own"])
    return model.SerializeToString()


def branch(name, op):
    return helper.make_graph(
        [helper.make_node(op, ["x"], ["z"], name=op.lower())], name, [], [tensor_info("z", None)]
    )


def conditional(condition_node, *extra, inputs=(X,)):
    node = helper.make_node(
        "If", ["c"], ["y"], name="if", then_branch=branch("t", "Relu"),
        else_branch=branch("e", "Tanh"),
    )  # fmt: skip
    return onnx_file([*condition_node, node], inputs, [Y], extra).SerializeToString()


def test_functions_are_inlined_with_their_attributes():
    transpose = helper.make_node("Transpose", ["a"], ["b"], name="turn")
    reference = onnx.AttributeProto(name="perm", ref_attr_name="order")
    reference.type = onnx.AttributeProto.INTS
    transpose.attribute.append(reference)
    graph = capture_onnx(calling("Turn", [function("Turn", [transpose], ["order"])], order=[1, 0]))
    (node,) = graph.nodes
    assert (node.op, node.name) == ("t", "call/turn")
    assert graph.outputs_of(node)[0].shape == (4, 2)


def test_functions_may_call_functions_but_not_themselves():
    inner = function("Inner", [helper.make_node("Relu", ["a"], ["b"])])
    outer = function("Outer", [helper.make_node("Inner", ["a"], ["b"], domain="own")])
    assert [n.op for n in capture_onnx(calling("Outer", [inner, outer])).nodes] == ["relu"]
    selfish = function("Self", [helper.make_node("Self", ["a"], ["b"], domain="own")])
    with pytest.raises(UnsupportedOnnxError, match="a function may not call itself"):
        capture_onnx(calling("Self", [selfish]))


def test_functions_that_double_at_each_level_meet_the_node_limit():
    def twice(level):
        names = [("a", "m"), ("m", "b")]
        calls = [helper.make_node(f"F{level + 1}", [i], [o], domain="own") for i, o in names]
        return function(f"F{level}", calls)

    functions = [twice(level) for level in range(15)]
    functions.append(function("F15", [helper.make_node("Relu", ["a"], ["b"])]))
    with pytest.raises(UnsupportedOnnxError, match="once functions and loops are unrolled"):
        capture_onnx(calling("F0", functions))


@pytest.mark.parametrize(("value", "op"), [(True, "relu"), (False, "tanh")])
def test_a_constant_branch_is_taken(value, op):
    constant = helper.make_tensor("c", TensorProto.BOOL, [], [value])
    (node,) = capture_onnx(conditional([], constant)).nodes
    assert (node.op, node.name) == (op, f"if/{op}")


def test_a_branch_on_a_shape_is_decided_by_the_shape():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Equal", ["n", "two"], ["c"]),
    ]
    data = conditional(nodes, numbers("first", [0]), numbers("two", [2]))
    assert [n.op for n in capture_onnx(data).nodes] == ["relu"]


def test_a_branch_on_data_is_refused():
    flag = tensor_info("c", [], TensorProto.BOOL)
    with pytest.raises(UnsupportedOnnxError, match=r"'if' \(If\) branches on data"):
        capture_onnx(conditional([], inputs=(X, flag)))


def loop(trips, nodes, *, inputs=(X,)):
    infos = [tensor_info("i", [], TensorProto.INT64), tensor_info("go", [], TensorProto.BOOL)]
    body = helper.make_graph(
        nodes, "body", [*infos, tensor_info("v", None)],
        [tensor_info("go", [], TensorProto.BOOL), tensor_info("w", None), tensor_info("w2", None)],
    )  # fmt: skip
    node = helper.make_node("Loop", ["m", "", "x"], ["y", "stack"], name="loop", body=body)
    extra = [] if trips is None else [helper.make_tensor("m", TensorProto.INT64, [], [trips])]
    return onnx_file([node], inputs, [Y], extra).SerializeToString()


BODY = [
    helper.make_node("Relu", ["v"], ["w"], name="relu"),
    helper.make_node("Neg", ["v"], ["w2"], name="neg"),
]


def test_a_loop_of_known_length_is_unrolled():
    graph = capture_onnx(loop(3, BODY))
    assert [n.name for n in graph.nodes if n.op == "relu"] == [f"loop/{i}/relu" for i in range(3)]
    (stack,) = [n for n in graph.nodes if n.op == "stack"]
    assert graph.outputs_of(stack)[0].shape == (3, 2, 4)


def test_an_endless_loop_meets_the_node_limit():
    with pytest.raises(UnsupportedOnnxError, match="Shorten the loops"):
        capture_onnx(loop(2**62, BODY), limits=OnnxLimits(max_nodes=100))


def test_a_loop_of_unknown_length_is_refused():
    trips = tensor_info("m", [], TensorProto.INT64)
    with pytest.raises(UnsupportedOnnxError, match="number of times that depends on data"):
        capture_onnx(loop(None, BODY, inputs=(X, trips)))


def test_a_scan_runs_once_per_row():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "row"], ["t"]), helper.make_node("Relu", ["t"], ["out"])],
        "body", [tensor_info("s", [4]), tensor_info("row", [4])],
        [tensor_info("t", [4]), tensor_info("out", [4])],
    )  # fmt: skip
    node = helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    data = onnx_file([node], [X], [Y], [weight("start", 4)]).SerializeToString()
    ops = [n.op for n in capture_onnx(data).nodes]
    assert ops == ["select", "add", "relu"] * 2 + ["stack"]


def test_nodes_out_of_order_are_sorted():
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Tanh", ["x"], ["a"])]
    graph = capture_onnx(onnx_file(nodes, [X], [Y]).SerializeToString())
    assert [n.op for n in graph.nodes] == ["tanh", "relu"]

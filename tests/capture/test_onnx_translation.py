"""Each operator becomes the ATen operator that does the same work, with the same shapes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from graph_totals import totals
from onnx import TensorProto, helper
from onnx_files import numbers, one_node, onnx_file, tensor_info, weight

from perfmodel.capture.onnx import capture_onnx, onnx_node_name
from perfmodel.errors import UnsupportedOnnxError
from perfmodel.types import Precision, Role


def main_node(graph):
    (node,) = [n for n in graph.nodes if n.name == "node"]
    return node


def result_shape(graph):
    return graph.outputs_of(graph.nodes[-1])[0].shape


def test_convolution_has_atens_arguments_and_flops():
    graph = capture_onnx(
        one_node(
            "Conv", [(2, 4, 8, 8)], [weight("w", 6, 2, 3, 3), weight("b", 6)],
            group=2, strides=[2, 2], pads=[1, 1, 1, 1],
        )
    )  # fmt: skip
    node = main_node(graph)
    assert node.op == "convolution"
    assert dict(node.attrs) == {
        "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "transposed": False,
        "output_padding": (0, 0), "groups": 2,
    }  # fmt: skip
    # (8 + 2 - 3) // 2 + 1 = 4; each of 2*6*4*4 results takes 2*3*3 multiply-adds, and a bias.
    assert result_shape(graph) == (2, 6, 4, 4)
    assert totals(graph).flops == pytest.approx(2 * (2 * 6 * 4 * 4) * 18, rel=0.03)


def test_asymmetric_pads_are_padded_first():
    graph = capture_onnx(
        one_node("Conv", [(1, 1, 5, 5)], [weight("w", 1, 1, 2, 2)], auto_pad="SAME_UPPER")
    )
    assert [n.op for n in graph.nodes] == ["constant_pad_nd", "convolution"]
    assert graph.nodes[0].attrs["pad"] == (0, 1, 0, 1)
    assert result_shape(graph) == (1, 1, 5, 5)
    assert {onnx_node_name(n.name) for n in graph.nodes} == {"node"}


def test_gemm_becomes_addmm_of_a_transposed_weight():
    graph = capture_onnx(one_node("Gemm", [(3, 8)], [weight("w", 5, 8), weight("b", 5)], transB=1))
    assert [n.op for n in graph.nodes] == ["t", "addmm"]
    assert [t.shape for t in graph.inputs_of(main_node(graph))] == [(5,), (3, 8), (8, 5)]
    assert graph.parameter_count == 5 * 8 + 5


@pytest.mark.parametrize(
    ("left", "right", "op", "shape"),
    [
        ((2, 3, 4), (4, 5), "mm", (2, 3, 5)),
        ((2, 3, 4), (2, 4, 5), "bmm", (2, 3, 5)),
        ((7, 1, 3, 4), (2, 4, 5), "bmm", (7, 2, 3, 5)),
        ((4,), (4, 5), "mm", (5,)),
        ((3, 4), (4,), "mm", (3,)),
    ],
)
def test_matmul_follows_numpys_rules(left, right, op, shape):
    graph = capture_onnx(one_node("MatMul", [left, right]))
    assert main_node(graph).op == op
    assert np.matmul(np.zeros(left), np.zeros(right)).shape == shape
    assert result_shape(graph) == shape


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhqd,bhkd->bhqk", [(2, 3, 5, 4), (2, 3, 6, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bij->bj", [(2, 3, 4)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
    ],
)
def test_einsum_has_numpys_shape(equation, shapes):
    graph = capture_onnx(one_node("Einsum", shapes, equation=equation))
    wanted = np.einsum(equation, *(np.zeros(s) for s in shapes)).shape
    assert result_shape(graph) == wanted


def test_attention_scores_by_einsum_cost_one_product():
    graph = capture_onnx(
        one_node("Einsum", [(2, 3, 5, 4), (2, 3, 6, 4)], equation="bhqd,bhkd->bhqk")
    )
    assert totals(graph).flops == 2 * (2 * 3) * 5 * 6 * 4


#: Operators whose shapes onnx infers too: op, input shapes, initializers, attributes.
AGREEING = [
    ("Relu", [(2, 3)], [], {}),
    ("Add", [(2, 1, 3), (4, 1)], [], {}),
    ("Clip", [(2, 3)], [], {}),
    ("Softmax", [(2, 3, 4)], [], {"axis": 1}),
    ("MaxPool", [(1, 2, 9, 9)], [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", [(1, 2, 9)], [], {"kernel_shape": [3], "pads": [1, 1]}),
    ("AveragePool", [(1, 2, 8, 8)], [], {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER"}),
    ("GlobalAveragePool", [(1, 2, 8, 8)], [], {}),
    ("ConvTranspose", [(1, 2, 5, 5)], [weight("w", 2, 3, 3, 3)],
     {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ("ConvTranspose", [(1, 2, 5, 5)], [weight("w", 2, 3, 2, 2)],
     {"strides": [2, 2], "pads": [0, 0, 1, 1]}),
    ("Reshape", [(2, 6)], [numbers("s", [0, -1, 3])], {}),
    ("Flatten", [(2, 3, 4)], [], {"axis": 2}),
    ("Squeeze", [(2, 1, 4, 1)], [numbers("a", [1])], {}),
    ("Unsqueeze", [(2, 4)], [numbers("a", [0, -1])], {}),
    ("Transpose", [(2, 3, 4)], [], {"perm": [2, 0, 1]}),
    ("Expand", [(3, 1)], [numbers("s", [2, 1, 6])], {}),
    ("Tile", [(2, 3)], [numbers("r", [2, 2])], {}),
    ("Concat", [(2, 3), (2, 5)], [], {"axis": -1}),
    ("Slice", [(9, 5)], [numbers("s", [1, -1]), numbers("e", [100, -4]), numbers("a", [0, 1]),
                         numbers("t", [3, -1])], {}),
    ("Slice", [(9, 5)], [numbers("s", [-1]), numbers("e", [-(2**63)]), numbers("a", [0]),
                         numbers("t", [-2])], {}),
    ("Pad", [(2, 3)], [numbers("p", [0, 1, 2, 0])], {}),
    ("Pad", [(1, 2, 5, 5)], [numbers("p", [0, 0, 1, 2, 0, 0, 2, 1])], {"mode": "reflect"}),
    ("Gather", [(7, 4)], [numbers("i", [1, 2, 3])], {"axis": 1}),
    ("ReduceMean", [(2, 3, 4)], [], {"axes": [1], "keepdims": 0}),
    ("ReduceL2", [(2, 3, 4)], [], {"axes": [-1]}),
    ("ArgMax", [(2, 3, 4)], [], {"axis": 1, "keepdims": 0, "result": TensorProto.INT64}),
    ("TopK", [(2, 9)], [numbers("k", [4])], {"outputs": 2}),
    ("DepthToSpace", [(1, 8, 2, 3)], [], {"blocksize": 2}),
    ("SpaceToDepth", [(1, 2, 4, 6)], [], {"blocksize": 2}),
    ("LSTM", [(5, 2, 3)], [weight("w", 2, 16, 3), weight("r", 2, 16, 4), weight("b", 2, 32)],
     {"hidden_size": 4, "direction": "bidirectional", "outputs": 3}),
    ("GRU", [(5, 2, 3)], [weight("w", 1, 12, 3), weight("r", 1, 12, 4)], {"hidden_size": 4}),
    ("Trilu", [(4, 4)], [], {}),
    ("CumSum", [(2, 3)], [helper.make_tensor("a", TensorProto.INT64, [], [1])], {}),
    ("LayerNormalization", [(2, 3, 4)], [weight("w", 4), weight("b", 4)], {}),
    ("InstanceNormalization", [(2, 3, 4)], [weight("w", 3), weight("b", 3)], {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shapes", "initializers", "attrs"), AGREEING)
def test_shapes_agree_with_onnx(op, shapes, initializers, attrs):
    data = one_node(op, shapes, initializers, **attrs)
    inferred = onnx.shape_inference.infer_shapes(onnx.load_from_string(data), strict_mode=True)
    (declared,) = inferred.graph.output
    wanted = tuple(d.dim_value for d in declared.type.tensor_type.shape.dim)
    graph = capture_onnx(data)
    produced = [t.shape for n in graph.nodes for t in graph.outputs_of(n)]
    assert wanted in produced
    assert not totals(graph).unpriced


@pytest.mark.parametrize(
    ("policy", "sides"),
    [("stretch", (20, 30)), ("not_larger", (20, 20)), ("not_smaller", (30, 30))],
)
def test_resize_keeps_the_aspect_that_it_is_told(policy, sides):
    empty = [helper.make_tensor(n, TensorProto.FLOAT, [0], []) for n in ("roi", "scales")]
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [2], [20, 30])
    data = one_node(
        "Resize", [(2, 12, 8, 8)], [*empty, sizes], axes=[2, 3], keep_aspect_ratio_policy=policy
    )
    assert result_shape(capture_onnx(data)) == (2, 12, *sides)


def test_resize_by_scales_and_by_sizes():
    scales = helper.make_tensor("s", TensorProto.FLOAT, [4], [1, 1, 2, 2.5])
    empty = helper.make_tensor("roi", TensorProto.FLOAT, [0], [])
    graph = capture_onnx(one_node("Resize", [(1, 3, 4, 4)], [empty, scales], mode="linear"))
    assert main_node(graph).op == "upsample_bilinear2d"
    assert result_shape(graph) == (1, 3, 8, 10)
    assert graph.storage_bytes(Role.PARAMETER) == 0  # scales are no parameters


def test_split_gives_views_of_one_storage():
    graph = capture_onnx(one_node("Split", [(2, 6)], [numbers("s", [1, 2, 3])], outputs=3, axis=1))
    node = main_node(graph)
    assert [t.shape for t in graph.outputs_of(node)] == [(2, 1), (2, 2), (2, 3)]
    assert len({t.storage for t in (*graph.inputs_of(node), *graph.outputs_of(node))}) == 1


def test_embedding_is_told_from_gather_by_its_parameter():
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [2, 5])
    node = helper.make_node("Gather", ["table", "ids"], ["y"], name="node")
    data = onnx_file([node], [ids], [tensor_info("y", None)], [weight("table", 11, 3)])
    graph = capture_onnx(data.SerializeToString())
    assert main_node(graph).op == "embedding"
    assert result_shape(graph) == (2, 5, 3)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_heads_are_turned_by_their_positions_in_one_kernel(domain):
    tables = [weight(name, 16, 4) for name in ("cosines", "sines")]
    at = helper.make_tensor("at", TensorProto.INT64, [2, 6], list(range(12)))
    given = [at, *tables] if domain else [*tables, at]
    data = one_node("RotaryEmbedding", [(2, 3, 6, 8)], given, domain=domain, opset=23)
    graph = capture_onnx(data)
    assert main_node(graph).op == "mul"
    assert result_shape(graph) == (2, 3, 6, 8)
    assert not totals(graph).unpriced


def test_quantised_products_keep_their_operator_and_show_their_width():
    kind = TensorProto.INT8
    graph = capture_onnx(one_node("MatMulInteger", [(4, 8), (8, 2)], kind=kind))
    node = main_node(graph)
    assert node.op == "mm"
    assert [t.dtype for t in graph.inputs_of(node)] == ["int8", "int8"]
    assert graph.outputs_of(node)[0].dtype == "int32"


def test_quantised_convolution():
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearConv", names, ["y"], name="node")
    scalars = [helper.make_tensor(n, TensorProto.FLOAT, [], [0.1]) for n in ("xs", "ws", "ys")]
    zeros = [helper.make_tensor(n, TensorProto.INT8, [], [0]) for n in ("xz", "wz", "yz")]
    kernel = helper.make_tensor("w", TensorProto.INT8, [4, 3, 1, 1], [1] * 12)
    x = tensor_info("x", [1, 3, 5, 5], TensorProto.INT8)
    model = onnx_file([node], [x], [tensor_info("y", None)], [*scalars, *zeros, kernel])
    graph = capture_onnx(model.SerializeToString())
    assert main_node(graph).op == "convolution"
    assert {t.dtype for t in graph.tensors} == {"int8"}
    assert totals(graph).flops == 2 * (4 * 25) * 3


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "LayerNormalization", "FastGelu"])
def test_fused_operators_of_onnx_runtime_are_priced(op):
    shapes = [(2, 3, 4), (2, 3, 4)] if op.startswith("Skip") else [(2, 3, 4)]
    affine = [weight("w", 4)] if op == "FastGelu" else [weight("w", 4), weight("b", 4)]
    graph = capture_onnx(one_node(op, shapes, affine, domain="com.microsoft"))
    assert not totals(graph).unpriced
    assert result_shape(graph) == (2, 3, 4)


def test_packed_attention_of_onnx_runtime():
    graph = capture_onnx(
        one_node("Attention", [(2, 5, 8)], [weight("w", 8, 24), weight("b", 24)],
                 domain="com.microsoft", num_heads=2)
    )  # fmt: skip
    # the projection to query, key, value, and two products of 2 heads of width 4
    products = 2 * (2 * 5) * 8 * 24 + 2 * (2 * (2 * 2) * 5 * 5 * 4)
    assert totals(graph).flops == pytest.approx(products, rel=0.25)
    assert result_shape(graph) == (2, 5, 8)


def test_an_untranslated_operator_is_kept_unpriced_with_onnxs_shape():
    graph = capture_onnx(one_node("Hardmax", [(2, 3)], axis=1))
    assert main_node(graph).op == "onnx::Hardmax"
    assert result_shape(graph) == (2, 3)
    assert totals(graph).unpriced == {"onnx::Hardmax": 1}


def test_a_foreign_operator_takes_the_shape_that_the_file_declares():
    node = helper.make_node("Fancy", ["x"], ["y"], name="node", domain="acme")
    x, y = tensor_info("x", ["n", 3]), tensor_info("y", ["n", 7])
    data = onnx_file([node], [x], [y], domains=["acme"]).SerializeToString()
    graph = capture_onnx(data, batch_size=4)
    assert (main_node(graph).op, result_shape(graph)) == ("onnx::acme::Fancy", (4, 7))


def test_a_foreign_operator_of_unknown_shape_is_refused_by_name():
    data = one_node("Fancy", [(2, 3)], domain="acme")
    with pytest.raises(UnsupportedOnnxError, match=r"'node' \(acme::Fancy\) is not translated"):
        capture_onnx(data)


def test_shape_arithmetic_is_computed_away():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["b"]),
        helper.make_node("Constant", [], ["minus"], value_ints=[-1]),
        helper.make_node("Concat", ["b", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"], name="node"),
    ]
    scalars = [helper.make_tensor("zero", TensorProto.INT64, [], [0]), numbers("axis", [0])]
    model = onnx_file(nodes, [tensor_info("x", ["n", 3, 4])], [tensor_info("y", None)], scalars)
    graph = capture_onnx(model.SerializeToString(), batch_size=5)
    assert [n.op for n in graph.nodes] == ["view"]
    assert result_shape(graph) == (5, 12)


def test_data_dependent_shapes_are_refused():
    model = onnx_file(
        [helper.make_node("Reshape", ["x", "s"], ["y"], name="node")],
        [tensor_info("x", [2, 3]), tensor_info("s", [1], TensorProto.INT64)],
        [tensor_info("y", None)],
    )
    with pytest.raises(UnsupportedOnnxError, match="takes its shape from data that is known only"):
        capture_onnx(model.SerializeToString())


def test_unnamed_nodes_are_called_as_onnx_runtime_calls_them():
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    model = onnx_file(nodes, [tensor_info("x", [2])], [tensor_info("y", [2])])
    graph = capture_onnx(model.SerializeToString())
    assert [n.name for n in graph.nodes] == ["Relu_0", "Tanh_1"]


def test_names_are_unique_even_where_the_files_are_not():
    nodes = [helper.make_node("Relu", [a], [b], name="same") for a, b in ("xa", "ab", "by")]
    model = onnx_file(nodes, [tensor_info("x", [2])], [tensor_info("y", [2])])
    names = [n.name for n in capture_onnx(model.SerializeToString()).nodes]
    assert len(set(names)) == 3
    assert {onnx_node_name(n) for n in names} == {"same"}


@pytest.mark.parametrize(("precision", "dtype"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_whole_graph_precisions_retype_every_float(precision, dtype):
    data = one_node("Gemm", [(3, 8)], [weight("w", 8, 5), weight("b", 5)])
    graph = capture_onnx(data, precision=Precision(precision))
    assert {t.dtype for t in graph.tensors} == {dtype}


def test_autocast_casts_products_and_keeps_parameters():
    data = one_node("Gemm", [(3, 8)], [weight("w", 8, 5), weight("b", 5)])
    graph = capture_onnx(data, precision=Precision.AMP_FP16)
    assert [n.op for n in graph.nodes] == ["_to_copy", "_to_copy", "_to_copy", "addmm"]
    assert {t.dtype for t in graph.tensors if t.role is Role.PARAMETER} == {"float32"}
    assert graph.outputs_of(main_node(graph))[0].dtype == "float16"


def test_int8_cannot_be_asked_of_a_float_file():
    with pytest.raises(Exception, match="Quantise it"):
        capture_onnx(one_node("Relu", [(2,)]), precision=Precision.INT8)

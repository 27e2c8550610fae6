"""Each formula against arithmetic done by hand."""

from __future__ import annotations

import math

import pytest

from perfmodel.graph.cost import cost_of
from perfmodel.graph.cost.base import REGISTER, Cost, OpClass, register
from perfmodel.graph.ir import AttrValue, Graph, Node, Tensor
from perfmodel.types import Engine, Phase, Role

Shapes = list[tuple[int, ...]]


def price(
    op: str, inputs: Shapes, outputs: Shapes, dtypes: dict[int, str] | None = None,
    **attrs: AttrValue,
) -> Cost:  # fmt: skip
    """Price a call on float32 tensors; ``dtypes`` overrides by position, inputs first."""
    tensors = tuple(
        Tensor(shape=s, dtype=(dtypes or {}).get(i, "float32"), role=Role.ACTIVATION, storage=i)
        for i, s in enumerate([*inputs, *outputs])
    )
    node = Node(
        op=op,
        phase=Phase.FORWARD,
        inputs=tuple(range(len(inputs))),
        outputs=tuple(range(len(inputs), len(tensors))),
        attrs=attrs,
    )
    cost = cost_of(node, Graph(nodes=(node,), tensors=tensors))
    assert cost is not None
    return cost


def test_matrix_product() -> None:
    # (2, 3) @ (3, 5): 10 results of 3 multiply-adds; 6 + 15 floats in, 10 out.
    assert price("mm", [(2, 3), (3, 5)], [(2, 5)]) == Cost(60, 84, 40, Engine.MATRIX)
    # The bias adds 5 floats of traffic.
    assert price("addmm", [(5,), (2, 3), (3, 5)], [(2, 5)]) == Cost(60, 104, 40, Engine.MATRIX)
    assert price("bmm", [(7, 2, 3), (7, 3, 5)], [(7, 2, 5)]).flops == 7 * 60
    assert price("baddbmm", [(7, 2, 5), (7, 2, 3), (7, 3, 5)], [(7, 2, 5)]).flops == 7 * 60
    assert price("addbmm", [(2, 5), (7, 2, 3), (7, 3, 5)], [(2, 5)]).flops == 7 * 60
    assert price("mv", [(4, 3), (3,)], [(4,)]).flops == 24
    assert price("dot", [(9,), (9,)], [()]).flops == 18
    assert price("linear", [(2, 3), (5, 3), (5,)], [(2, 5)]).flops == 60


def test_product_in_groups() -> None:
    # 10 rows of 3, each through one of 4 matrices (3, 5); then both gradients, alike.
    assert price("_grouped_mm", [(10, 3), (4, 3, 5), (4,)], [(10, 5)]).flops == 2 * 10 * 3 * 5
    assert price("_grouped_mm", [(10, 5), (4, 5, 3), (4,)], [(10, 3)]).flops == 2 * 10 * 3 * 5
    assert price("_grouped_mm", [(3, 10), (10, 5), (4,)], [(4, 3, 5)]).flops == 2 * 10 * 3 * 5
    # Groups of columns, and batches of equal ones.
    assert price("_grouped_mm", [(4, 3, 5), (5, 10), (4,)], [(3, 10)]).flops == 2 * 10 * 3 * 5
    assert price("_grouped_mm", [(4, 2, 3), (4, 3, 5)], [(4, 2, 5)]).flops == 4 * 2 * 2 * 3 * 5


def test_convolution() -> None:
    # 2 images, 4 -> 6 channels, 3x3 on 5x5 outputs: 2*6*25 results of 4*9 multiply-adds.
    x, w, out = (2, 4, 5, 5), (6, 4, 3, 3), (2, 6, 5, 5)
    forward = price("convolution", [x, w, (6,)], [out], transposed=False, groups=1)
    assert forward == Cost(2 * 300 * 36, 4 * (200 + 216 + 6), 4 * 300, Engine.MATRIX)


def test_grouped_and_depthwise_convolution() -> None:
    # Two groups halve the input channels of each filter.
    half = price("convolution", [(2, 4, 5, 5), (6, 2, 3, 3)], [(2, 6, 5, 5)], groups=2)
    assert half.flops == 2 * 300 * 18
    assert half.engine is Engine.MATRIX
    # One channel per group: 9 multiply-adds per result, no inner axis for a matrix unit.
    depthwise = price("convolution", [(2, 4, 5, 5), (4, 1, 3, 3)], [(2, 4, 5, 5)], groups=4)
    assert depthwise.flops == 2 * 200 * 9
    assert depthwise.engine is Engine.VECTOR


def test_transposed_convolution() -> None:
    # Each of the 2*8*81 inputs is spread over 3 channels of 3x3 (6 channels in 2 groups).
    cost = price("convolution", [(2, 8, 9, 9), (8, 3, 3, 3)], [(2, 6, 19, 19)],
                 transposed=True, groups=2)  # fmt: skip
    assert cost.flops == 2 * (2 * 8 * 81) * (3 * 9)


def test_convolution_backward_follows_its_mask() -> None:
    grad, x, w = (2, 6, 5, 5), (2, 4, 5, 5), (6, 2, 3, 3)
    one = 2 * 300 * 18
    both = price("convolution_backward", [grad, x, w], [x, w, (6,)],
                 groups=2, output_mask=(True, True, True))  # fmt: skip
    # Two products, and one addition per element of the gradient for the bias.
    assert both.flops == 2 * one + 300
    first_layer = price("convolution_backward", [grad, x, w], [w],
                        groups=2, output_mask=(False, True, False))  # fmt: skip
    assert first_layer.flops == one
    # Without the input's gradient the weight is not read.
    assert first_layer.bytes_read == 4 * (300 + 200)


def test_attention() -> None:
    # 2 batches x 3 heads, 5 queries, 7 keys, width 8, value width 4: 210 pairs.
    q, k, v, out = (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4), (2, 3, 5, 4)
    forward = price("scaled_dot_product_attention", [q, k, v], [out, (2, 3, 5)])
    assert forward.flops == 2 * 210 * (8 + 4)
    assert forward.engine is Engine.MATRIX
    backward = price("scaled_dot_product_attention_backward", [out, q, k, v, out], [q, k, v])
    # QK^T again, dP = dO V^T, dV = P^T dO; dQ = dS K and dK = dS^T Q.
    assert backward.flops == 2 * 210 * (8 + 4 + 4 + 8 + 8)


@pytest.mark.parametrize(("rows", "columns", "pairs"), [(4, 4, 10), (4, 6, 10), (6, 4, 18)])
def test_causal_attention_skips_what_it_may_not_see(rows: int, columns: int, pairs: int) -> None:
    # Row i sees min(i + 1, columns) keys: 1+2+3+4 = 10; with 6 rows 4 more twice: 18.
    q, k = (1, 1, rows, 8), (1, 1, columns, 8)
    cost = price("scaled_dot_product_attention", [q, k, k], [q], is_causal=True)
    assert cost.flops == 2 * pairs * 16


def test_normalization() -> None:
    x = (2, 3, 4, 4)
    assert price("native_batch_norm", [x, (3,), (3,)], [x], training=True).flops == 7 * 96
    assert price("native_batch_norm", [x, (3,), (3,)], [x], training=False).flops == 2 * 96
    assert price("native_layer_norm", [x, (4,), (4,)], [x]).flops == 7 * 96
    assert price("_softmax", [(2, 8)], [(2, 8)], dim=1) == Cost(12 * 16, 64, 64)


def test_elementwise() -> None:
    # 4x4 plus a broadcast row of 4: one addition each, 16 + 4 floats in, 16 out.
    assert price("add", [(4, 4), (4,)], [(4, 4)]) == Cost(16, 80, 64)
    assert price("relu_", [(4, 4)], [(4, 4)]) == Cost(16, 64, 64)
    half = price("gelu", [(4, 4)], [(4, 4)], {0: "float16", 1: "float16"})
    assert half == Cost(16 * 16, 32, 32)
    # A comparison writes one byte per element.
    assert price("eq", [(4,), (4,)], [(4,)], {2: "bool"}) == Cost(4, 32, 4)


def test_reduction() -> None:
    assert price("sum", [(8, 4)], [(8,)], dim=(1,)) == Cost(32, 128, 32)
    assert price("max", [(8, 4)], [(8,), (8,)], {2: "int64"}, dim=1).bytes_written == 8 * 4 + 8 * 8


def test_pooling() -> None:
    # A 3x3 window for each of 2*4*4 outputs.
    x, out = (1, 2, 8, 8), (1, 2, 4, 4)
    pooled = price("max_pool2d_with_indices", [x], [out, out], {2: "int64"}, kernel_size=(3, 3))
    assert pooled == Cost(9 * 32, 4 * 128, 4 * 32 + 8 * 32)
    assert price("avg_pool2d", [x], [out], kernel_size=(2,)).flops == 4 * 32
    assert price("_adaptive_avg_pool2d", [x], [(1, 2, 1, 1)]).flops == 128


def test_copies_move_bytes_only() -> None:
    assert price("clone", [(8,)], [(8,)]) == Cost(0, 32, 32)
    assert price("cat", [(8,), (4,)], [(12,)]) == Cost(0, 48, 48)
    # An overwritten tensor is not read; a cast reads 4 and writes 2 bytes an element.
    assert price("copy_", [(8,), (8,)], [(8,)]) == Cost(0, 32, 32)
    assert price("_to_copy", [(8,)], [(8,)], {1: "float16"}) == Cost(0, 32, 16)
    assert price("fill_", [(8,)], [(8,)]) == Cost(0, 0, 32)


def test_embedding_reads_gathered_rows_only() -> None:
    # 6 rows of 16 floats out of a table of 1000: 384 bytes, and 6 indices of 8 bytes.
    cost = price("embedding", [(1000, 16), (6,)], [(6, 16)], {1: "int64"})
    assert cost == Cost(0, 384 + 48, 384)
    back = price("embedding_dense_backward", [(6, 16), (6,)], [(1000, 16)], {1: "int64"})
    assert back.bytes_written == 4 * 16_000


def test_bags_of_rows() -> None:
    # 6 rows of 16 floats in 2 bags: 6 * 64 bytes of the table, 48 of indices, 16 of offsets.
    whole = {1: "int64", 2: "int64"}
    cost = price("_embedding_bag", [(1000, 16), (6,), (2,)], [(2, 16)], whole)
    assert cost == Cost(6 * 16, 6 * 64 + 48 + 16, 2 * 64)
    back = price("_embedding_bag_backward", [(2, 16), (6,), (2,)], [(1000, 16)], whole)
    assert (back.flops, back.bytes_written) == (6 * 16, 64_000)


def test_indexing() -> None:
    put = price("index_put_", [(1000, 4), (3,), (3, 4)], [(1000, 4)], {1: "int64"})
    assert put == Cost(0, 24 + 48, 48)
    assert price("sort", [(2, 8)], [(2, 8), (2, 8)], {2: "int64"}).flops == 16 * math.log2(8)


def test_views_are_free() -> None:
    for op in ("view", "t", "transpose", "expand", "slice", "unbind", "alias"):
        assert price(op, [(4, 4)], [(4, 4)]) == Cost(0, 0, 0)


def test_recurrent_layer() -> None:
    # 5 steps of 2 samples; weights (4*8, 3) and (4*8, 8) and two biases of 32.
    x, state = (5, 2, 3), (1, 2, 8)
    weights: Shapes = [(32, 3), (32, 8), (32,), (32,)]
    lstm = price("lstm", [x, *weights, state, state], [(5, 2, 8)], hidden_size=8)
    assert lstm.flops == 2 * 10 * (32 * 3 + 32 * 8)
    back = price("lstm_backward", [x, *weights, state, state], [x], hidden_size=8)
    assert back.flops == 2 * lstm.flops
    # ONNX stacks directions: (2, 3*8, 3) and (2, 3*8, 8) for a bidirectional GRU.
    gru = price("gru", [x, (2, 24, 3), (2, 24, 8), (2, 48)], [(5, 2, 16)], hidden_size=8)
    assert gru.flops == 2 * 10 * 2 * (24 * 3 + 24 * 8)


def test_resampling_and_transforms() -> None:
    assert price("upsample_bilinear2d", [(1, 1, 2, 2)], [(1, 1, 4, 4)]).flops == 8 * 16
    assert price("upsample_nearest2d", [(1, 1, 2, 2)], [(1, 1, 4, 4)]) == Cost(0, 16, 64)
    # 5 N log2 N for 8 complex points.
    fft = price("_fft_c2c", [(8,)], [(8,)], {0: "complex64", 1: "complex64"}, dim=(0,))
    assert fft.flops == 5 * 8 * 3


def test_factorizations() -> None:
    # A 6 x 6 matrix: 2/3 of 216 operations; two triangular solutions of 36 for 6 columns.
    assert price("_linalg_slogdet", [(6, 6)], [(), (), (6, 6), (6,)]).flops == 144
    solved = price("linalg_lu_solve", [(6, 6), (6,), (6, 6)], [(6, 6)], {1: "int32"})
    assert solved.flops == 2 * 6 * 6 * 6


def test_alignment_loss() -> None:
    # 3 clips of 50 steps and 5 letters: a lattice of 3 x 50 x (2 * 5 + 1).
    operands: Shapes = [(50, 3, 29), (3, 5)]
    loss = price("_ctc_loss", operands, [(3,), (3, 50, 11)], {1: "int64"})
    assert loss.flops == 12 * 3 * 50 * 11
    operands = [(3,), (50, 3, 29), (3, 5), (3,), (3, 50, 11)]
    back = price("_ctc_loss_backward", operands, [(50, 3, 29)], {2: "int64"})
    assert back.flops == 2 * loss.flops + 50 * 3 * 29


def test_for_each_and_fused_updates() -> None:
    # w += alpha * g over tensors of 6 and 4: one operation each, 20 floats in, 10 out.
    added = price("_foreach_add_", [(6,), (4,), (6,), (4,)], [(6,), (4,)], alpha=-0.1)
    assert added == Cost(10, 80, 40)
    assert price("_foreach_norm", [(6,), (4,)], [(), ()]).flops == 2 * 10


def test_fused_adam_reads_and_writes_each_list_once() -> None:
    roles = [Role.PARAMETER, Role.GRADIENT, Role.OPTIMIZER_STATE, Role.OPTIMIZER_STATE]
    before = [Tensor(shape=(6,), dtype="float32", role=r, storage=i) for i, r in enumerate(roles)]
    after = [before[0], before[2], before[3]]
    node = Node(op="_fused_adam_", phase=Phase.OPTIMIZER, inputs=(0, 1, 2, 3), outputs=(4, 5, 6))
    cost = cost_of(node, Graph(nodes=(node,), tensors=(*before, *after)))
    # 18 operations for each of 6 parameters; 4 lists in, 3 out, 24 bytes each.
    assert cost == Cost(18 * 6, 96, 72)


def test_operator_without_formula_or_operands_has_no_cost() -> None:
    tensors = (Tensor(shape=(2, 2), dtype="float32", role=Role.INPUT, storage=0),)
    for op in ("mylib::unknown", "mm"):
        node = Node(op=op, phase=Phase.FORWARD, inputs=(0,), outputs=())
        assert cost_of(node, Graph(nodes=(node,), tensors=tensors)) is None


def test_register_refuses_a_second_formula() -> None:
    with pytest.raises(ValueError, match="two cost formulas"):
        register("mm", op_class=OpClass.MATMUL)(REGISTER["mm"].formula)

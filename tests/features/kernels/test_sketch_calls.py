"""The nodes of a step as kernels: what stands in a sketch is asked as it was called."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.features.kernels.kernel_work import kernel_work
from perfmodel.features.kernels.sketch_calls import SketchCalls, sketch_calls
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.importers.published import Origin, PublishedKernel
from perfmodel.training.samples.measured_kernels import operator_graph
from perfmodel.types import Phase, Precision, Role

A100 = Catalog.default().get("A100-SXM4-80GB")
BF16, FP32 = Precision.BF16, Precision.FP32
ORIGIN = Origin(source="made up", licence="Apache-2.0")


def _asked(graph: Graph, precision: Precision) -> SketchCalls:
    return sketch_calls(step_sketch(graph), A100, precision)


def _node(op: str, shapes: list[tuple[int, ...]], reads: int, **attrs: object) -> Graph:
    """Return a graph of one node that reads the first tensors and writes the others."""
    tensors = tuple(
        Tensor(shape=shape, dtype="float32", role=Role.INPUT, storage=i)
        for i, shape in enumerate(shapes)
    )
    node = Node(
        op=op,
        phase=Phase.FORWARD,
        inputs=tuple(range(reads)),
        outputs=tuple(range(reads, len(shapes))),
        attrs=attrs,  # type: ignore[arg-type]
    )
    return Graph(nodes=(node,), tensors=tensors)


@pytest.mark.parametrize(
    ("op", "dtype", "shape"),
    [
        ("gemm", "bf16", {"m": 8192, "n": 28672, "k": 8191}),
        ("gemm", "fp32", {"m": 100352, "n": 64, "k": 147}),
        ("bmm", "fp32", {"batch": 12, "m": 197, "n": 64, "k": 197}),
        ("conv2d", "fp32", {"batch": 32, "c_in": 64, "c_out": 128, "kernel": 3, "stride": 2,
                            "pad": 0, "height_out": 28, "width_out": 14}),
        ("attention_prefill", "bf16", {"batch": 2, "tokens": 1024, "context": 0, "heads": 32,
                                       "kv_heads": 32, "head_dim": 128, "kv_element_bytes": 2}),
        ("softmax", "fp32", {"rows": 512, "width": 1000}),
        ("layer_norm", "bf16", {"rows": 4096, "width": 768}),
    ],
)  # fmt: skip
def test_a_kernel_is_asked_by_its_own_extents(
    op: str, dtype: str, shape: Mapping[str, float]
) -> None:
    kernel = PublishedKernel(
        op=op, accelerator=A100.name, dtype=dtype, shape=shape, time_s=1.0, origin=ORIGIN
    )
    found = _asked(operator_graph(kernel), Precision(dtype))
    assert found.calls.op.tolist() == [op]
    narrow = op in ("softmax", "layer_norm") and dtype == "bf16"
    assert found.calls.dtype.tolist() == ["fp16" if narrow else dtype]
    assert {name: float(found.calls.shape[name][0]) for name in shape} == pytest.approx(shape)
    assert found.repeats.tolist() == [1.0]


def test_additions_are_streams_of_what_they_read_and_write() -> None:
    graph = _node("add", [(64, 1000)] * 3, 2)
    found = _asked(graph, FP32)
    assert found.calls.op.tolist() == ["elementwise"]
    # Two operands and a result of 64,000 elements of four bytes.
    assert kernel_work(found.calls).traffic_bytes.tolist() == pytest.approx([3 * 64_000 * 4])


@pytest.mark.parametrize(
    ("kernel", "stride", "has_kernel"), [(3, 1, True), (7, 2, True), (16, 16, False), (4, 4, False)]
)
def test_convolutions_stand_in_tables_up_to_seven_by_seven(
    kernel: int, stride: int, has_kernel: bool
) -> None:
    shape = {"batch": 4, "c_in": 3, "c_out": 64, "kernel": kernel, "stride": stride, "pad": 0,
             "height_out": 14, "width_out": 14}  # fmt: skip
    record = PublishedKernel(
        op="conv2d", accelerator=A100.name, dtype="bf16", shape=shape, time_s=1.0, origin=ORIGIN
    )
    found = _asked(operator_graph(record), BF16)
    assert (found.calls.op.tolist(), found.has_kernel.tolist()) == (["conv2d"], [has_kernel])


def test_a_fused_norm_is_one_along_its_rows() -> None:
    found = _asked(_node("_fused_rms_norm", [(64, 1000), (1000,), (64, 1000)], 2), FP32)
    assert found.calls.op.tolist() == ["rms_norm"]
    shape = found.calls.shape
    assert (shape["rows"][0], shape["width"][0]) == (pytest.approx(64), pytest.approx(1000))
    assert (found.waits.tolist(), found.has_kernel.tolist()) == ([0.0], [True])


@pytest.mark.parametrize(
    ("op", "waits", "has_kernel"),
    [("relu", 0.0, True), ("_to_copy", 0.0, True), ("clone", 0.0, False), ("sum", 1.0, True),
     ("native_batch_norm", 2.0, False)],
)  # fmt: skip
def test_streams_wait_for_sums_and_stand_in_tables_where_they_keep_their_order(
    op: str, waits: float, has_kernel: bool
) -> None:
    found = _asked(_node(op, [(64, 1000)] * 2, 1), FP32)
    assert found.calls.op.tolist() == ["elementwise"]
    assert (found.waits.tolist(), found.has_kernel.tolist()) == ([waits], [has_kernel])


def test_a_gradient_counts_as_a_convolution_of_its_own() -> None:
    shapes = [(8, 64, 28, 28), (8, 32, 28, 28), (64, 32, 3, 3), (8, 32, 28, 28), (64, 32, 3, 3)]
    geometry = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    graph = _node(
        "convolution_backward", shapes, 3, output_mask=(True, True, False), transposed=False,
        **geometry,
    )  # fmt: skip
    found = _asked(graph, FP32)
    assert found.calls.op.tolist() == ["conv2d"]
    assert found.repeats.tolist() == [2.0]
    assert found.calls.shape["batch"].tolist() == [8.0]
    # 8 x 28 x 28 outputs of 64 channels, 32 x 9 multiply-adds each, for each of two gradients.
    flops = 2 * 8 * 28 * 28 * 64 * 32 * 9
    assert kernel_work(found.calls).flops.tolist() == pytest.approx([flops])


def test_attention_to_fewer_keys_than_queries_is_products() -> None:
    graph = _node(
        "scaled_dot_product_attention", [(2, 8, 4096, 40), *[(2, 8, 77, 40)] * 2, (2, 8, 4096, 40)],
        3,
    )  # fmt: skip
    found = _asked(graph, BF16)
    assert found.calls.op.tolist() == ["bmm"]
    # Scores and their values: 2 x 2 x 16 x 4096 x 77 x 40 FLOP.
    assert kernel_work(found.calls).flops.tolist() == pytest.approx([4 * 16 * 4096 * 77 * 40])


def test_a_batch_over_one_matrix_is_one_product() -> None:
    found = _asked(_node("linear", [(4, 128, 512), (256, 512), (4, 128, 256)], 2), FP32)
    assert found.calls.op.tolist() == ["gemm"]
    assert [found.calls.shape[n][0] for n in "mnk"] == [512, 256, 512]


def test_views_run_nothing() -> None:
    found = _asked(_node("view", [(4, 128), (512,)], 1), FP32)
    assert len(found.calls) == 0
    assert np.array_equal(found.row, [])

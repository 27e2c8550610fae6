"""Pooling over windows and over whole feature maps."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call, translates
from perfmodel.capture.onnx.rules.convolution import Window, symmetric
from perfmodel.capture.onnx.rules.matmul import viewed


@translates("MaxPool")
def _max_pool(call: Call) -> Sequence[Value]:
    value, window, shape = _pool(call)
    value, padding = symmetric(call, value, window)
    spatial = max(2, value.rank - 2)
    flat = value.rank == 3  # ATen pools one axis as two, the first of extent 1
    if flat:
        value = viewed(call, value, (*value.shape[:2], 1, value.shape[2]))
    written = (*shape[:2], 1, shape[2]) if flat else shape
    lead = (1,) if flat else ()
    results = call.emit_many(
        f"max_pool{spatial}d_with_indices",
        [value],
        [(written, call.result_dtype("max_pool", [value])), (written, "int64")],
        kernel_size=(*lead, *window.kernel),
        stride=(*lead, *window.stride),
        padding=(*((0,) if flat else ()), *padding),
        dilation=(*lead, *window.dilation),
        ceil_mode=bool(call.int_attr("ceil_mode", 0)),
    )
    return [viewed(call, r, shape) for r in results]


@translates("AveragePool")
def _average_pool(call: Call) -> Value:
    value, window, shape = _pool(call)
    value, padding = symmetric(call, value, window)
    spatial = value.rank - 2
    name = "avg_pool1d" if spatial == 1 else f"avg_pool{spatial}d"
    return call.emit(
        name,
        [value],
        shape,
        kernel_size=window.kernel,
        stride=window.stride,
        padding=padding,
        ceil_mode=bool(call.int_attr("ceil_mode", 0)),
        count_include_pad=bool(call.int_attr("count_include_pad", 0)),
    )


def _pool(call: Call) -> tuple[Value, Window, tuple[int, ...]]:
    value = call.input(0)
    kernel = call.ints_attr("kernel_shape")
    if kernel is None or not 3 <= value.rank <= 5:
        raise call.error(f"pools {list(value.shape)} with kernel {kernel}")
    window = Window(call, value.shape[2:], kernel)
    outputs = window.outputs(ceil=bool(call.int_attr("ceil_mode", 0)))
    if min(outputs) < 1:
        raise call.error(f"has a window larger than its data {list(value.shape)}")
    return value, window, (*value.shape[:2], *outputs)


@translates("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(call: Call) -> Value:
    value = call.input(0)
    if value.rank < 3:
        raise call.error(f"pools {list(value.shape)}, which has no spatial axes")
    shape = (*value.shape[:2], *([1] * (value.rank - 2)))
    dim = tuple(range(-1, 1 - value.rank, -1))
    op = "mean" if call.node.op == "GlobalAveragePool" else "amax"
    return call.emit(op, [value], shape, dim=dim, keepdim=True)

"""Pooling over windows and over whole feature maps; resizing and sampling of them."""

from __future__ import annotations

import math
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


_MODES = {"linear": "linear", "cubic": "bicubic", "bilinear": "linear"}
_LINEAR = {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}


@translates("Resize", "Upsample")
def _resize(call: Call) -> Value:
    value = call.input(0)
    shape = _target(call, value)
    spatial = value.rank - 2
    mode = _MODES.get(call.text_attr("mode", "nearest"), "nearest")
    if not 1 <= spatial <= 3 or shape[:2] != value.shape[:2]:
        return call.emit("onnx::Resize", [value], shape, mode=mode)
    kind = f"nearest{spatial}d"
    if mode == "linear":
        kind = _LINEAR[spatial]
    elif mode == "bicubic" and spatial == 2:
        kind = "bicubic2d"
    attrs = {} if kind.startswith("nearest") else {"align_corners": _aligned(call)}
    return call.emit(f"upsample_{kind}", [value], shape, output_size=shape[2:], carried=attrs)


def _aligned(call: Call) -> bool:
    return call.text_attr("coordinate_transformation_mode", "half_pixel") == "align_corners"


#: Which of the scales to the given sizes counts for all of them; by default each axis has its own.
_KEPT_ASPECTS = {"not_larger": min, "not_smaller": max}


def _target(call: Call, value: Value) -> tuple[int, ...]:
    axes = [call.axis(a, value.rank) for a in call.ints_attr("axes", range(value.rank)) or ()]
    upsample = call.node.op == "Upsample" or call.opset < 11
    sizes = None if upsample else call.optional(3)
    if sizes is not None and sizes.size:
        extents = list(call.known_ints(3, "sizes"))
        keeps = _KEPT_ASPECTS.get(call.text_attr("keep_aspect_ratio_policy", "stretch"))
        if keeps is not None and all(value.shape[axis] for axis in axes):
            scale = keeps(n / value.shape[axis] for n, axis in zip(extents, axes, strict=True))
            extents = [math.floor(scale * value.shape[axis] + 0.5) for axis in axes]
    else:
        extents = [
            math.floor(value.shape[a] * s)
            for a, s in zip(axes, _scales(call, 1 if upsample else 2), strict=True)
        ]
    shape = list(value.shape)
    for axis, extent in zip(axes, extents, strict=True):
        shape[axis] = extent
    if min(shape, default=1) < 0:
        raise call.error(f"resizes to {shape}")
    return tuple(shape)


def _scales(call: Call, position: int) -> list[float]:
    given = call.attrs.get("scales")
    if isinstance(given, tuple):
        factors = [float(s) for s in given if isinstance(s, int | float)]
    else:
        factors = [float(s) for s in call.known(position, "scales").reshape(-1)]
    if not all(math.isfinite(f) and 0 <= f < 2**20 for f in factors):
        raise call.error(f"resizes by {factors}")
    return factors


@translates("GridSample")
def _grid_sample(call: Call) -> Value:
    value, grid = call.input(0), call.input(1)
    if value.rank != grid.rank or value.rank not in (4, 5):
        raise call.error(f"samples {list(value.shape)} at {list(grid.shape)}")
    shape = (*value.shape[:2], *grid.shape[1:-1])
    return call.emit(f"grid_sampler_{value.rank - 2}d", [value, grid], shape)

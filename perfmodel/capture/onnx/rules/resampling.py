"""Resizing and sampling of feature maps."""

from __future__ import annotations

import math

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call, translates

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


def _target(call: Call, value: Value) -> tuple[int, ...]:
    axes = [call.axis(a, value.rank) for a in call.ints_attr("axes", range(value.rank)) or ()]
    upsample = call.node.op == "Upsample" or call.opset < 11
    sizes = None if upsample else call.optional(3)
    if sizes is not None and sizes.size:
        extents = call.known_ints(3, "sizes")
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

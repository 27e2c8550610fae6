"""Pooling and resampling: one operation per element of each window, two per tap of each sample."""

from __future__ import annotations

import math
from functools import partial

from perfmodel.graph.cost.base import (
    Attrs,
    Cost,
    OpClass,
    Tensors,
    register,
    register_weights,
    streamed,
)

_DIMENSIONS = (1, 2, 3)
_ADAPTIVE = [
    *(f"adaptive_{kind}_pool{d}d" for kind in ("max", "avg") for d in _DIMENSIONS),
    *(f"_adaptive_avg_pool{d}d" for d in (2, 3)),
    *(f"fractional_max_pool{d}d" for d in (2, 3)),
]
_SCATTERED = [f"max_pool{d}d_with_indices_backward" for d in _DIMENSIONS]


def _window(attrs: Attrs, rank: int) -> int:
    kernel = attrs.get("kernel_size", 1)
    if isinstance(kernel, tuple):
        extents = [k for k in kernel if isinstance(k, int)]
        # One number stands for every dimension.
        return math.prod(extents) if len(extents) != 1 else extents[0] ** rank
    return kernel**rank if isinstance(kernel, int) else 1


def _windowed(inputs: Tensors, outputs: Tensors, attrs: Attrs, *, rank: int) -> Cost:
    return streamed(outputs[0].element_count * _window(attrs, rank), inputs, outputs)


def _mean_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs, *, rank: int) -> Cost:
    # Only the shape of the input is needed to spread a mean.
    return streamed(inputs[0].element_count * _window(attrs, rank), inputs[:1], outputs)


for _d in _DIMENSIONS:
    register(
        f"max_pool{_d}d", f"avg_pool{_d}d", f"max_pool{_d}d_with_indices", op_class=OpClass.POOLING
    )(partial(_windowed, rank=_d))
    register(f"avg_pool{_d}d_backward", op_class=OpClass.POOLING)(partial(_mean_backward, rank=_d))


@register(*_ADAPTIVE, op_class=OpClass.POOLING)
def adaptive(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price windows that tile the input: one operation per element of it."""
    return streamed(inputs[0].element_count, inputs[:1], outputs)


@register(*(f"{op}_backward" for op in _ADAPTIVE), op_class=OpClass.POOLING)
def adaptive_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradient of windows that tile the input."""
    indices = inputs[2:]
    return streamed(outputs[0].element_count, (inputs[0], *indices), outputs)


@register(*_SCATTERED, op_class=OpClass.POOLING)
def scattered(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradient of a maximum, sent to the place that each index names."""
    return streamed(inputs[0].element_count, (inputs[0], *inputs[2:]), outputs)


#: Input elements that one output element mixes.
_TAPS = {
    "upsample_nearest1d": 0, "upsample_nearest2d": 0, "upsample_nearest3d": 0,
    "_upsample_nearest_exact1d": 0, "_upsample_nearest_exact2d": 0,
    "_upsample_nearest_exact3d": 0, "upsample_linear1d": 2, "upsample_bilinear2d": 4,
    "_upsample_bilinear2d_aa": 4, "upsample_trilinear3d": 8, "upsample_bicubic2d": 16,
    "_upsample_bicubic2d_aa": 16,
}  # fmt: skip

register_weights(
    {op: 2 * taps for op, taps in _TAPS.items()},
    op_class=OpClass.RESAMPLING,
    elements=lambda inputs, outputs: outputs[0].element_count,
)
register_weights(
    {f"{op}_backward": max(1, 2 * taps) for op, taps in _TAPS.items()},
    op_class=OpClass.RESAMPLING,
    elements=lambda inputs, outputs: inputs[0].element_count,
)


@register("grid_sampler_2d", "grid_sampler_3d", "grid_sampler", "cudnn_grid_sampler",
          op_class=OpClass.RESAMPLING)  # fmt: skip
def grid_sample(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a sample at every grid point: 4 taps, and 8 per point for its weights."""
    grid = inputs[1]
    flops = 8 * outputs[0].element_count + 8 * grid.element_count
    return streamed(flops, inputs, outputs)


@register("grid_sampler_2d_backward", "grid_sampler_3d_backward", op_class=OpClass.RESAMPLING)
def grid_sample_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradients of samples and grid."""
    grad, _, grid = inputs[:3]
    return streamed(20 * grad.element_count + 8 * grid.element_count, inputs, outputs)


@register("affine_grid_generator", op_class=OpClass.RESAMPLING)
def affine_grid(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the coordinates of an affine map: 3 multiply-adds each."""
    return streamed(6 * outputs[0].element_count, inputs, outputs)

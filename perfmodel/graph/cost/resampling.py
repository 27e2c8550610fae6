"""Interpolation and grid sampling: two operations per tap of each output element."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]

#: Input elements that one output element mixes.
_TAPS = {
    "upsample_nearest1d": 0, "upsample_nearest2d": 0, "upsample_nearest3d": 0,
    "_upsample_nearest_exact1d": 0, "_upsample_nearest_exact2d": 0,
    "_upsample_nearest_exact3d": 0, "upsample_linear1d": 2, "upsample_bilinear2d": 4,
    "_upsample_bilinear2d_aa": 4, "upsample_trilinear3d": 8, "upsample_bicubic2d": 16,
    "_upsample_bicubic2d_aa": 16,
}  # fmt: skip


def _forward(taps: int) -> Callable[[Tensors, Tensors, Attrs], Cost]:
    def formula(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
        return streamed(2 * taps * outputs[0].element_count, inputs, outputs)

    return formula


def _backward(taps: int) -> Callable[[Tensors, Tensors, Attrs], Cost]:
    def formula(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
        return streamed(max(1, 2 * taps) * inputs[0].element_count, inputs, outputs)

    return formula


for _op, _taps in _TAPS.items():
    register(_op, op_class=OpClass.RESAMPLING)(_forward(_taps))
    register(f"{_op}_backward", op_class=OpClass.RESAMPLING)(_backward(_taps))


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

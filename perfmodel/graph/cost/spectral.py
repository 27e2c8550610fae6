"""Fourier transforms: ``5 N log2 N`` operations for N complex points, half for real ones."""

from __future__ import annotations

import math
from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


def _butterflies(tensor: Tensor, attrs: Attrs) -> float:
    axes = attrs.get("dim", ())
    extents = [
        tensor.shape[axis] for axis in (axes if isinstance(axes, tuple) else (axes,))
        if isinstance(axis, int)
    ]  # fmt: skip
    return 5 * tensor.element_count * math.log2(max(2, math.prod(extents)))


@register("_fft_c2c", op_class=OpClass.OTHER)
def complex_transform(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a transform of complex points."""
    return streamed(_butterflies(inputs[0], attrs), inputs, outputs)


@register("_fft_r2c", op_class=OpClass.OTHER)
def real_transform(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a transform of real points."""
    return streamed(_butterflies(inputs[0], attrs) / 2, inputs, outputs)


@register("_fft_c2r", op_class=OpClass.OTHER)
def inverse_real_transform(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a transform back to real points."""
    return streamed(_butterflies(outputs[0], attrs) / 2, inputs, outputs)

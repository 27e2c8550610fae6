r"""Matrix products, factorisations and Fourier transforms.

A product :math:`C_{mn} = \sum_k A_{mk} B_{kn}` costs :math:`2mnk` FLOP, the LU form of a square
matrix :math:`\frac{2}{3} n^3`, a transform of N complex points :math:`5 N \log_2 N`, half of that
for real ones.
"""

from __future__ import annotations

import math

from perfmodel.graph.cost.base import Attrs, Cost, OpClass, Tensors, register, streamed
from perfmodel.graph.node import Tensor
from perfmodel.types import Engine


@register("mm", "bmm", "mv", "dot", "vdot", "matmul", "_int_mm", op_class=OpClass.MATMUL)
def product(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price ``A @ B``: every element of the result sums over the last axis of ``A``."""
    inner = inputs[0].shape[-1] if inputs[0].shape else 1
    return streamed(2 * outputs[0].element_count * inner, inputs, outputs, Engine.MATRIX)


@register("_grouped_mm", op_class=OpClass.MATMUL)
def grouped_product(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a product in groups, as mixtures of experts run it.

    Where rows are grouped, each of them meets one matrix only: every element of the result sums
    over the last axis of ``A``. Where the axis is grouped that is summed over (two matrices in, a
    matrix for each group out: the gradient of the weights), each sums over its group alone.
    """
    terms = 2 * outputs[0].element_count * inputs[0].shape[-1]
    sums_over_groups = [len(tensor.shape) for tensor in (*inputs[:2], outputs[0])] == [2, 2, 3]
    flops = terms / outputs[0].shape[0] if sums_over_groups else terms
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("transformers::grouped_mm_fallback_backward", op_class=OpClass.MATMUL)
def grouped_product_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price both gradients of a grouped product: one product of its size for each."""
    rows, weights = inputs[0], inputs[1]
    flops = 2 * 2 * rows.element_count * weights.shape[-1]
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("addmm", "baddbmm", "addmv", op_class=OpClass.MATMUL)
def added_product(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price ``C + A @ B``; the addition is part of the multiply-adds."""
    inner = inputs[1].shape[-1]
    return streamed(2 * outputs[0].element_count * inner, inputs, outputs, Engine.MATRIX)


@register("_addmm_activation", "_scaled_mm", op_class=OpClass.MATMUL)
def fused_product(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a product with a fused epilogue, which hides behind it."""
    first = inputs[0] if len(inputs[0].shape) == 2 else inputs[1]
    flops = 2 * outputs[0].element_count * first.shape[-1]
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("addbmm", op_class=OpClass.MATMUL)
def summed_product(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price ``C + sum_b A_b @ B_b``."""
    batch, rows, inner = inputs[1].shape
    flops = 2 * batch * rows * inner * inputs[2].shape[-1]
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("linear", op_class=OpClass.MATMUL)
def linear(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price ``x @ W^T + b``."""
    flops = 2 * outputs[0].element_count * inputs[1].shape[-1]
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("addr", "ger", "outer", op_class=OpClass.MATMUL)
def outer_product(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price an outer product: one multiply-add per element."""
    return streamed(2 * outputs[0].element_count, inputs, outputs)


@register("_trilinear", op_class=OpClass.MATMUL)
def trilinear(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price ``sum x_i W_kij y_j``, the product behind ``Bilinear``: two products per weight."""
    rows = inputs[0].element_count // max(1, inputs[0].shape[-1])
    flops = 3 * rows * inputs[1].element_count
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("_linalg_slogdet", "_linalg_det", "linalg_lu_factor_ex", op_class=OpClass.OTHER)
def factorize(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price an LU factorisation; what is read off its diagonal is small beside it."""
    matrix = inputs[0]
    return streamed(2 * matrix.element_count * matrix.shape[-1] / 3, inputs, outputs)


@register("linalg_lu_solve", op_class=OpClass.OTHER)
def solve(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price two triangular solutions of n^2 operations each for every right-hand side."""
    return streamed(2 * outputs[0].element_count * inputs[0].shape[-1], inputs, outputs)


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

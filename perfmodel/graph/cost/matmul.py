r"""Matrix products: :math:`C_{mn} = \sum_k A_{mk} B_{kn}` costs :math:`2mnk` FLOP."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor
from perfmodel.types import Engine

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


@register("mm", "bmm", "mv", "dot", "vdot", "matmul", "_int_mm", "_grouped_mm",
          op_class=OpClass.MATMUL)  # fmt: skip
def product(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price ``A @ B``: every element of the result sums over the last axis of ``A``.

    A grouped product multiplies each row with one matrix only, which the same rule covers.
    """
    inner = inputs[0].shape[-1] if inputs[0].shape else 1
    return streamed(2 * outputs[0].element_count * inner, inputs, outputs, Engine.MATRIX)


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

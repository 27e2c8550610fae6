r"""Convolutions, forward and backward, with groups, strides and transposition.

Every element on the *dense* side (the output of a convolution, the input of a transposed one)
takes part in one multiply-add per weight of its filter:

.. math:: F = 2 \cdot N_{dense} \cdot \frac{|W|}{W_0}

where :math:`|W|` counts the elements of the weight, :math:`W_0` its first extent, and the
quotient is :math:`C_{in}/g \cdot k_h k_w`. The gradients of input and of weight each cost the
same again: groups divide them as they divide the forward pass.

Left out: savings of Winograd and FFT algorithms; padding counts as work.
"""

from __future__ import annotations

from perfmodel.graph.cost.base import Attrs, Cost, OpClass, Tensors, elements_of, register, streamed
from perfmodel.graph.node import Tensor
from perfmodel.types import Engine


@register("convolution", "convolution_overrideable", "_convolution", op_class=OpClass.CONVOLUTION)
def convolution(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a convolution of input, weight and maybe bias."""
    x, weight = inputs[:2]
    dense = x if attrs.get("transposed") else outputs[0]
    return streamed(_multiply_adds(dense, weight), inputs, outputs, _engine(weight, attrs))


@register("convolution_backward", "convolution_backward_overrideable",
          op_class=OpClass.CONVOLUTION)  # fmt: skip
def convolution_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the wanted gradients; ``output_mask`` says which of input, weight and bias."""
    grad, x, weight = inputs[:3]
    mask = attrs.get("output_mask")
    for_input, for_weight, for_bias = mask if isinstance(mask, tuple) else (True, True, False)
    dense = x if attrs.get("transposed") else grad
    flops = (bool(for_input) + bool(for_weight)) * _multiply_adds(dense, weight)
    flops += grad.element_count if for_bias else 0
    read = (grad, *((weight,) if for_input else ()), *((x,) if for_weight else ()))
    return streamed(flops, read, outputs, _engine(weight, attrs))


@register("conv_tbc", op_class=OpClass.CONVOLUTION)
def time_major_convolution(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a 1-d convolution whose weight is (width, in, out)."""
    weight = inputs[1]
    flops = 2 * outputs[0].element_count * elements_of((weight,)) // max(1, weight.shape[-1])
    return streamed(flops, inputs, outputs, Engine.MATRIX)


def _multiply_adds(dense: Tensor, weight: Tensor) -> float:
    return 2 * dense.element_count * weight.element_count / max(1, weight.shape[0])


def _engine(weight: Tensor, attrs: Attrs) -> Engine:
    # One input channel per group leaves no inner axis for a matrix unit.
    is_depthwise = attrs.get("groups", 1) != 1 and weight.shape[1] == 1
    return Engine.VECTOR if is_depthwise else Engine.MATRIX

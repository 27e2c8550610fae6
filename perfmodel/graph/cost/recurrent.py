r"""Recurrent layers run as one fused operator.

Every step multiplies each weight matrix with one vector, so :math:`F = 2 T B \sum |W|` over
the matrices of all layers and directions; the backward pass costs twice that, one product for
the inputs and one for the weights. The gates' elementwise work hides behind the products.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor
from perfmodel.types import Engine

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


def _matrix_elements(inputs: Tensors, gates: int, attrs: Attrs) -> int:
    hidden, projected = attrs.get("hidden_size", 0), attrs.get("proj_size", 0)
    rows = gates * hidden if isinstance(hidden, int) else 0
    total = 0
    for position, tensor in enumerate(inputs[1:], start=1):
        shape = tensor.shape
        is_matrix = len(shape) == 2 and (shape[0] == rows or shape == (projected, hidden))
        # ONNX stacks the directions of its two weights: (directions, gates * hidden, width).
        is_stack = len(shape) == 3 and position <= 2 and shape[1] == rows
        total += tensor.element_count if is_matrix or is_stack else 0
    return total


def _price(inputs: Tensors, outputs: Tensors, attrs: Attrs, gates: int, products: int) -> Cost:
    x = inputs[0]
    steps = x.element_count // max(1, x.shape[-1])
    flops = 2 * products * steps * _matrix_elements(inputs, gates, attrs)
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("lstm", op_class=OpClass.RECURRENT)
def lstm(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price an LSTM: four gates."""
    return _price(inputs, outputs, attrs, 4, 1)


@register("lstm_backward", op_class=OpClass.RECURRENT)
def lstm_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the backward pass of an LSTM."""
    return _price(inputs, outputs, attrs, 4, 2)


@register("gru", op_class=OpClass.RECURRENT)
def gru(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a GRU: three gates."""
    return _price(inputs, outputs, attrs, 3, 1)


@register("gru_backward", op_class=OpClass.RECURRENT)
def gru_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the backward pass of a GRU."""
    return _price(inputs, outputs, attrs, 3, 2)


@register("rnn_tanh", "rnn_relu", op_class=OpClass.RECURRENT)
def rnn(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a plain recurrent layer: one gate."""
    return _price(inputs, outputs, attrs, 1, 1)


@register("rnn_tanh_backward", "rnn_relu_backward", op_class=OpClass.RECURRENT)
def rnn_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the backward pass of a plain recurrent layer."""
    return _price(inputs, outputs, attrs, 1, 2)


@register("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell_backward_impl",
          "_thnn_fused_gru_cell_backward", op_class=OpClass.RECURRENT)  # fmt: skip
def cell(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gates of one step, about 10 FLOP for each pre-activation."""
    return streamed(10 * inputs[0].element_count, inputs, outputs)

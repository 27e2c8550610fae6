r"""Recurrent layers run as one fused operator, and the recursions of CTC.

Every step of a layer multiplies each weight matrix with one vector, so :math:`F = 2 T B \sum |W|`
over the matrices of all layers and directions; the backward pass costs twice that, one product for
the inputs and one for the weights. The gates' elementwise work hides behind the products.

The forward variables of connectionist temporal classification form a lattice of
:math:`B T (2 L + 1)`, each the log-sum-exp of three predecessors, about 12 operations; the backward
pass runs the recursion from the other end and adds both into the gradient.

That the steps of a recursion wait for each other is no work: see
:func:`perfmodel.features.operand_shapes.recursion`.

References
----------
Graves et al., "Connectionist Temporal Classification", 2006.
"""

from __future__ import annotations

from functools import partial

from perfmodel.graph.cost.base import Attrs, Cost, OpClass, Tensors, register, streamed
from perfmodel.types import Engine

#: Gates of each kind of layer.
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}

#: Three exponentials and a logarithm among them count as one operation each, as elsewhere.
_FLOPS_PER_CELL = 12


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


def _layer(inputs: Tensors, outputs: Tensors, attrs: Attrs, *, gates: int, products: int) -> Cost:
    x = inputs[0]
    steps = x.element_count // max(1, x.shape[-1])
    flops = 2 * products * steps * _matrix_elements(inputs, gates, attrs)
    return streamed(flops, inputs, outputs, Engine.MATRIX)


for _op, _gates in GATES.items():
    register(_op, op_class=OpClass.RECURRENT)(partial(_layer, gates=_gates, products=1))
    register(f"{_op}_backward", op_class=OpClass.RECURRENT)(
        partial(_layer, gates=_gates, products=2)
    )


@register("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell_backward_impl",
          "_thnn_fused_gru_cell_backward", op_class=OpClass.RECURRENT)  # fmt: skip
def cell(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gates of one step, about 10 FLOP for each pre-activation."""
    return streamed(10 * inputs[0].element_count, inputs, outputs)


@register("_ctc_loss", op_class=OpClass.OTHER)
def loss(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the forward recursion; the lattice is the second result."""
    return streamed(_FLOPS_PER_CELL * outputs[1].element_count, inputs, outputs)


@register("_ctc_loss_backward", op_class=OpClass.OTHER)
def loss_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the backward recursion and the gradient; the lattice is the last operand."""
    flops = 2 * _FLOPS_PER_CELL * inputs[-1].element_count + outputs[0].element_count
    return streamed(flops, inputs, outputs)

r"""Connectionist temporal classification: two recursions over a lattice of letters.

The forward variables form a lattice of :math:`B T (2 L + 1)`, each the log-sum-exp of three
predecessors, about 12 operations; the backward pass runs the recursion from the other end and
adds both into the gradient.

Left out: that the steps of a recursion wait for each other.

References
----------
Graves et al., "Connectionist Temporal Classification", 2006.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]

#: Three exponentials and a logarithm among them count as one operation each, as elsewhere.
_FLOPS_PER_CELL = 12


@register("_ctc_loss", op_class=OpClass.OTHER)
def loss(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the forward recursion; the lattice is the second result."""
    return streamed(_FLOPS_PER_CELL * outputs[1].element_count, inputs, outputs)


@register("_ctc_loss_backward", op_class=OpClass.OTHER)
def loss_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the backward recursion and the gradient; the lattice is the last operand."""
    flops = 2 * _FLOPS_PER_CELL * inputs[-1].element_count + outputs[0].element_count
    return streamed(flops, inputs, outputs)

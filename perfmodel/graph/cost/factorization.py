r"""Dense factorisations: :math:`\frac{2}{3} n^3` operations for the LU form of a square matrix."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


@register("_linalg_slogdet", "_linalg_det", "linalg_lu_factor_ex", op_class=OpClass.OTHER)
def factorize(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price an LU factorisation; what is read off its diagonal is small beside it."""
    matrix = inputs[0]
    return streamed(2 * matrix.element_count * matrix.shape[-1] / 3, inputs, outputs)


@register("linalg_lu_solve", op_class=OpClass.OTHER)
def solve(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price two triangular solutions of n^2 operations each for every right-hand side."""
    return streamed(2 * outputs[0].element_count * inputs[0].shape[-1], inputs, outputs)

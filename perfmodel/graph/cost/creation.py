"""Fills and random numbers: bytes written; what was there before is not read."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, elements_of, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


@register("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
          "new_full", "arange", "range", "linspace", "logspace", "eye", "scalar_tensor", "fill",
          "zero", "tril_indices", "triu_indices", "_efficientzerotensor", "hann_window",
          "hamming_window", "vander", op_class=OpClass.CREATION)  # fmt: skip
def filled(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price writing every element of the result."""
    return streamed(0, (), outputs)


@register("rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm",
          op_class=OpClass.CREATION)  # fmt: skip
def drawn(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price fresh random numbers, about 10 operations each."""
    return streamed(10 * elements_of(outputs), (), outputs)

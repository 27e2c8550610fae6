"""Views and allocations: metadata on the host, no work on the device."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


@register("view", "reshape", "flatten", "unflatten", "t", "transpose", "permute", "movedim",
          "expand", "expand_as", "broadcast_to", "slice", "select", "narrow", "unsqueeze",
          "squeeze", "split", "split_with_sizes", "chunk", "tensor_split", "unbind", "alias",
          "as_strided", "detach", "unfold", "diagonal", "real", "imag", "view_as",
          "view_as_real", "view_as_complex", "_conj", "_neg_view", "lift_fresh", "lift",
          "swapaxes", "numpy_T", "mT", "adjoint", "resize", "set",
          "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "T", "mH",
          "hsplit", "vsplit", "dsplit",
          op_class=OpClass.VIEW)  # fmt: skip
def renamed(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a view: nothing is read, nothing is written."""
    return Cost(0.0, 0.0, 0.0)


@register("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
          "empty_permuted", op_class=OpClass.VIEW)  # fmt: skip
def allocated(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price an allocation: nothing is written yet."""
    return Cost(0.0, 0.0, 0.0)

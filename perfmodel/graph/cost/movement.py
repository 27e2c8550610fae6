"""Copies: no arithmetic, bytes only. Casts, concatenation, padding, rolls, scatter of slices."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, bytes_of, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


@register("clone", "_to_copy", "contiguous", "cat", "concat", "stack", "roll", "flip", "rot90",
          "constant_pad_nd", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
          "native_channel_shuffle", "_pin_memory", "_local_scalar_dense", "is_nonzero", "equal",
          "fliplr", "flipud", "block_diag", "view_copy", "permute_copy", "tril", "triu",
          "_conj_copy", "resolve_conj", 
          "as_strided_scatter", "slice_scatter", "select_scatter", "diagonal_scatter",
          "lift_fresh_copy", "_to_dense", "kron", "diag_embed", "diag",
          op_class=OpClass.MOVEMENT)  # fmt: skip
def copied(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price reading everything and writing everything once."""
    return streamed(0, inputs, outputs)


@register("copy", op_class=OpClass.MOVEMENT)
def overwritten(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price overwriting a tensor: its old content is not read."""
    return streamed(0, inputs[1:], outputs)


@register("repeat", "tile", "repeat_interleave", "reflection_pad1d", "reflection_pad2d",
          "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
          "expand_copy", "im2col", "unfold_copy", "col2im", "_pad_circular",
          op_class=OpClass.MOVEMENT)  # fmt: skip
def spread(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a result that repeats or gathers its input: read once, written in full."""
    return streamed(0, inputs, outputs)


@register("slice_backward", "select_backward", "diagonal_backward", "unfold_backward",
          "reflection_pad1d_backward",
          "reflection_pad2d_backward", "replication_pad2d_backward",
          "replication_pad1d_backward", "_copy_from", op_class=OpClass.MOVEMENT)  # fmt: skip
def embedded(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a gradient placed into zeros of the full shape."""
    return Cost(0.0, float(bytes_of(inputs[:1])), float(bytes_of(outputs)))


@register("split_copy", "split_with_sizes_copy", "unbind_copy", op_class=OpClass.MOVEMENT)
def divided(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price parts that are copied out of one tensor."""
    return streamed(0, inputs, outputs)

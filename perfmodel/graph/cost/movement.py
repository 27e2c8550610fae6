"""Views, allocations, fills and copies: no arithmetic but for random numbers, bytes alone."""

from __future__ import annotations

from perfmodel.graph.cost.base import (
    Attrs,
    Cost,
    OpClass,
    Tensors,
    bytes_of,
    elements_of,
    largest_of,
    register,
    streamed,
)


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


@register("bernoulli", "uniform", "normal", "exponential", "random", "cauchy", "geometric",
          "log_normal", op_class=OpClass.CREATION)  # fmt: skip
def redrawn(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price random numbers, about 10 per element; the old content is not read."""
    return streamed(10 * largest_of(outputs), (), outputs)


@register("clone", "_to_copy", "contiguous", "cat", "concat", "stack", "roll", "flip", "rot90",
          "constant_pad_nd", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
          "native_channel_shuffle", "_pin_memory", "_local_scalar_dense", "is_nonzero", "equal",
          "fliplr", "flipud", "block_diag", "view_copy", "permute_copy", "tril", "triu",
          "_conj_copy", "resolve_conj", "as_strided_scatter", "slice_scatter", "select_scatter",
          "diagonal_scatter", "lift_fresh_copy", "_to_dense", "kron", "diag_embed", "diag",
          "repeat", "tile", "repeat_interleave", "reflection_pad1d", "reflection_pad2d",
          "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
          "expand_copy", "im2col", "unfold_copy", "col2im", "_pad_circular", "split_copy",
          "split_with_sizes_copy", "unbind_copy", op_class=OpClass.MOVEMENT)  # fmt: skip
def copied(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price reading everything and writing everything once."""
    return streamed(0, inputs, outputs)


@register("copy", op_class=OpClass.MOVEMENT)
def overwritten(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price overwriting a tensor: its old content is not read."""
    return streamed(0, inputs[1:], outputs)


@register("slice_backward", "select_backward", "diagonal_backward", "unfold_backward",
          "reflection_pad1d_backward", "reflection_pad2d_backward", "replication_pad2d_backward",
          "replication_pad1d_backward", "_copy_from", op_class=OpClass.MOVEMENT)  # fmt: skip
def embedded(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a gradient placed into zeros of the full shape."""
    return Cost(0.0, float(bytes_of(inputs[:1])), float(bytes_of(outputs)))

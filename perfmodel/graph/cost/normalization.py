"""Normalisation layers and softmax: a few operations per element.

Counted per element of the input: statistics take 3 (subtract or accumulate, square, add),
normalising takes 2 and scale and shift 2. With fixed statistics scale and shift alone remain.
Backward passes form two sums (4) and combine three terms (5), and 2 more for the gradients of
scale and shift. Statistics in two passes over a tensor count its bytes once: compulsory traffic.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]


@register("native_batch_norm", "batch_norm", op_class=OpClass.NORMALIZATION)
def batch_norm(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price batch normalisation: 7 per element with batch statistics, 2 with fixed ones."""
    uses_batch = attrs.get("training", attrs.get("train", False))
    return streamed((7 if uses_batch else 2) * inputs[0].element_count, inputs, outputs)


@register("native_layer_norm", "native_group_norm", "layer_norm", "group_norm",
          "instance_norm", op_class=OpClass.NORMALIZATION)  # fmt: skip
def layer_norm(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price layer or group normalisation: 7 per element."""
    return streamed(7 * inputs[0].element_count, inputs, outputs)


@register("rms_norm", "_fused_rms_norm", op_class=OpClass.NORMALIZATION)
def rms_norm(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price root-mean-square normalisation: square, add, normalise, scale."""
    return streamed(4 * inputs[0].element_count, inputs, outputs)


@register("native_batch_norm_backward", "native_layer_norm_backward",
          "native_group_norm_backward", "_fused_rms_norm_backward",
          op_class=OpClass.NORMALIZATION)  # fmt: skip
def norm_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradients of a normalisation: 11 per element."""
    return streamed(11 * inputs[0].element_count, inputs, outputs)


@register("batch_norm_stats", "batch_norm_update_stats", op_class=OpClass.NORMALIZATION)
def batch_statistics(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price mean and variance alone: 3 per element."""
    return streamed(3 * inputs[0].element_count, inputs, outputs)


@register("_softmax", "_log_softmax", "softmax", "log_softmax", op_class=OpClass.SOFTMAX)
def softmax(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price softmax: maximum, subtract, exponential (8), sum, divide (1 reciprocal a row)."""
    return streamed(12 * inputs[0].element_count, inputs, outputs)


@register("_softmax_backward_data", "_log_softmax_backward_data", op_class=OpClass.SOFTMAX)
def softmax_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradient of softmax: product, sum, subtract, product."""
    return streamed(4 * outputs[0].element_count, inputs, outputs)

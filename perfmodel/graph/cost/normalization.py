"""Normalisation layers and softmax: a few operations per element.

Counted per element of the input: statistics take 3 (subtract or accumulate, square, add),
normalising takes 2 and scale and shift 2. With fixed statistics scale and shift alone remain.
Backward passes form two sums (4) and combine three terms (5), and 2 more for the gradients of
scale and shift. Statistics in two passes over a tensor count its bytes once: compulsory traffic.
"""

from __future__ import annotations

from perfmodel.graph.cost.base import (
    Attrs,
    Cost,
    OpClass,
    Tensors,
    register,
    register_weights,
    streamed,
    weights_of,
)


@register("native_batch_norm", "batch_norm", op_class=OpClass.NORMALIZATION)
def batch_norm(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price batch normalisation: 7 per element with batch statistics, 2 with fixed ones."""
    uses_batch = attrs.get("training", attrs.get("train", False))
    return streamed((7 if uses_batch else 2) * inputs[0].element_count, inputs, outputs)


_NORMS = weights_of(
    {
        3: "batch_norm_stats batch_norm_update_stats",
        4: "rms_norm _fused_rms_norm",  # square, add, normalise, scale
        7: "native_layer_norm native_group_norm layer_norm group_norm instance_norm",
        11: """
            native_batch_norm_backward native_layer_norm_backward native_group_norm_backward
            _fused_rms_norm_backward
        """,
    }
)
#: Maximum, subtract, exponential (8), sum, divide (1 reciprocal a row).
_SOFTMAX = weights_of({12: "_softmax _log_softmax softmax log_softmax"})
#: Product, sum, subtract, product.
_SOFTMAX_GRADIENTS = weights_of({4: "_softmax_backward_data _log_softmax_backward_data"})

for _weights, _class in ((_NORMS, OpClass.NORMALIZATION), (_SOFTMAX, OpClass.SOFTMAX)):
    register_weights(_weights, op_class=_class, elements=lambda ins, outs: ins[0].element_count)
register_weights(
    _SOFTMAX_GRADIENTS,
    op_class=OpClass.SOFTMAX,
    elements=lambda inputs, outputs: outputs[0].element_count,
)

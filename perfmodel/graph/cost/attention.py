r"""Fused attention, forward and backward.

With :math:`P` query-key pairs (batch and heads included) and head widths :math:`D` of queries
and :math:`D_v` of values, the forward pass multiplies :math:`QK^T` and :math:`AV`:

.. math:: F_{fwd} = 2P(D + D_v), \qquad F_{bwd} = 2P(3D + 2D_v)

The backward pass is what fused kernels execute: five products, the first of which recomputes
the scores that were never stored. (Without the recomputation it would be :math:`2 F_{fwd}`.)
A causal mask given as a flag halves the pairs, since fused kernels skip the blocks above the
diagonal; a mask given as a tensor does not. Softmax hides behind the products and is left out.

References
----------
Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
NeurIPS 2022, algorithms 1 and 4.
"""

from __future__ import annotations

import math

from perfmodel.graph.cost.base import Attrs, Cost, OpClass, Tensors, register, streamed
from perfmodel.graph.node import Tensor
from perfmodel.types import Engine


@register("scaled_dot_product_attention", op_class=OpClass.ATTENTION)
def attention(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price attention of query, key, value and maybe a mask."""
    query, key, value = inputs[:3]
    flops = 2 * _pairs(query, key, attrs) * (query.shape[-1] + value.shape[-1])
    return streamed(flops, inputs, outputs, Engine.MATRIX)


@register("scaled_dot_product_attention_backward", op_class=OpClass.ATTENTION)
def attention_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradients of query, key and value, from the gradient of the result."""
    query, key, value = inputs[1:4]
    flops = 2 * _pairs(query, key, attrs) * (3 * query.shape[-1] + 2 * value.shape[-1])
    return streamed(flops, inputs, outputs, Engine.MATRIX)


def _pairs(query: Tensor, key: Tensor, attrs: Attrs) -> float:
    heads = math.prod(query.shape[:-2])
    rows, columns = query.shape[-2], key.shape[-2]
    if not attrs.get("is_causal"):
        return heads * rows * columns
    # Row i sees the first min(i + 1, columns) keys.
    square = min(rows, columns)
    return heads * (square * (square + 1) // 2 + (rows - square) * columns)

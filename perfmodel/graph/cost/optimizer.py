"""Optimizer updates over many tensors at once: for-each operators and fused optimizers.

A for-each operator costs what its elementwise namesake costs on all elements together. A fused
optimizer reads and writes parameters, gradients and state once; its operations per element
follow from its update rule.
"""

from __future__ import annotations

from perfmodel.graph.cost import elementwise, reduction
from perfmodel.graph.cost.base import (
    Attrs,
    Cost,
    OpClass,
    Tensors,
    elements_of,
    register,
    register_weights,
    streamed,
)
from perfmodel.types import Role

_FOR_EACH = """
    abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp
    expm1 floor frac lerp lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal
    round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
"""

#: Operations per parameter of each update rule.
_FUSED = {"_fused_sgd": 4, "_fused_adam": 18, "_fused_adamw": 18, "_fused_adagrad": 12}


def _parameters(tensors: Tensors) -> Tensors:
    """Return the tensors before the first gradient: lists of equal length, parameters first."""
    for position, tensor in enumerate(tensors):
        if tensor.role is Role.GRADIENT:
            return tensors[:position]
    return tensors[:1]


register_weights(
    {f"_foreach_{op}": elementwise.FLOPS_PER_ELEMENT[op] for op in _FOR_EACH.split()},
    op_class=OpClass.OPTIMIZER,
    elements=lambda inputs, outputs: elements_of(outputs),
)
register_weights(
    {f"_foreach_{op}": reduction.FLOPS_PER_ELEMENT[op] for op in ("norm", "max")},
    op_class=OpClass.OPTIMIZER,
    elements=lambda inputs, outputs: elements_of(inputs),
)
register_weights(
    _FUSED,
    op_class=OpClass.OPTIMIZER,
    elements=lambda inputs, outputs: elements_of(_parameters(inputs)),
)


@register("_foreach_clone", op_class=OpClass.OPTIMIZER)
def cloned(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price copies of tensors."""
    return streamed(0, inputs, outputs)


@register("_foreach_copy", op_class=OpClass.OPTIMIZER)
def copied(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price overwriting tensors: the first half of the operands is not read."""
    return streamed(0, inputs[len(inputs) // 2 :], outputs)


@register("_foreach_zero", op_class=OpClass.OPTIMIZER)
def zeroed(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price filling tensors with zero: nothing is read."""
    return streamed(0, (), outputs)


@register("_amp_foreach_non_finite_check_and_unscale", op_class=OpClass.OPTIMIZER)
def unscaled(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price dividing gradients by the loss scale and checking that they are finite."""
    return streamed(2 * elements_of(outputs), inputs, outputs)

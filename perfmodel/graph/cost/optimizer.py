"""Optimizer updates over many tensors at once: for-each operators and fused optimizers.

A for-each operator costs what its elementwise namesake costs on all elements together. A fused
optimizer reads and writes parameters, gradients and state once; its operations per element
follow from its update rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfmodel.graph.cost import elementwise, reduction
from perfmodel.graph.cost.base import Cost, OpClass, elements_of, register, streamed
from perfmodel.graph.node import AttrValue, Tensor
from perfmodel.types import Role

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]

_FOR_EACH = """
    abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp
    expm1 floor frac lerp lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal
    round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
"""

#: Operations per parameter of each update rule.
_FUSED = {"_fused_sgd": 4, "_fused_adam": 18, "_fused_adamw": 18, "_fused_adagrad": 12}


def _for_each(weight: int) -> Callable[[Tensors, Tensors, Attrs], Cost]:
    def formula(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
        return streamed(weight * elements_of(outputs), inputs, outputs)

    return formula


def _for_each_reduction(weight: int) -> Callable[[Tensors, Tensors, Attrs], Cost]:
    def formula(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
        return streamed(weight * elements_of(inputs), inputs, outputs)

    return formula


def _update(weight: int) -> Callable[[Tensors, Tensors, Attrs], Cost]:
    def formula(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
        # The operands are lists of equal length, parameters first, gradients second.
        parameters = _first_list(inputs)
        return streamed(weight * elements_of(parameters), inputs, outputs)

    return formula


def _first_list(tensors: Tensors) -> Tensors:
    """Return the parameters: the tensors before the first gradient."""
    for position, tensor in enumerate(tensors):
        if tensor.role is Role.GRADIENT:
            return tensors[:position]
    return tensors[:1]


for _op in _FOR_EACH.split():
    _weight = elementwise.FLOPS_PER_ELEMENT[_op]
    register(f"_foreach_{_op}", op_class=OpClass.OPTIMIZER)(_for_each(_weight))
for _op in ("norm", "max"):
    _weight = reduction.FLOPS_PER_ELEMENT[_op]
    register(f"_foreach_{_op}", op_class=OpClass.OPTIMIZER)(_for_each_reduction(_weight))
for _op, _weight in _FUSED.items():
    register(_op, op_class=OpClass.OPTIMIZER)(_update(_weight))


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

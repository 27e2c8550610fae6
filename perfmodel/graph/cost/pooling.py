"""Pooling: one operation per element of each window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from perfmodel.graph.cost.base import Cost, OpClass, register, streamed
from perfmodel.graph.node import AttrValue, Tensor

Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]

_DIMENSIONS = (1, 2, 3)
_WINDOWED = [
    *(f"{kind}_pool{d}d" for kind in ("max", "avg") for d in _DIMENSIONS),
    *(f"max_pool{d}d_with_indices" for d in _DIMENSIONS),
]
_ADAPTIVE = [
    *(f"adaptive_{kind}_pool{d}d" for kind in ("max", "avg") for d in _DIMENSIONS),
    *(f"_adaptive_avg_pool{d}d" for d in (2, 3)),
    *(f"fractional_max_pool{d}d" for d in (2, 3)),
]
_SCATTERED = [f"max_pool{d}d_with_indices_backward" for d in _DIMENSIONS]


def _window(attrs: Attrs, rank: int) -> int:
    kernel = attrs.get("kernel_size", 1)
    if isinstance(kernel, tuple):
        extents = [k for k in kernel if isinstance(k, int)]
        # One number stands for every dimension.
        return math.prod(extents) if len(extents) != 1 else extents[0] ** rank
    return kernel**rank if isinstance(kernel, int) else 1


def _dimensions(op: str) -> int:
    return next(d for d in _DIMENSIONS if f"pool{d}d" in op)


def _windowed(rank: int) -> Callable[[Tensors, Tensors, Attrs], Cost]:
    def formula(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
        return streamed(outputs[0].element_count * _window(attrs, rank), inputs, outputs)

    return formula


def _windowed_backward(rank: int) -> Callable[[Tensors, Tensors, Attrs], Cost]:
    def formula(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
        # Only the shape of the input is needed to spread a mean.
        return streamed(inputs[0].element_count * _window(attrs, rank), inputs[:1], outputs)

    return formula


for _op in _WINDOWED:
    register(_op, op_class=OpClass.POOLING)(_windowed(_dimensions(_op)))
for _d in _DIMENSIONS:
    register(f"avg_pool{_d}d_backward", op_class=OpClass.POOLING)(_windowed_backward(_d))


@register(*_ADAPTIVE, op_class=OpClass.POOLING)
def adaptive(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price windows that tile the input: one operation per element of it."""
    return streamed(inputs[0].element_count, inputs[:1], outputs)


@register(*(f"{op}_backward" for op in _ADAPTIVE), op_class=OpClass.POOLING)
def adaptive_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradient of windows that tile the input."""
    indices = inputs[2:]
    return streamed(outputs[0].element_count, (inputs[0], *indices), outputs)


@register(*_SCATTERED, op_class=OpClass.POOLING)
def scattered(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price the gradient of a maximum, sent to the place that each index names."""
    return streamed(inputs[0].element_count, (inputs[0], *inputs[2:]), outputs)

"""Optimizer updates in PyTorch's for-each form: one node over all parameters.

The sequences are those of ``torch.optim`` with ``foreach=True`` in the middle of a training,
when the state exists already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from perfmodel.capture.onnx.builder import GraphBuilder, Value
from perfmodel.graph.ir import AttrValue
from perfmodel.types import Role

Values = list[Value]
Update = Callable[[GraphBuilder, Values, Values], None]

_DECAY_FIRST, _DECAY_SECOND = 0.9, 0.999
_RATE, _ADAM_RATE, _WEIGHT_DECAY = 1e-3, 1e-4, 0.01


def _each(
    builder: GraphBuilder, op: str, targets: Values, *others: Values, **attrs: AttrValue
) -> Values:
    inputs = [*targets, *(v for other in others for v in other)]
    specs = [(v.shape, v.dtype) for v in targets]
    return builder.emit_each(f"_foreach_{op}", inputs, specs, attrs)


def _state(builder: GraphBuilder, like: Values) -> Values:
    return [builder.tensor(v.shape, v.dtype, Role.OPTIMIZER_STATE) for v in like]


def _sgd(builder: GraphBuilder, params: Values, grads: Values) -> None:
    _each(builder, "add_", params, grads, alpha=-_RATE)


def _momentum(builder: GraphBuilder, params: Values, grads: Values) -> None:
    velocity = _state(builder, params)
    velocity = _each(builder, "mul_", velocity, scalar=0.9)
    velocity = _each(builder, "add_", velocity, grads, alpha=1)
    _each(builder, "add_", params, velocity, alpha=-_RATE)


def _adam(builder: GraphBuilder, params: Values, grads: Values) -> None:
    steps = [builder.tensor((), "float32", Role.OPTIMIZER_STATE) for _ in params]
    one = builder.tensor((), "float32", Role.CONSTANT)
    _each(builder, "add_", steps, [one], alpha=1.0)
    first, second = _state(builder, params), _state(builder, params)
    first = _each(builder, "lerp_", first, grads, weight=1 - _DECAY_FIRST)
    second = _each(builder, "mul_", second, scalar=_DECAY_SECOND)
    second = _each(builder, "addcmul_", second, grads, grads, value=1 - _DECAY_SECOND)
    root = _each(builder, "sqrt", second)
    root = _each(builder, "div_", root, scalars=(1.0,) * len(params))
    root = _each(builder, "add_", root, scalar=1e-8)
    _each(builder, "addcdiv_", params, first, root, scalars=(-_ADAM_RATE,) * len(params))


def _adamw(builder: GraphBuilder, params: Values, grads: Values) -> None:
    params = _each(builder, "mul_", params, scalar=1 - _ADAM_RATE * _WEIGHT_DECAY)
    _adam(builder, params, grads)


#: Updates by the name of the optimizer.
UPDATES: Mapping[str, Update] = MappingProxyType(
    {"sgd": _sgd, "momentum": _momentum, "adam": _adam, "adamw": _adamw}
)

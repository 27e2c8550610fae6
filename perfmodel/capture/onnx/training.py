"""Make a training step of a forward pass: loss, backward pass, optimizer.

Reverse-mode differentiation over the nodes written so far: each node's backward rule turns the
gradients of its outputs into those of its inputs, and where a tensor is read twice the two
gradients are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from perfmodel.capture.onnx.builder import NAME_MARK, GraphBuilder, Value, onnx_node_name
from perfmodel.capture.onnx.dtypes import is_float
from perfmodel.capture.onnx.gradients import GRADIENTS, Backward
from perfmodel.errors import InvalidInputError, UnsupportedOnnxError
from perfmodel.graph.ir import AttrValue, Node
from perfmodel.types import Phase, Role

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


#: Operators whose results carry no gradient, though they may be floats.
_STEPPED = frozenset(
    {"floor", "ceil", "round", "sign", "sgn", "zeros", "full", "arange", "eye", "normal",
     "uniform", "bernoulli", "argmax", "argmin", "one_hot", "aminmax", "fmod", "remainder"}
)  # fmt: skip


def check_optimizer(optimizer: str) -> None:
    """Refuse an optimizer whose updates are not known here.

    Raises
    ------
    InvalidInputError
        With the known names.
    """
    if optimizer not in UPDATES:
        raise InvalidInputError(
            f"The optimizer {optimizer!r} is not known for ONNX graphs; use one of "
            f"{', '.join(UPDATES)}.",
            pointer="/optimizer",
            allowed=tuple(UPDATES),
        )


def extend_to_training(builder: GraphBuilder, outputs: list[Value], optimizer: str) -> None:
    """Add loss, backward pass and optimizer updates to a forward pass.

    The loss is the mean of every float output that depends on a parameter, summed.

    Parameters
    ----------
    optimizer : str
        A key of :data:`~perfmodel.capture.onnx.training.UPDATES`.

    Raises
    ------
    UnsupportedOnnxError
        Nothing to train, or an operator without backward rule.
    """
    forward = list(builder.nodes)
    trainable = _trainable(builder, forward)
    losses = [v for v in outputs if v.index in trainable]
    if not losses:
        raise UnsupportedOnnxError(
            "No float output of the ONNX file depends on a parameter, so there is nothing to "
            "train. Keep the weights as initializers (constants are not trained), or use "
            "inference.",
            pointer="/mode",
        )
    grads: dict[int, Value] = {}
    _loss(builder, losses, grads)
    made_by = {index: node for node in forward for index in node.outputs}
    for node in reversed(forward):
        _differentiate(builder, node, grads, trainable, made_by)
    _finish(builder, forward, grads, optimizer)


def _trainable(builder: GraphBuilder, forward: list[Node]) -> set[int]:
    produced = {index for node in forward for index in node.outputs}
    found = {
        index
        for index, tensor in enumerate(builder.tensors)
        if tensor.role is Role.PARAMETER and is_float(tensor.dtype) and index not in produced
    }
    for node in forward:
        if node.op not in _STEPPED and not found.isdisjoint(node.inputs):
            found.update(i for i in node.outputs if is_float(builder.tensors[i].dtype))
    return found


def _loss(builder: GraphBuilder, losses: list[Value], grads: dict[int, Value]) -> None:
    total = None
    for value in losses:
        mean = builder.emit("mean", [value], [((), value.dtype)], name="loss")[0]
        if total is not None:
            mean = builder.emit("add", [total, mean], [((), value.dtype)], name="loss")[0]
        total = mean
    assert total is not None
    builder.phase = Phase.BACKWARD
    one = builder.emit("ones_like", [total], [((), total.dtype)], name="loss")[0]
    for value in losses:
        spec, size = (value.shape, value.dtype), {"size": value.shape}
        wide = builder.emit("expand", [one], [spec], size, name="loss", view=True)[0]
        share = {"other": max(value.size, 1)}
        mean_grad = builder.emit("div", [wide], [spec], share, name="loss")[0]
        _accumulate(builder, grads, value.index, mean_grad, "loss")


def _differentiate(
    builder: GraphBuilder,
    node: Node,
    grads: dict[int, Value],
    trainable: set[int],
    made_by: dict[int, Node],
) -> None:
    wanted = tuple(i in trainable for i in node.inputs)
    reached = tuple(grads.get(i) for i in node.outputs)
    if not any(wanted) or all(g is None for g in reached):
        return
    if node.op in _STEPPED:
        return
    rule = GRADIENTS.get(node.op)
    if rule is None:
        raise UnsupportedOnnxError(
            f"Training needs a backward rule for the operator {node.op!r} (ONNX node "
            f"{onnx_node_name(node.name)!r}), and there is none. Use inference, or capture the "
            "training step from PyTorch.",
            pointer="/mode",
        )
    step = Backward(node=node, grads=reached, wanted=wanted, builder=builder, made_by=made_by)
    try:
        result = rule(step)
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise UnsupportedOnnxError(
            f"ONNX node {onnx_node_name(node.name)!r} ({node.op}) cannot be differentiated: "
            f"{error}."
        ) from error
    found = [result] if isinstance(result, Value) else list(result)
    for index, needed, grad in zip(node.inputs, wanted, found, strict=False):
        if needed and grad is not None:
            grad = step.cast(grad, builder.tensors[index].dtype)
            _accumulate(builder, grads, index, grad, onnx_node_name(node.name))


def _accumulate(
    builder: GraphBuilder, grads: dict[int, Value], index: int, grad: Value, name: str
) -> None:
    held = grads.get(index)
    if held is not None:
        spec = (grad.shape, grad.dtype)
        grad = builder.emit("add", [held, grad], [spec], name=f"{name}{NAME_MARK}backward")[0]
    grads[index] = grad


def _finish(
    builder: GraphBuilder, forward: list[Node], grads: dict[int, Value], optimizer: str
) -> None:
    read = {index for node in forward for index in node.inputs}
    produced = {index for node in forward for index in node.outputs}
    parameters = [
        index
        for index, tensor in enumerate(builder.tensors)
        if tensor.role is Role.PARAMETER and index in grads and index in read - produced
    ]
    storages = {builder.tensors[grads[index].index].storage for index in parameters}
    for index, tensor in enumerate(builder.tensors):
        if tensor.storage in storages and tensor.role is Role.ACTIVATION:
            builder.tensors[index] = replace(tensor, role=Role.GRADIENT)
    builder.phase = Phase.OPTIMIZER
    values = [builder.value(index) for index in parameters]
    UPDATES[optimizer](builder, values, [grads[index] for index in parameters])

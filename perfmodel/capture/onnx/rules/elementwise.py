"""Element by element: activations, arithmetic, comparison, casts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.capture.onnx.autocast import retyped
from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import MICROSOFT, Call, translates
from perfmodel.capture.onnx.dtypes import DTYPE_OF_ONNX
from perfmodel.graph.ir import AttrValue
from perfmodel.types import Mode

#: ONNX operator -> ATen operator, one tensor in and one of the same type out.
_UNARY = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Neg": "neg", "Abs": "abs", "Floor": "floor",
    "Ceil": "ceil", "Round": "round", "Sign": "sign", "Sin": "sin", "Cos": "cos", "Tan": "tan",
    "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
    "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf", "HardSwish": "hardswish",
    "Mish": "mish", "BitwiseNot": "bitwise_not",
}  # fmt: skip

_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "Pow": "pow",
}  # fmt: skip

_COMPARISON = {
    "Equal": "eq", "Less": "lt", "Greater": "gt", "LessOrEqual": "le", "GreaterOrEqual": "ge",
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
}  # fmt: skip

_CHAINED = {"Sum": "add", "Max": "maximum", "Min": "minimum"}


def unary(call: Call, op: str, value: Value, *, mark: str = "", **attrs: AttrValue) -> Value:
    """Write an operator that keeps shape and type."""
    return call.emit(op, [value], value.shape, mark=mark, carried=attrs)


def binary(call: Call, op: str, left: Value, right: Value, *, mark: str = "") -> Value:
    """Write an operator on two tensors that broadcast."""
    return call.emit(op, [left, right], broadcast(call, left.shape, right.shape), mark=mark)


def broadcast(call: Call, *shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which some shapes broadcast, by numpy's rule.

    Raises
    ------
    UnsupportedOnnxError
        They do not.
    """
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    result = []
    for extents in zip(*padded, strict=True):
        distinct = {e for e in extents if e != 1}
        if len(distinct) > 1:
            raise call.error(f"combines shapes that do not broadcast: {[list(s) for s in shapes]}")
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)


@translates(*_UNARY)
def _unary(call: Call) -> Value:
    return unary(call, _UNARY[call.node.op], call.input(0))


@translates(*_BINARY)
def _binary(call: Call) -> Value:
    left, right = call.input(0), call.input(1)
    if call.attrs.get("broadcast") and "axis" in call.attrs:  # before opset 7
        trailing = left.rank - call.int_attr("axis") - right.rank
        if trailing > 0:
            shape = (*right.shape, *([1] * trailing))
            right = call.view("view", right, shape, mark="view", size=shape)
    return binary(call, _BINARY[call.node.op], left, right)


@translates(*_COMPARISON)
def _comparison(call: Call) -> Value:
    left, right = call.input(0), call.input(1)
    shape = broadcast(call, left.shape, right.shape)
    return call.emit(_COMPARISON[call.node.op], [left, right], shape, "bool")


@translates(*_CHAINED, "Mean")
def _chain(call: Call) -> Value:
    op = _CHAINED.get(call.node.op, "add")
    values = [call.input(p) for p in range(len(call.inputs))]
    total = values[0]
    for value in values[1:]:
        total = binary(call, op, total, value)
    if call.node.op == "Mean":
        total = unary(call, "div", total, other=len(values))
    return total


@translates("Not")
def _not(call: Call) -> Value:
    return call.emit("logical_not", [call.input(0)], call.input(0).shape, "bool")


@translates("IsNaN", "IsInf")
def _is(call: Call) -> Value:
    return call.emit(call.node.op.lower(), [call.input(0)], call.input(0).shape, "bool")


@translates("Mod")
def _mod(call: Call) -> Value:
    op = "fmod" if call.int_attr("fmod", 0) else "remainder"
    return binary(call, op, call.input(0), call.input(1))


@translates("BitShift")
def _bit_shift(call: Call) -> Value:
    left = call.text_attr("direction", "LEFT") == "LEFT"
    op = "__lshift__" if left else "__rshift__"
    return binary(call, op, call.input(0), call.input(1))


@translates("LeakyRelu")
def _leaky_relu(call: Call) -> Value:
    slope = call.float_attr("alpha", 0.01)
    return unary(call, "leaky_relu", call.input(0), negative_slope=slope)


@translates("Elu", "Celu", "Selu")
def _elu(call: Call) -> Value:
    selu = call.node.op == "Selu"
    alpha = call.float_attr("alpha", 1.67326 if selu else 1.0)
    scale = call.float_attr("gamma", 1.0507) if selu else 1.0
    return unary(call, "elu", call.input(0), alpha=alpha, scale=scale)


@translates("HardSigmoid")
def _hard_sigmoid(call: Call) -> Value:
    return unary(call, "hardsigmoid", call.input(0))


@translates("Softplus")
def _softplus(call: Call) -> Value:
    return unary(call, "softplus", call.input(0), beta=1.0, threshold=20.0)


@translates("Softsign")
def _softsign(call: Call) -> Value:
    value = call.input(0)
    size = unary(call, "abs", value, mark="abs")
    return binary(call, "div", value, unary(call, "add", size, mark="add", other=1))


@translates("ThresholdedRelu")
def _threshold(call: Call) -> Value:
    alpha = call.float_attr("alpha", 1.0)
    x = call.input(0)
    return call.emit("threshold", [x], x.shape, carried={"threshold": alpha, "value": 0.0})


@translates("Shrink")
def _shrink(call: Call) -> Value:
    return unary(call, "softshrink", call.input(0), lambd=call.float_attr("lambd", 0.5))


@translates("Swish")
@translates("QuickGelu", domains=(MICROSOFT,))
def _swish(call: Call) -> Value:
    value = call.input(0)
    default = 1.702 if call.node.op == "QuickGelu" else 1.0
    if call.float_attr("alpha", default) == 1.0:
        return unary(call, "silu", value)
    scaled = unary(call, "mul", value, mark="scale", other=call.float_attr("alpha", default))
    return binary(call, "mul", value, unary(call, "sigmoid", scaled, mark="sigmoid"))


@translates("Gelu", domains=("", MICROSOFT))
@translates("FastGelu", "BiasGelu", domains=(MICROSOFT,))
def _gelu(call: Call) -> Value:
    value, bias = call.input(0), call.optional(1)
    if bias is not None:
        value = binary(call, "add", value, bias, mark="add")
    default = "tanh" if call.node.op == "FastGelu" else "none"
    return unary(call, "gelu", value, approximate=call.text_attr("approximate", default))


@translates("PRelu")
def _prelu(call: Call) -> Value:
    value, slope = call.input(0), call.input(1)
    broadcast(call, value.shape, slope.shape)
    return call.emit("_prelu_kernel", [value, slope], value.shape)


@translates("Clip")
def _clip(call: Call) -> Value:
    low, high = _bound(call, 1, "min"), _bound(call, 2, "max")
    if isinstance(low, Value) or isinstance(high, Value):
        bounds = [b for b in (low, high) if isinstance(b, Value)]
        return call.emit("clamp", [call.input(0), *bounds], call.input(0).shape)
    if (low, high) == (0.0, 6.0):
        return unary(call, "hardtanh", call.input(0), min_val=0.0, max_val=6.0)
    limits = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
    return call.emit("clamp", [call.input(0)], call.input(0).shape, carried=limits)


def _bound(call: Call, position: int, name: str) -> Value | float | None:
    value = call.optional(position)
    if value is None:
        bound = call.attrs.get(name)
        return float(bound) if isinstance(bound, int | float) else None
    if value.known is None or value.size != 1:
        return value
    number = float(value.known.reshape(-1)[0])
    return number if math.isfinite(number) else None


@translates("Where")
def _where(call: Call) -> Value:
    condition, left, right = (call.input(p) for p in range(3))
    shape = broadcast(call, condition.shape, left.shape, right.shape)
    dtype = call.result_dtype("where", [left, right])
    return call.emit("where", [condition, left, right], shape, dtype)


@translates("Cast", "CastLike")
def _cast(call: Call) -> Value:
    value = call.builder.placed(call.input(0))
    if call.node.op == "CastLike":
        dtype = call.builder.placed(call.input(1)).dtype
    else:
        number = call.int_attr("to")
        if number not in DTYPE_OF_ONNX:
            raise call.error(f"casts to element type {number}, which is not supported")
        dtype = retyped(DTYPE_OF_ONNX[number], call.builder.precision)
    if dtype == value.dtype:
        return value
    return call.cast(value, dtype)


@translates("Identity")
def _identity(call: Call) -> Value:
    value = call.optional(0)
    if value is None:
        raise call.error("has no input")
    return value


@translates("Dropout")
def _dropout(call: Call) -> Sequence[Value | None]:
    value = call.input(0)
    ratio = call.float_attr("ratio", 0.5)
    given = call.optional(1)
    if given is not None and given.known is not None and given.size == 1:
        ratio = float(given.known.reshape(-1)[0])
    if call.mode is Mode.INFERENCE or ratio == 0:
        return [value, None]
    out, mask = call.emit_many(
        "native_dropout",
        [value],
        [(value.shape, call.result_dtype("native_dropout", [value])), (value.shape, "bool")],
        p=ratio,
        train=True,
    )
    return [out, mask]

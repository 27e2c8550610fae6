"""Compute what shapes depend on: small constants through numpy, under a cap on their size.

Exported models carry their shape arithmetic (Shape, Gather, Concat, ...) as operators; with
every dimension bound all of it is known before the model runs. Parameters are never computed
with, and a result larger than the cap is left to the rules, which state its shape only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call
from perfmodel.capture.onnx.dtypes import DTYPE_OF_ONNX, NUMPY_OF_DTYPE
from perfmodel.capture.onnx.reading.model import OnnxTensor
from perfmodel.types import Role

#: A rule gets the call and its arguments' elements.
Fold = Callable[[Call, Sequence[np.ndarray]], Any]

FOLDS: dict[str, Fold] = {}


def fold(call: Call) -> list[Value] | None:
    """Compute an operator call whose arguments are known.

    Returns
    -------
    list of Value or None
        None where something is unknown, too large, or cannot be computed.
    """
    if call.node.domain:
        return None
    if call.node.op in ("Shape", "Size"):
        return _extents(call)
    if call.node.op == "Constant":
        return [_constant(call)]
    rule = FOLDS.get(call.node.op)
    if rule is None or not call.inputs:
        return None
    arrays = []
    for value in call.inputs:
        if value is None:
            break
        if value.known is None or value.role is not Role.CONSTANT:
            return None
        arrays.append(value.known)
    try:
        with np.errstate(all="ignore"):
            result = rule(call, arrays)
    except (ArithmeticError, ValueError, IndexError, TypeError):
        return None  # the rule for this operator finds the fault again, and names it
    if result is None:
        return None
    results = [result] if isinstance(result, np.ndarray | np.generic) else list(result)
    if any(r.size > call.limits.max_constant_elements for r in results):
        return None
    return [Value(r.shape, str(r.dtype), known=np.asarray(r)) for r in results]


def _extents(call: Call) -> list[Value]:
    shape = call.input(0).shape
    if call.node.op == "Size":
        known = np.array(math.prod(shape), np.int64)
    else:
        start, end = call.int_attr("start", 0), call.int_attr("end", len(shape))
        known = np.array(shape[start:end], np.int64)
    return [Value(known.shape, "int64", known=known)]


def _constant(call: Call) -> Value:
    kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32,
             "value_floats": np.float32}  # fmt: skip
    for name, kind in kinds.items():
        if name in call.attrs:
            known = np.array(call.attrs[name], kind)
            return Value(known.shape, str(known.dtype), known=known)
    tensor = call.attrs.get("value", call.attrs.get("sparse_value"))
    if not isinstance(tensor, OnnxTensor):
        raise call.error("holds no numbers; strings are not supported")
    return Value(tensor.shape, tensor.dtype, known=tensor.values)


def _folds(*ops: str) -> Callable[[Fold], Fold]:
    def enter(rule: Fold) -> Fold:
        FOLDS.update((op, rule) for op in ops)
        return rule

    return enter


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal, "Less": np.less,
    "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not,
    "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt,
    "Max": np.maximum, "Min": np.minimum, "Where": np.where, "Sign": np.sign, "Round": np.rint,
    "Exp": np.exp, "Log": np.log, "Reciprocal": np.reciprocal,
}  # fmt: skip


@_folds(*_ELEMENTWISE)
def _elementwise(call: Call, args: Sequence[np.ndarray]) -> Any:
    shape = np.broadcast_shapes(*(a.shape for a in args))
    if math.prod(shape) > call.limits.max_constant_elements:
        return None
    function = _ELEMENTWISE[call.node.op]
    if call.node.op in ("Max", "Min"):
        result = args[0]
        for other in args[1:]:
            result = function(result, other)
        return result
    result = function(*args)
    keeps = call.node.op in ("Floor", "Ceil", "Sqrt", "Round", "Exp", "Log", "Reciprocal")
    return result.astype(args[0].dtype) if keeps else result


@_folds("Div", "Mod", "Pow")
def _arithmetic(call: Call, args: Sequence[np.ndarray]) -> Any:
    left, right = args
    if math.prod(np.broadcast_shapes(left.shape, right.shape)) > call.limits.max_constant_elements:
        return None
    integers = left.dtype.kind in "iu"
    if call.node.op == "Pow":
        return np.power(left.astype(np.float64), right).astype(left.dtype)
    if integers and not right.all():
        raise ZeroDivisionError
    if call.node.op == "Mod":
        fmod = call.int_attr("fmod", 0) == 1
        return np.fmod(left, right) if fmod else np.mod(left, right)
    if not integers:
        return np.divide(left, right)
    return (np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))).astype(left.dtype)


@_folds("Cast")
def _cast(call: Call, args: Sequence[np.ndarray]) -> Any:
    dtype = NUMPY_OF_DTYPE.get(DTYPE_OF_ONNX.get(call.int_attr("to"), ""))
    return None if dtype is None else args[0].astype(dtype)


@_folds("Identity")
def _identity(call: Call, args: Sequence[np.ndarray]) -> Any:
    return args[0]


@_folds("Concat")
def _concat(call: Call, args: Sequence[np.ndarray]) -> Any:
    if len(args) < len(call.inputs):
        return None
    if sum(a.size for a in args) > call.limits.max_constant_elements:
        return None
    return np.concatenate(args, call.int_attr("axis"))


@_folds("Gather")
def _gather(call: Call, args: Sequence[np.ndarray]) -> Any:
    data, indices = args
    axis = call.int_attr("axis", 0)
    size = indices.size * data.size // max(data.shape[axis], 1)
    if size > call.limits.max_constant_elements:
        return None
    return np.take(data, indices, axis)


@_folds("Reshape", "Squeeze", "Unsqueeze", "Flatten")
def _reshape(call: Call, args: Sequence[np.ndarray]) -> Any:
    from perfmodel.capture.onnx.rules.movement import reshaped

    return args[0].reshape(reshaped(call))


@_folds("Transpose")
def _transpose(call: Call, args: Sequence[np.ndarray]) -> Any:
    return np.transpose(args[0], call.ints_attr("perm"))


@_folds("Slice")
def _slice(call: Call, args: Sequence[np.ndarray]) -> Any:
    from perfmodel.capture.onnx.rules.movement import slices_of

    cut = [slice(None)] * args[0].ndim
    for axis, start, end, step in slices_of(call):
        cut[axis] = slice(start, None if step < 0 and end < 0 else end, step)
    return args[0][tuple(cut)]


@_folds("Split")
def _split(call: Call, args: Sequence[np.ndarray]) -> Any:
    from perfmodel.capture.onnx.rules.movement import split_sizes

    axis, sizes = split_sizes(call)
    return np.split(args[0], np.cumsum(sizes)[:-1], axis)


@_folds("Range")
def _range(call: Call, args: Sequence[np.ndarray]) -> Any:
    start, limit, delta = (a.reshape(-1)[0] for a in args)
    count = max(0, math.ceil((float(limit) - float(start)) / float(delta)))
    if count > call.limits.max_constant_elements:
        return None
    return (start + delta * np.arange(count)).astype(args[0].dtype)


@_folds("ConstantOfShape")
def _constant_of_shape(call: Call, args: Sequence[np.ndarray]) -> Any:
    shape = [int(e) for e in args[0]]
    if math.prod(shape) > call.limits.max_constant_elements or len(shape) > call.limits.max_rank:
        return None
    fill = call.attrs.get("value")
    if fill is None:
        return np.zeros(shape, np.float32)
    if not isinstance(fill, OnnxTensor) or fill.values is None:
        return None
    return np.full(shape, fill.values.reshape(-1)[0], fill.values.dtype)


@_folds("Expand")
def _expand(call: Call, args: Sequence[np.ndarray]) -> Any:
    shape = np.broadcast_shapes(args[0].shape, tuple(int(e) for e in args[1]))
    if math.prod(shape) > call.limits.max_constant_elements:
        return None
    return np.broadcast_to(args[0], shape)


@_folds("Tile")
def _tile(call: Call, args: Sequence[np.ndarray]) -> Any:
    repeats = [int(r) for r in args[1]]
    if args[0].size * math.prod(repeats) > call.limits.max_constant_elements:
        return None
    return np.tile(args[0], repeats)


@_folds("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def _reduce(call: Call, args: Sequence[np.ndarray]) -> Any:
    function: Any = {"ReduceProd": np.prod, "ReduceSum": np.sum, "ReduceMax": np.max,
                "ReduceMin": np.min}[call.node.op]  # fmt: skip
    axes = [int(a) for a in args[1]] if len(args) > 1 else call.ints_attr("axes")
    if not axes and call.int_attr("noop_with_empty_axes", 0):
        return args[0]
    kept = bool(call.int_attr("keepdims", 1))
    result = function(args[0], axis=tuple(axes) if axes else None, keepdims=kept)
    return np.asarray(result).astype(args[0].dtype)


@_folds("NonZero")
def _nonzero(call: Call, args: Sequence[np.ndarray]) -> Any:
    return np.array(np.nonzero(args[0]), np.int64)


@_folds("CumSum")
def _cumsum(call: Call, args: Sequence[np.ndarray]) -> Any:
    if call.int_attr("exclusive", 0) or call.int_attr("reverse", 0):
        return None
    return np.cumsum(args[0], int(args[1].reshape(-1)[0])).astype(args[0].dtype)


@_folds("ScatterND")
def _scatter_nd(call: Call, args: Sequence[np.ndarray]) -> Any:
    data, indices, updates = args
    result = data.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result

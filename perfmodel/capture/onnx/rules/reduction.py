"""Reductions, arg-reductions, running sums, top-k."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call, translates
from perfmodel.capture.onnx.rules.elementwise import binary, unary
from perfmodel.capture.onnx.rules.movement import axes_of

_PLAIN = {
    "ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceMin": "amin",
    "ReduceProd": "prod", "ReduceLogSumExp": "logsumexp",
}  # fmt: skip
_NORMS = {"ReduceL1": 1, "ReduceL2": 2}


@translates(*_PLAIN, *_NORMS, "ReduceSumSquare", "ReduceLogSum")
def _reduce(call: Call) -> Value:
    value = call.input(0)
    axes = axes_of(call, 1, value.rank)
    if not axes and call.int_attr("noop_with_empty_axes", 0):
        return value
    dim = tuple(axes) if axes else tuple(range(value.rank))
    keep = bool(call.int_attr("keepdims", 1))
    shape = tuple(1 if a in dim else e for a, e in enumerate(value.shape) if keep or a not in dim)
    op = call.node.op
    if op in _NORMS:
        return call.emit(
            "linalg_vector_norm", [value], shape, ord=_NORMS[op], dim=dim, keepdim=keep
        )
    if op == "ReduceSumSquare":
        value = binary(call, "mul", value, value, mark="square")
    name = _PLAIN.get(op, "sum")
    out = call.emit(name, [value], shape, dim=dim, keepdim=keep)
    return unary(call, "log", out, mark="log") if op == "ReduceLogSum" else out


@translates("ArgMax", "ArgMin")
def _arg(call: Call) -> Value:
    value = call.input(0)
    axis = call.axis(call.int_attr("axis", 0), value.rank)
    keep = bool(call.int_attr("keepdims", 1))
    middle = (1,) if keep else ()
    shape = (*value.shape[:axis], *middle, *value.shape[axis + 1 :])
    return call.emit(call.node.op.lower(), [value], shape, "int64", dim=axis, keepdim=keep)


@translates("CumSum")
def _cumsum(call: Call) -> Value:
    value = call.input(0)
    axis = call.axis(call.known_ints(1, "axis")[0], value.rank)
    return call.emit("cumsum", [value], value.shape, dim=axis)


@translates("TopK")
def _topk(call: Call) -> Sequence[Value]:
    value = call.input(0)
    count = call.known_ints(1, "k")[0] if call.optional(1) is not None else call.int_attr("k")
    axis = call.axis(call.int_attr("axis", -1), value.rank)
    if not 0 <= count <= value.shape[axis]:
        raise call.error(f"takes the top {count} of {value.shape[axis]}")
    shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
    dtype = call.result_dtype("topk", [value])
    return call.emit_many("topk", [value], [(shape, dtype), (shape, "int64")], k=count, dim=axis)

"""Gather, scatter, embedding, and tensors made from nothing."""

from __future__ import annotations

import math

from perfmodel.capture.onnx.autocast import retyped
from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call, translates
from perfmodel.capture.onnx.dtypes import DTYPE_OF_ONNX, is_float
from perfmodel.capture.onnx.reading.model import OnnxTensor
from perfmodel.graph.ir import AttrValue
from perfmodel.types import Role


@translates("Gather")
def _gather(call: Call) -> Value:
    data, indices = call.input(0), call.input(1)
    axis = call.axis(call.int_attr("axis", 0), data.rank)
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    if indices.known is not None and indices.rank == 0:
        index = int(indices.known)
        return call.view("select", data, shape, dim=axis, index=index)
    dtype = call.builder.placed(data).dtype
    table = call.builder.tensors[call.builder.placed(data).index]
    if axis == 0 and data.rank == 2 and table.role is Role.PARAMETER:
        return call.emit("embedding", [data, indices], shape, dtype, padding_idx=-1)
    if indices.rank == 1:
        return call.emit("index_select", [data, indices], shape, dtype, dim=axis)
    return call.emit("index", [data, indices], shape, dtype, dim=axis)


@translates("GatherElements")
def _gather_elements(call: Call) -> Value:
    data, indices = call.input(0), call.input(1)
    axis = call.axis(call.int_attr("axis", 0), data.rank)
    dtype = call.builder.placed(data).dtype
    return call.emit("gather", [data, indices], indices.shape, dtype, dim=axis)


@translates("GatherND")
def _gather_nd(call: Call) -> Value:
    data, indices = call.input(0), call.input(1)
    batch, depth = call.int_attr("batch_dims", 0), indices.shape[-1] if indices.rank else 0
    if indices.rank == 0 or not 0 <= batch <= data.rank - depth:
        raise call.error(f"picks from {list(data.shape)} by indices {list(indices.shape)}")
    shape = (*indices.shape[:-1], *data.shape[batch + depth :])
    return call.emit("index", [data, indices], shape, call.builder.placed(data).dtype)


@translates("ScatterElements", "Scatter")
def _scatter(call: Call) -> Value:
    data, indices, updates = (call.input(p) for p in range(3))
    axis = call.axis(call.int_attr("axis", 0), data.rank)
    added = call.text_attr("reduction", "none") == "add"
    op = "scatter_add" if added else "scatter"
    dtype = call.result_dtype(op, [data, updates])
    return call.emit(op, [data, indices, updates], data.shape, dtype, dim=axis)


@translates("ScatterND")
def _scatter_nd(call: Call) -> Value:
    data, indices, updates = (call.input(p) for p in range(3))
    accumulate = call.text_attr("reduction", "none") == "add"
    dtype = call.result_dtype("index_put", [data, updates])
    return call.emit(
        "index_put", [data, indices, updates], data.shape, dtype, accumulate=accumulate
    )


@translates("OneHot")
def _one_hot(call: Call) -> Value:
    indices, values = call.input(0), call.input(2)
    depth = int(call.known(1, "depth").reshape(-1)[0])
    axis = call.axis(call.int_attr("axis", -1), indices.rank + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    dtype = retyped(values.dtype, call.builder.precision)
    return call.emit("one_hot", [indices], shape, dtype, num_classes=depth)


@translates("ConstantOfShape")
def _constant_of_shape(call: Call) -> Value:
    shape = tuple(call.known_ints(0, "shape"))
    fill = call.attrs.get("value")
    dtype = fill.dtype if isinstance(fill, OnnxTensor) else "float32"
    return _made(call, "full", shape, dtype, size=shape, fill_value=0)


@translates("Range")
def _range(call: Call) -> Value:
    start, limit, delta = (float(call.known(p, "bounds").reshape(-1)[0]) for p in range(3))
    if delta == 0 or not all(map(math.isfinite, (start, limit, delta))):
        raise call.error(f"counts from {start} to {limit} by {delta}")
    shape = (max(0, math.ceil((limit - start) / delta)),)
    return _made(call, "arange", shape, call.input(0).dtype, start=start, end=limit, step=delta)


@translates("EyeLike")
def _eye(call: Call) -> Value:
    shape = call.input(0).shape
    return _made(call, "eye", shape, _chosen_dtype(call, call.input(0).dtype), n=shape[0])


@translates("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def _random(call: Call) -> Value:
    op = "normal" if "Normal" in call.node.op else "uniform"
    if call.node.op.endswith("Like"):
        return _made(call, op, call.input(0).shape, _chosen_dtype(call, call.input(0).dtype))
    shape = tuple(call.ints_attr("shape") or ())
    return _made(call, op, shape, _chosen_dtype(call, "float32"))


@translates("Bernoulli")
def _bernoulli(call: Call) -> Value:
    value = call.input(0)
    return call.emit("bernoulli", [value], value.shape, _chosen_dtype(call, value.dtype))


def _chosen_dtype(call: Call, default: str) -> str:
    number = call.int_attr("dtype", 0)
    return DTYPE_OF_ONNX.get(number, default) if number else default


def _made(call: Call, op: str, shape: tuple[int, ...], dtype: str, **attrs: AttrValue) -> Value:
    held = retyped(dtype, call.builder.precision) if is_float(dtype) else dtype
    return call.emit(op, [], shape, held, carried=attrs)

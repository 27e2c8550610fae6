"""Normalisation and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import MICROSOFT, Call, translates
from perfmodel.capture.onnx.dtypes import is_float
from perfmodel.capture.onnx.rules.elementwise import binary, unary
from perfmodel.capture.onnx.rules.matmul import viewed
from perfmodel.types import Mode, Role


@translates("BatchNormalization")
def _batch_norm(call: Call) -> Sequence[Value | None]:
    value, scale, shift = (call.input(p) for p in range(3))
    if value.rank < 2 or any(call.input(p).shape != value.shape[1:2] for p in range(1, 5)):
        raise call.error(f"normalises {list(value.shape)} by tensors that do not fit its channels")
    mean, variance = (_statistic(call, call.input(p)) for p in (3, 4))
    training = call.mode is Mode.TRAINING
    saved = value.shape[1:2] if training else (0,)
    out, *_ = call.emit_many(
        "native_batch_norm",
        [value, scale, shift, mean, variance],
        [
            (value.shape, call.result_dtype("native_batch_norm", [value])),
            (saved, _accumulated(call, value)),
            (saved, _accumulated(call, value)),
        ],
        training=training,
        # ONNX keeps this share of the old statistic, ATen names the share of the new one.
        momentum=1.0 - call.float_attr("momentum", 0.9),
        eps=call.float_attr("epsilon", 1e-5),
    )
    return [out, mean, variance]


def _statistic(call: Call, value: Value) -> Value:
    """Place a running statistic as a buffer of its own.

    Exporters merge equal initializers, so that a fresh network's statistics and scales may be
    one tensor in the file.
    """
    if value.index >= 0 and value.role is not Role.PARAMETER:
        return value
    return call.builder.source(value.shape, value.dtype, Role.BUFFER)


def _accumulated(call: Call, value: Value) -> str:
    dtype = call.result_dtype("native_batch_norm", [value])
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def layer_norm(
    call: Call, value: Value, scale: Value | None, shift: Value | None, axis: int
) -> list[Value]:
    """Write a layer normalisation over the axes from ``axis`` on."""
    axis = call.axis(axis, value.rank)
    lead = (*value.shape[:axis], *([1] * (value.rank - axis)))
    inner = value.shape[axis:]
    for tensor in (scale, shift):
        if tensor is not None and tensor.size != math.prod(inner):
            raise call.error(f"scales {list(value.shape)} by {list(tensor.shape)}")
    dtype = call.result_dtype("native_layer_norm", [value])
    return call.emit_many(
        "native_layer_norm",
        [value, scale, shift],
        [(value.shape, dtype), (lead, "float32"), (lead, "float32")],
        normalized_shape=inner,
        eps=call.float_attr("epsilon", 1e-5),
    )


@translates("LayerNormalization", domains=("", MICROSOFT))
def _layer_norm(call: Call) -> Sequence[Value]:
    axis = call.int_attr("axis", -1)
    return layer_norm(call, call.input(0), call.input(1), call.optional(2), axis)


def rms_norm(call: Call, value: Value, scale: Value) -> Value:
    """Write a root-mean-square normalisation over the last axes."""
    inner = scale.shape
    lead = (*value.shape[: value.rank - len(inner)], *([1] * len(inner)))
    out, _ = call.emit_many(
        "_fused_rms_norm",
        [value, scale],
        [(value.shape, call.result_dtype("_fused_rms_norm", [value])), (lead, "float32")],
        normalized_shape=inner,
        eps=call.float_attr("epsilon", 1e-5),
    )
    return out


@translates("RMSNormalization", "SimplifiedLayerNormalization", domains=("", MICROSOFT))
def _rms_norm(call: Call) -> Value:
    return rms_norm(call, call.input(0), call.input(1))


@translates("GroupNormalization")
def _group_norm(call: Call) -> Value:
    value, scale, shift = (call.input(p) for p in range(3))
    groups = call.int_attr("num_groups")
    if groups < 1 or value.rank < 2 or value.shape[1] % groups:
        raise call.error(f"splits {list(value.shape)} into {groups} groups")
    if scale.size == groups != value.shape[1]:  # opset 18 to 20 scale per group
        each = (value.shape[1] // groups,)
        full = (groups, *each)
        scale, shift = (
            call.view("expand", viewed(call, v, (groups, 1)), full, mark="expand", size=full)
            for v in (scale, shift)
        )
    return _grouped(call, value, scale, shift, groups)


def _grouped(call: Call, value: Value, scale: Value, shift: Value, groups: int) -> Value:
    batch, channels = value.shape[:2]
    dtype = call.result_dtype("native_group_norm", [value])
    statistics = ((batch, groups), "float32")
    return call.emit_many(
        "native_group_norm",
        [value, scale, shift],
        [(value.shape, dtype), statistics, statistics],
        N=batch,
        C=channels,
        HxW=math.prod(value.shape[2:]),
        group=groups,
        eps=call.float_attr("epsilon", 1e-5),
    )[0]


@translates("GroupNorm", domains=(MICROSOFT,))
def _group_norm_channels_last(call: Call) -> Value:
    value = call.input(0)
    if value.rank != 4:
        raise call.error(f"normalises {list(value.shape)}; four dimensions are expected")
    batch, height, width, channels = value.shape
    first = call.view(
        "permute", value, (batch, channels, height, width), mark="permute", dims=(0, 3, 1, 2)
    )
    out = _grouped(call, first, call.input(1), call.input(2), call.int_attr("groups"))
    if call.int_attr("activation", 0):
        out = unary(call, "silu", out, mark="silu")
    return call.view("permute", out, value.shape, mark="back", dims=(0, 2, 3, 1))


@translates("InstanceNormalization")
def _instance_norm(call: Call) -> Value:
    # Each instance's channel is normalised by itself: a group norm with as many groups.
    value = call.input(0)
    if value.rank < 3 or call.input(1).shape != value.shape[1:2]:
        raise call.error(f"normalises {list(value.shape)}, which has no spatial axes")
    return _grouped(call, value, call.input(1), call.input(2), value.shape[1])


@translates("Softmax", "LogSoftmax")
def _softmax(call: Call) -> Value:
    value = call.input(0)
    name = "_softmax" if call.node.op == "Softmax" else "_log_softmax"
    axis = call.axis(call.int_attr("axis", -1 if call.opset >= 13 else 1), value.rank)
    if call.opset < 13 and axis != value.rank - 1:
        flat = (math.prod(value.shape[:axis]), math.prod(value.shape[axis:]))
        out = softmax(call, viewed(call, value, flat), 1, name)
        return viewed(call, out, value.shape)
    return softmax(call, value, axis, name)


def softmax(call: Call, value: Value, dim: int, name: str = "_softmax") -> Value:
    """Write a softmax along one axis."""
    return call.emit(name, [value], value.shape, dim=dim, half_to_float=False)


@translates("LpNormalization")
def _lp_norm(call: Call) -> Value:
    value = call.input(0)
    axis = call.axis(call.int_attr("axis", -1), value.rank)
    shape = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
    norm = call.emit(
        "linalg_vector_norm", [value], shape, mark="norm", ord=call.int_attr("p", 2), dim=(axis,),
        keepdim=True,
    )  # fmt: skip
    return binary(call, "div", value, norm)


@translates("LRN")
def _local_response(call: Call) -> Value:
    """Write ``x / (k + alpha/n sum x^2) ** beta`` over neighbouring channels."""
    value, size = call.input(0), call.int_attr("size")
    if value.rank != 4 or not is_float(value.dtype):
        raise call.error(f"normalises {list(value.shape)}; four dimensions are expected")
    squares = binary(call, "mul", value, value, mark="square")
    pooled = call.emit(
        "avg_pool3d", [squares], value.shape, mark="pool", kernel_size=(size, 1, 1),
        stride=(1, 1, 1), padding=(size // 2, 0, 0), ceil_mode=False, count_include_pad=True,
    )  # fmt: skip
    scaled = unary(call, "mul", pooled, mark="scale", other=call.float_attr("alpha", 1e-4))
    shifted = unary(call, "add", scaled, mark="shift", other=call.float_attr("bias", 1.0))
    root = unary(call, "pow", shifted, mark="root", exponent=call.float_attr("beta", 0.75))
    return binary(call, "div", value, root)


@translates("SkipLayerNormalization", domains=(MICROSOFT,))
def _skip_layer_norm(call: Call) -> Sequence[Value | None]:
    total = binary(call, "add", call.input(0), call.input(1), mark="add")
    bias = call.optional(4)
    if bias is not None:
        total = binary(call, "add", total, bias, mark="bias")
    out, mean, rstd = layer_norm(call, total, call.input(2), call.optional(3), -1)
    return [out, mean, rstd, total]


@translates("SkipSimplifiedLayerNormalization", domains=(MICROSOFT,))
def _skip_rms_norm(call: Call) -> Sequence[Value | None]:
    total = binary(call, "add", call.input(0), call.input(1), mark="add")
    bias = call.optional(3)
    if bias is not None:
        total = binary(call, "add", total, bias, mark="bias")
    return [rms_norm(call, total, call.input(2)), None, None, total]


@translates("EmbedLayerNormalization", domains=(MICROSOFT,))
def _embed_layer_norm(call: Call) -> Sequence[Value | None]:
    tokens, segments = call.input(0), call.optional(1)
    words = _looked_up(call, call.input(2), tokens)
    places = call.input(3)
    rows = (tokens.shape[1], places.shape[1])
    position = call.view(
        "slice", places, rows, mark="positions", dim=0, start=0, end=rows[0], step=1
    )
    total = binary(call, "add", words, position, mark="add")
    kinds = call.optional(4)
    if segments is not None and kinds is not None:
        total = binary(call, "add", total, _looked_up(call, kinds, segments), mark="add")
    out, _, _ = layer_norm(call, total, call.input(5), call.input(6), -1)
    mask = call.emit("sum", [tokens], tokens.shape[:1], "int32", mark="mask", dim=(1,))
    return [out, mask, total]


def _looked_up(call: Call, table: Value, indices: Value) -> Value:
    shape = (*indices.shape, table.shape[1])
    dtype = call.builder.placed(table).dtype
    return call.emit("embedding", [table, indices], shape, dtype, mark="embedding", padding_idx=-1)

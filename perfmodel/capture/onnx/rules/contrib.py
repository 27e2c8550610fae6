"""Fused operators that ONNX Runtime's optimizer writes into files (``com.microsoft``)."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import MICROSOFT, Call, translates
from perfmodel.capture.onnx.rules.elementwise import binary
from perfmodel.capture.onnx.rules.normalization import layer_norm, rms_norm


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

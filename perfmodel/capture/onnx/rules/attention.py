"""Attention of newer opsets and of ONNX Runtime, as one fused node."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import MICROSOFT, Call, translates
from perfmodel.capture.onnx.rules.elementwise import binary
from perfmodel.capture.onnx.rules.matmul import product, viewed


def heads_first(call: Call, value: Value, heads: int) -> Value:
    """Write (batch, length, heads x width) as (batch, heads, length, width), two views."""
    batch, length, width = value.shape
    if heads < 1 or width % heads:
        raise call.error(f"splits width {width} into {heads} heads")
    value = viewed(call, value, (batch, length, heads, width // heads))
    shape = (batch, heads, length, width // heads)
    return call.view("transpose", value, shape, mark="heads", dim0=1, dim1=2)


def heads_last(call: Call, value: Value) -> Value:
    """Write (batch, heads, length, width) as (batch, length, heads x width)."""
    batch, heads, length, width = value.shape
    value = call.view(
        "transpose", value, (batch, length, heads, width), mark="merge", dim0=1, dim1=2
    )
    return viewed(call, value, (batch, length, heads * width))


def attend(
    call: Call, query: Value, key: Value, value: Value, bias: Value | None, *, causal: bool
) -> Value:
    """Write a scaled dot-product attention of (batch, heads, length, width) tensors."""
    fits = query.rank == key.rank == value.rank == 4 and query.shape[3] == key.shape[3]
    if not fits or key.shape[:3] != value.shape[:3] or query.shape[1] % max(key.shape[1], 1):
        raise call.error(
            f"attends from {list(query.shape)} to {list(key.shape)} and {list(value.shape)}"
        )
    repeats = query.shape[1] // max(key.shape[1], 1)
    if repeats > 1:  # grouped heads: every device kernel broadcasts them
        key, value = (_repeated(call, v, repeats) for v in (key, value))
    shape = (*query.shape[:3], value.shape[3])
    dtype = call.result_dtype("scaled_dot_product_attention", [query])
    out, _ = call.emit_many(
        "scaled_dot_product_attention",
        [query, key, value, bias],
        [(shape, dtype), (query.shape[:3], "float32")],
        dropout_p=0.0,
        is_causal=causal,
    )
    return out


def _repeated(call: Call, value: Value, repeats: int) -> Value:
    batch, heads, length, width = value.shape
    value = viewed(call, value, (batch, heads, 1, length, width))
    full = (batch, heads, repeats, length, width)
    value = call.view("expand", value, full, mark="expand", size=full)
    return viewed(call, value, (batch, heads * repeats, length, width))


def _appended(call: Call, past: Value | None, value: Value) -> Value:
    if past is None or past.rank != 4:
        return value
    shape = (*value.shape[:2], past.shape[2] + value.shape[2], value.shape[3])
    return call.emit("cat", [past, value], shape, mark="cat", dim=2)


@translates("Attention")
def _attention(call: Call) -> Sequence[Value | None]:
    query, key, value = (call.input(p) for p in range(3))
    flat = query.rank == 3
    if flat:
        own, shared = call.int_attr("q_num_heads"), call.int_attr("kv_num_heads")
        query = heads_first(call, query, own)
        key, value = heads_first(call, key, shared), heads_first(call, value, shared)
    key = _appended(call, call.optional(4), key)
    value = _appended(call, call.optional(5), value)
    causal = call.int_attr("is_causal", 0) == 1
    out = attend(call, query, key, value, call.optional(3), causal=causal)
    return [heads_last(call, out) if flat else out, key, value]


@translates("MultiHeadAttention", "GroupQueryAttention", domains=(MICROSOFT,))
def _multi_head(call: Call) -> Sequence[Value | None]:
    grouped = call.node.op == "GroupQueryAttention"
    own = call.int_attr("num_heads")
    shared = call.int_attr("kv_num_heads", own)
    query, key, value = call.input(0), call.optional(1), call.optional(2)
    if query.rank != 3 or key is None or value is None:
        raise call.error("packs query, key and value into one tensor, which is not supported")
    bias = None if grouped else call.optional(3)
    if bias is not None:
        raise call.error("adds a bias to query, key and value, which is not supported")
    query = heads_first(call, query, own)
    key, value = (v if v.rank == 4 else heads_first(call, v, shared) for v in (key, value))
    past = (3, 4) if grouped else (6, 7)
    key = _appended(call, call.optional(past[0]), key)
    value = _appended(call, call.optional(past[1]), value)
    added = None if grouped else call.optional(5)
    out = attend(call, query, key, value, added, causal=grouped)
    return [heads_last(call, out), key, value]


@translates("RotaryEmbedding", domains=("", MICROSOFT))
def _rotated(call: Call) -> Value:
    """Write one kernel that turns heads by their positions; of its tables little is read."""
    value = call.input(0)
    return call.emit("mul", [value], value.shape)


@translates("Attention", domains=(MICROSOFT,))
def _packed_attention(call: Call) -> Sequence[Value | None]:
    value, weight, bias = call.input(0), call.input(1), call.optional(2)
    heads = call.int_attr("num_heads")
    if call.optional(4) is not None or weight.rank != 2 or weight.shape[1] % 3:
        raise call.error("has a past or parts of different width, which are not supported")
    packed = product(call, value, weight)
    if bias is not None:
        packed = binary(call, "add", packed, bias, mark="bias")
    width = weight.shape[1] // 3
    parts = call.emit_many(
        "split_with_sizes", [packed], [((*packed.shape[:-1], width), packed.dtype)] * 3,
        mark="split", view=True, split_sizes=(width,) * 3, dim=-1,
    )  # fmt: skip
    query, key, content = (heads_first(call, p, heads) for p in parts)
    causal = call.int_attr("unidirectional", 0) == 1
    out = attend(call, query, key, content, call.optional(5), causal=causal)
    return [heads_last(call, out)]

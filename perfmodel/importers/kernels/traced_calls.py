"""Kernel records of traced operators: the graph of a call becomes an operator with named extents.

Taken is what a record can say: products, convolutions of images, causal attention without a cache,
softmax, layer normalisation, and point-wise operators over tensors of one size. The time of a call
is the device time of all kernels that it launched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from perfmodel.graph.cost.base import REGISTER, OpClass
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.traces.analysis.operator_work import PricedOperator
from perfmodel.types import Precision

#: What records are of, and how their operands are stored.
_STORED: Mapping[Precision, str] = MappingProxyType(
    {
        Precision.FP32: "float32",
        Precision.TF32: "float32",
        Precision.FP16: "float16",
        Precision.BF16: "bfloat16",
    }
)
#: Point-wise operators with a record of their own; all others are "elementwise".
_POINTWISE = frozenset({"add", "mul", "div", "pow", "relu", "gelu", "tanh"})
_Extents = Mapping[str, float]


class UnnamedCallError(Exception):
    """A call that no kernel record stands for, with the reason."""


def traced_call(one: PricedOperator) -> tuple[str, str, _Extents]:
    """Return operator, type and extents of the record of a call.

    Raises
    ------
    UnnamedCallError
        No record stands for it, or its work is not known.
    """
    if one.graph is None:
        raise UnnamedCallError(one.reason)
    working = [
        node
        for node in one.graph.nodes
        if node.op in REGISTER and REGISTER[node.op].op_class is not OpClass.VIEW
    ]
    if len(working) != 1:
        raise UnnamedCallError("it is made of several operators")
    if one.precision not in _STORED:
        raise UnnamedCallError(f"no record is of {one.precision.value}")
    node = working[0]
    types = {t.dtype for t in one.graph.inputs_of(node) if t.shape}
    if types != {_STORED[one.precision]}:
        raise UnnamedCallError(f"its operands are {' and '.join(sorted(types)) or 'scalars'}")
    op, extents = _named(node, one.graph)
    return op, one.precision.value, extents


def _named(node: Node, graph: Graph) -> tuple[str, _Extents]:
    op = node.op.removesuffix("_")
    reads, writes = graph.inputs_of(node), graph.outputs_of(node)
    if op in _FORMS:
        word, extents = _FORMS[op]
        return word, extents(node, reads, writes)
    if REGISTER[node.op].op_class is OpClass.ELEMENTWISE and not op.startswith("_foreach"):
        return op if op in _POINTWISE else "elementwise", _pointwise(reads, writes)
    raise UnnamedCallError(f"no kernel record stands for {op!r}")


def _product(node: Node, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...]) -> _Extents:
    left, right = reads[-2:]
    if left.shape[-1] != right.shape[-2]:
        raise UnnamedCallError("its operands are in an unusual order")
    found = {"m": left.shape[-2], "n": right.shape[-1], "k": left.shape[-1]}
    return found if len(left.shape) == 2 else {"batch": left.shape[0], **found}


def _convolution(node: Node, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...]) -> _Extents:
    image, weight, result = reads[0], reads[1], writes[0]
    attrs = node.attrs
    plain = (
        len(weight.shape) == 4
        and weight.shape[2] == weight.shape[3]
        and attrs.get("groups") == 1
        and not attrs.get("transposed")
        and set(_pair(attrs.get("dilation"))) == {1}
        and len(set(_pair(attrs.get("stride")))) == len(set(_pair(attrs.get("padding")))) == 1
    )
    if not plain:
        raise UnnamedCallError("records are of square, undilated convolutions in one group")
    return {
        "batch": image.shape[0], "c_in": image.shape[1], "c_out": weight.shape[0],
        "kernel": weight.shape[2], "stride": _pair(attrs["stride"])[0],
        "pad": _pair(attrs["padding"])[0],
        "height_out": result.shape[2], "width_out": result.shape[3],
    }  # fmt: skip


def _pair(value: object) -> tuple[int, ...]:
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()


def _attention(node: Node, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...]) -> _Extents:
    query, key = reads[0], reads[1]
    if not node.attrs.get("is_causal") or query.shape != key.shape or len(query.shape) != 4:
        raise UnnamedCallError("records are of causal attention without a cache")
    batch, heads, tokens, width = query.shape
    return {
        "batch": batch, "heads": heads, "kv_heads": heads, "tokens": tokens, "head_dim": width,
        "context": 0, "kv_element_bytes": query.size_bytes / max(query.element_count, 1),
    }  # fmt: skip


def _rows(node: Node, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...]) -> _Extents:
    return _folded(reads[0])


def _folded(tensor: Tensor) -> dict[str, float]:
    """Return the extents of a tensor folded into rows of its last dimension."""
    if not tensor.shape or not tensor.element_count:
        raise UnnamedCallError("its tensors are scalars or empty")
    return {"rows": math.prod(tensor.shape[:-1]), "width": tensor.shape[-1]}


def _pointwise(reads: tuple[Tensor, ...], writes: tuple[Tensor, ...]) -> _Extents:
    full = [tensor for tensor in reads if tensor.shape == writes[0].shape]
    if len(full) != len([tensor for tensor in reads if tensor.shape]):
        raise UnnamedCallError("its operands are of different sizes")
    return {**_folded(writes[0]), "inputs": len(full)}


_FORMS: Mapping[str, tuple[str, Callable[..., _Extents]]] = MappingProxyType(
    {
        "mm": ("gemm", _product),
        "addmm": ("gemm", _product),
        "bmm": ("bmm", _product),
        "convolution": ("conv2d", _convolution),
        "scaled_dot_product_attention": ("attention_prefill", _attention),
        "_softmax": ("softmax", _rows),
        "native_layer_norm": ("layer_norm", _rows),
    }
)

"""Tensors and nodes: what graphs are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from perfmodel.types import Phase, Role

#: Bytes of one element of each dtype a tensor may have (PyTorch names).
DTYPE_BYTES: Mapping[str, float] = MappingProxyType(
    {
        "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
        "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
        "complex64": 8, "complex128": 16, "complex32": 4,
        "int64": 8, "int32": 4, "int16": 2, "int8": 1,
        "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
        "int4": 0.5, "uint4": 0.5,
    }
)  # fmt: skip

#: What an attribute value may be: JSON scalars and (nested) tuples of them.
AttrValue = bool | int | float | str | None | tuple["AttrValue", ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """One tensor of a step.

    Parameters
    ----------
    shape : tuple of int
        Extents, each >= 0; ``()`` for a scalar.
    dtype : str
        A key of :data:`DTYPE_BYTES`.
    storage : int
        Tensors with an equal number share one allocation (views, in-place results).
    """

    shape: tuple[int, ...]
    dtype: str
    role: Role
    storage: int

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements, dense."""
        return math.ceil(self.element_count * DTYPE_BYTES[self.dtype])


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One operator call.

    Parameters
    ----------
    op : str
        Operator name in ATen's vocabulary without namespace and overload: ``"convolution"``,
        ``"addmm"``, ``"relu_"``. ONNX operators are translated into it. Custom operators keep
        their namespace: ``"mylib::fused_thing"``.
    inputs : tuple of int
        Positions in :attr:`Graph.tensors`, in argument order.
    outputs : tuple of int
        Positions in :attr:`Graph.tensors`, each produced by this node alone.
    attrs : mapping of str to AttrValue
        Non-tensor arguments by the name that the operator's schema gives them
        (``stride``, ``padding``, ``groups``, ``dim``, ...).
    name : str
        Where it comes from (module path); for people, not part of the hash.
    """

    op: str
    phase: Phase
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: Mapping[str, AttrValue] = field(default_factory=lambda: MappingProxyType({}))
    name: str = ""


# A frozen dataclass asks for each field whether it may be set, twice as long as setting it takes.
# Captures and files bring thousands of tensors and nodes, which these two make.
_set_shape = Tensor.__dict__["shape"].__set__
_set_dtype = Tensor.__dict__["dtype"].__set__
_set_role = Tensor.__dict__["role"].__set__
_set_storage = Tensor.__dict__["storage"].__set__
_set_op = Node.__dict__["op"].__set__
_set_phase = Node.__dict__["phase"].__set__
_set_inputs = Node.__dict__["inputs"].__set__
_set_outputs = Node.__dict__["outputs"].__set__
_set_attrs = Node.__dict__["attrs"].__set__
_set_name = Node.__dict__["name"].__set__
_new = object.__new__


def make_tensor(shape: tuple[int, ...], dtype: str, role: Role, storage: int) -> Tensor:
    """Return a :class:`Tensor`, in half the time of its constructor."""
    tensor = _new(Tensor)
    _set_shape(tensor, shape)
    _set_dtype(tensor, dtype)
    _set_role(tensor, role)
    _set_storage(tensor, storage)
    return tensor


def make_node(
    op: str,
    phase: Phase,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    attrs: Mapping[str, AttrValue],
    name: str,
) -> Node:
    """Return a :class:`Node`, in half the time of its constructor."""
    node = _new(Node)
    _set_op(node, op)
    _set_phase(node, phase)
    _set_inputs(node, inputs)
    _set_outputs(node, outputs)
    _set_attrs(node, attrs)
    _set_name(node, name)
    return node

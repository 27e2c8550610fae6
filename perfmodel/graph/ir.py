"""The Graph: operators and tensors of one step, and their canonical form.

A :class:`Graph` is a value. Nodes stand in program order and refer to tensors by position.
An operator that works in place, and a view, produce a *new* tensor that shares its
``storage`` with the old one, so that edges stay a DAG and memory is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InvalidGraphError
from perfmodel.graph.kinds import Kinds, kinds_of
from perfmodel.graph.unread import looked_into
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
    role : Role
        What the tensor is to the step.
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
    phase : Phase
        Forward, backward or optimizer.
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


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Operators and tensors of one step.

    Parameters
    ----------
    nodes : tuple of Node
        In program order: a node comes after the producers of its inputs.
    tensors : tuple of Tensor
        Referred to by position.
    source : mapping of str to str
        Where the graph comes from (``model``, ``torch``, ...); for people, not in the hash.

    Raises
    ------
    InvalidGraphError
        An index out of range, a tensor with two producers, a use before its production, an
        unknown dtype or a negative extent.
    """

    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...]
    source: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        _check(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Read a graph that was left unread so far."""
            return looked_into(self, name)

    @cached_property
    def content_hash(self) -> str:
        """Hash of what the graph computes; names and order of independent nodes do not matter."""
        from perfmodel.graph.canonical import content_hash

        return content_hash(self)

    @cached_property
    def kinds(self) -> Kinds:
        """Which of its tensors and nodes are alike."""
        return kinds_of(self)

    @cached_property
    def producer(self) -> tuple[int, ...]:
        """For each tensor the position of the node that produces it, or -1."""
        producer = [-1] * len(self.tensors)
        for position, node in enumerate(self.nodes):
            for index in node.outputs:
                producer[index] = position
        return tuple(producer)

    def inputs_of(self, node: Node) -> tuple[Tensor, ...]:
        """Input tensors of a node, in argument order."""
        return tuple(self.tensors[i] for i in node.inputs)

    def outputs_of(self, node: Node) -> tuple[Tensor, ...]:
        """Output tensors of a node."""
        return tuple(self.tensors[i] for i in node.outputs)

    def storage_bytes(self, role: Role) -> int:
        """Bytes of all distinct storages whose first tensor has a role.

        Parameters
        ----------
        role : Role
            For example :attr:`Role.PARAMETER`.

        Returns
        -------
        int
            Bytes; a storage seen through several views counts once, by its largest view.
        """
        return self._bytes_by_role.get(role, 0)

    @cached_property
    def _bytes_by_role(self) -> Mapping[Role, int]:
        first: dict[int, Role] = {}
        size: dict[int, int] = {}
        of_kind = [self.tensors[index].size_bytes for index in self.kinds.first_tensors]
        for tensor, kind in zip(self.tensors, self.kinds.tensors, strict=True):
            known = size.get(tensor.storage)
            if known is None:
                first[tensor.storage] = tensor.role
            if known is None or of_kind[kind] > known:
                size[tensor.storage] = of_kind[kind]
        total: dict[Role, int] = {}
        for storage, role in first.items():
            total[role] = total.get(role, 0) + size[storage]
        return total

    @property
    def parameter_count(self) -> int:
        """Number of distinct parameters (elements), shared ones once."""
        seen: dict[int, int] = {}
        for tensor in self.tensors:
            if tensor.role is Role.PARAMETER:
                seen.setdefault(tensor.storage, tensor.element_count)
        return sum(seen.values())


def _check(graph: Graph) -> None:
    count = len(graph.tensors)
    for index, tensor in enumerate(graph.tensors):
        if tensor.dtype not in DTYPE_BYTES:
            raise InvalidGraphError(
                f"Tensor {index} has the unknown dtype {tensor.dtype!r}; use one of "
                f"{', '.join(DTYPE_BYTES)}.",
                pointer=f"/tensors/{index}",
            )
        if tensor.shape and min(tensor.shape) < 0:
            raise InvalidGraphError(
                f"Tensor {index} has the shape {tensor.shape}; every extent must be >= 0.",
                pointer=f"/tensors/{index}",
            )
    produced_at: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        for index in (*node.inputs, *node.outputs):
            if not 0 <= index < count:
                raise InvalidGraphError(
                    f"Node {position} ({node.op}) refers to tensor {index}, but there are "
                    f"{count} tensors.",
                    pointer=f"/nodes/{position}",
                )
        for index in node.outputs:
            if index in produced_at:
                raise InvalidGraphError(
                    f"Tensor {index} is produced by node {produced_at[index]} and again by node "
                    f"{position} ({node.op}); an in-place result must be a new tensor that "
                    "shares its storage.",
                    pointer=f"/nodes/{position}",
                )
            produced_at[index] = position
    for position, node in enumerate(graph.nodes):
        for index in node.inputs:
            if produced_at.get(index, -1) >= position:
                raise InvalidGraphError(
                    f"Node {position} ({node.op}) reads tensor {index}, which node "
                    f"{produced_at[index]} produces later; nodes must stand in program order "
                    "and form no cycle.",
                    pointer=f"/nodes/{position}",
                )

"""Grow a Graph node by node: tensors, storages, names, autocast."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfmodel.capture.onnx.autocast import cast_target, retyped
from perfmodel.capture.onnx.dtypes import is_float, widest_float
from perfmodel.capture.onnx.reading.limits import OnnxLimits
from perfmodel.errors import UnsupportedOnnxError
from perfmodel.graph.ir import DTYPE_BYTES, AttrValue, Graph, Node, Tensor
from perfmodel.types import Phase, Precision, Role

#: Between the ONNX node's name and the mark of a further node that it needed.
NAME_MARK = "#"


def onnx_node_name(name: str) -> str:
    """Return the name of the ONNX node that a node of the Graph comes from.

    One ONNX node may become several nodes (a view, the product, a view). The one that does
    the work bears the ONNX name, the others bear it followed by ``#`` and a mark; nodes of
    the backward pass and of the optimizer follow the same rule.

    Examples
    --------
    >>> onnx_node_name("/layer1/MatMul#view")
    '/layer1/MatMul'
    """
    return name.partition(NAME_MARK)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What a name of the ONNX graph stands for while the graph is followed.

    Parameters
    ----------
    dtype : str
        PyTorch name.
    index : int
        Position among the Graph's tensors; -1 for a value that lives only in shape
        arithmetic so far.
    known : numpy.ndarray or None
        The elements, where they are known before the graph runs.
    items : tuple of Value or None
        Elements of an ONNX sequence.
    role : Role
        What it becomes when an operator reads it and it is no tensor of the Graph yet.
    """

    shape: tuple[int, ...]
    dtype: str
    index: int = -1
    known: np.ndarray | None = None
    items: tuple[Value, ...] | None = None
    role: Role = Role.CONSTANT

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Spec = tuple[tuple[int, ...], str]


class GraphBuilder:
    """Collects the nodes and tensors of a Graph.

    Parameters
    ----------
    precision : Precision or None
        Re-types floats; None leaves the file's types.
    """

    def __init__(self, limits: OnnxLimits, precision: Precision | None) -> None:
        self.limits = limits
        self.precision = precision
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.phase = Phase.FORWARD
        self._storages = 0
        self._names: dict[str, int] = {}
        self._constants: dict[int, tuple[Value, Value]] = {}
        self._casts: dict[tuple[int, str], Value] = {}

    def tensor(
        self, shape: Sequence[int], dtype: str, role: Role, *, view_of: int | None = None
    ) -> Value:
        """Add a tensor, in its own storage or in another's.

        Raises
        ------
        UnsupportedOnnxError
            Larger than the limits allow.
        """
        shape = tuple(shape)
        self._check_size(shape, dtype)
        if view_of is None:
            storage, self._storages = self._storages, self._storages + 1
        else:
            storage = self.tensors[view_of].storage
        self.tensors.append(Tensor(shape=shape, dtype=dtype, role=role, storage=storage))
        return Value(shape, dtype, len(self.tensors) - 1)

    def source(self, shape: Sequence[int], dtype: str, role: Role) -> Value:
        """Add a tensor that comes from outside, in the precision asked for."""
        return self.tensor(shape, retyped(dtype, self.precision), role)

    def placed(self, value: Value) -> Value:
        """Return a value as a tensor of the Graph; one from the file gets its place now."""
        if value.index >= 0:
            return value
        held = self._constants.get(id(value))
        if held is None:  # the key's owner is held too, so that its id is not used again
            held = (value, self.source(value.shape, value.dtype, value.role))
            self._constants[id(value)] = held
        return held[1]

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Spec],
        attrs: Mapping[str, AttrValue] | None = None,
        *,
        name: str = "",
        view: bool = False,
    ) -> list[Value]:
        """Add a node.

        Parameters
        ----------
        inputs : sequence of Value or None
            In ATen's order; None is left out.
        outputs : sequence of (shape, dtype)
        view : bool
            Outputs share the first input's storage and role.
        """
        placed = [self.placed(v) for v in inputs if v is not None]
        if self.phase is Phase.FORWARD and not view:
            placed = self._autocast(op, placed, name)
        shares = placed[0].index if view and placed else None
        role = Role.ACTIVATION if shares is None else self.tensors[shares].role
        results = [self.tensor(s, d, role, view_of=shares) for s, d in outputs]
        self._append(op, placed, results, attrs or {}, name)
        return results

    def emit_each(
        self,
        op: str,
        inputs: Sequence[Value],
        outputs: Sequence[Spec],
        attrs: Mapping[str, AttrValue],
    ) -> list[Value]:
        """Add an operator over a list of tensors; ``_`` at the end of its name updates them.

        Parameters
        ----------
        inputs : sequence of Value
            The list, then further lists, one after the other.
        outputs : sequence of (shape, dtype)
            One for each tensor of the first list.
        """
        results = []
        for value, (shape, dtype) in zip(inputs, outputs, strict=False):
            if op.endswith("_"):
                role = self.tensors[value.index].role
                results.append(self.tensor(shape, dtype, role, view_of=value.index))
            else:
                results.append(self.tensor(shape, dtype, Role.ACTIVATION))
        self._append(op, inputs, results, attrs, f"optimizer{NAME_MARK}{op}")
        return results

    def value(self, index: int) -> Value:
        """Return a tensor of the Graph as a value."""
        tensor = self.tensors[index]
        return Value(tensor.shape, tensor.dtype, index)

    def float_dtype(self, op: str, inputs: Sequence[Value | None], otherwise: str) -> str:
        """Return the dtype in which an operator answers, autocast included."""
        dtypes = [
            retyped(v.dtype, self.precision) if v.index < 0 else v.dtype
            for v in inputs
            if v is not None and (v.rank > 0 or len(inputs) == 1)
        ]
        widest = widest_float(dtypes)
        if widest is None:
            return otherwise
        return cast_target(op, self.precision, widest) or widest

    def _autocast(self, op: str, placed: list[Value], name: str) -> list[Value]:
        return [
            self._cast(v, target, name)
            if (target := cast_target(op, self.precision, v.dtype))
            else v
            for v in placed
        ]

    def _cast(self, value: Value, dtype: str, name: str) -> Value:
        if value.dtype == dtype or not is_float(value.dtype):
            return value
        held = self._casts.get((value.index, dtype))
        if held is None:
            held = self.tensor(value.shape, dtype, Role.ACTIVATION)
            self._append("_to_copy", [value], [held], {"dtype": dtype}, f"{name}{NAME_MARK}cast")
            self._casts[value.index, dtype] = held
        return held

    def _append(
        self,
        op: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        attrs: Mapping[str, AttrValue],
        name: str,
    ) -> None:
        if len(self.nodes) >= self.limits.max_graph_nodes:
            raise UnsupportedOnnxError(
                f"The ONNX file leads to more than {self.limits.max_graph_nodes:,} nodes. Raise "
                "OnnxLimits.max_graph_nodes if you mean it."
            )
        self.nodes.append(
            Node(
                op=op,
                phase=self.phase,
                inputs=tuple(v.index for v in inputs),
                outputs=tuple(v.index for v in outputs),
                attrs=MappingProxyType(dict(attrs)),
                name=self._unique(name),
            )
        )

    def _unique(self, name: str) -> str:
        candidate = name
        while candidate in self._names:
            self._names[name] = self._names.get(name, 1) + 1
            separator = "." if NAME_MARK in name else NAME_MARK
            candidate = f"{name}{separator}{self._names[name]}"
        self._names[candidate] = 1
        return candidate

    def _check_size(self, shape: tuple[int, ...], dtype: str) -> None:
        if dtype not in DTYPE_BYTES:
            raise UnsupportedOnnxError(f"A tensor of the ONNX file has the dtype {dtype!r}.")
        if any(extent < 0 for extent in shape) or len(shape) > self.limits.max_rank:
            raise UnsupportedOnnxError(
                f"The ONNX file leads to a tensor of shape {list(shape)}; every extent must be "
                f">= 0 and there may be {self.limits.max_rank} of them."
            )
        if math.prod(shape) * DTYPE_BYTES[dtype] > self.limits.max_tensor_bytes:
            raise UnsupportedOnnxError(
                f"The ONNX file leads to a tensor of shape {list(shape)} {dtype}, more than "
                f"{self.limits.max_tensor_bytes:,} bytes. No accelerator holds it; correct the "
                "file or the dimensions."
            )

    def build(self, source: Mapping[str, str]) -> Graph:
        """Return the Graph collected so far."""
        return Graph(
            nodes=tuple(self.nodes),
            tensors=tuple(self.tensors),
            source=MappingProxyType(dict(source)),
        )

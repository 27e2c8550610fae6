"""A graph that was captured in one precision, as it is in another one.

Models are captured in the precision that is asked for. A graph that somebody brings has the types
that it was made with; asked for in another precision it is the same program on other types:

- all in one type (fp32, fp16, bf16): every number of the old type becomes one of the new;
- autocast (``amp_*``): parameters, gradients and the optimizer stay as they are. Products,
  convolutions and attention compute in 16 bits, with a copy of each wider operand before them;
  softmax in 32; everything else in what it is given.

A graph that mixes types already says itself how it computes, and stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from perfmodel.graph.cost.base import PRODUCTS, REGISTER, OpClass
from perfmodel.graph.cost.cost_table import cost_of
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.node import Node, Tensor
from perfmodel.types import Precision, Role

#: The type that each precision computes in; how units treat it is no matter of the graph.
_DTYPES: Mapping[Precision, str] = MappingProxyType(
    {
        Precision.FP32: "float32",
        Precision.TF32: "float32",
        Precision.FP16: "float16",
        Precision.AMP_FP16: "float16",
        Precision.BF16: "bfloat16",
        Precision.AMP_BF16: "bfloat16",
        Precision.FP8: "bfloat16",
        Precision.INT8: "bfloat16",
    }
)
_WIDE = "float32"
_FLOATS = ("float32", "float16", "bfloat16")
#: What operands of eight bits are computed in; a type is one of them by how its name begins.
_IN_8_BITS: Mapping[str, Precision] = MappingProxyType(
    {"int8": Precision.INT8, "uint8": Precision.INT8, "float8": Precision.FP8}
)
#: Types that no precision stands for.
_WIDER = ("float64", "complex64", "complex128")
_WIDENED = (OpClass.SOFTMAX,)
#: What training keeps in its own type under autocast.
_KEPT = (Role.PARAMETER, Role.GRADIENT, Role.OPTIMIZER_STATE, Role.BUFFER)


def in_precision(graph: Graph, precision: Precision) -> Graph:
    """Return a graph as it is in a precision; itself where that is its own, or cannot be told."""
    (own, *others) = sorted(_types(graph)) or [""]
    wanted = _DTYPES[precision]
    if others or not own:
        return graph
    if precision.is_autocast:
        return _autocast(graph, wanted) if own == _WIDE else graph
    return graph if own == wanted else _retyped(graph, own, wanted)


def as_it_computes(job: Job, graph: Graph, stated: Mapping[str, Any]) -> Job:
    """Return the job of a graph in the graph's own precision, where none was stated."""
    if stated.get("precision") is not None or job.mixed_precision is not None:
        return job
    return replace(job, precision=own_precision(graph) or job.precision)


def own_precision(graph: Graph) -> Precision | None:
    """Return the precision that a graph does most of its products in; None where it has none.

    Products in 16 bits are those of autocast where parameters are kept in 32. Both operands of a
    product in 8 bits have as many, or had until they were widened for it.
    """
    narrow = _products_in_8_bits(graph)
    work: defaultdict[Precision | str, float] = defaultdict(float)
    for node in _products(graph):
        cost = cost_of(node, graph)
        dtypes = [graph.tensors[i].dtype for i in node.inputs]
        computed = next((one for one in dtypes if one in _FLOATS), "")
        work[narrow.get(node.outputs, computed)] += cost.flops if cost else 0
    most = max(work, key=lambda one: work[one], default="")
    if isinstance(most, Precision) or most not in _FLOATS:
        return most if isinstance(most, Precision) else None
    is_autocast = most != _WIDE and _keeps_wide(graph)
    return next(
        one for one, computed in _DTYPES.items()
        if computed == most and one.is_autocast is is_autocast
    )  # fmt: skip


def narrow_types(graph: Graph) -> list[Precision]:
    """Return the precisions of eight bits that products of a graph are in."""
    return sorted({*_products_in_8_bits(graph).values()})


def _products_in_8_bits(graph: Graph) -> dict[tuple[int, ...], Precision]:
    """Return the products whose operands have eight bits each, or had before they were widened.

    Returns
    -------
    dict
        In what they compute, by their outputs.
    """
    widened = {
        node.outputs[0]: graph.tensors[node.inputs[0]].dtype
        for node in graph.nodes
        if node.op == "_to_copy" and node.inputs and node.outputs
    }
    found = {}
    for node in _products(graph):
        operands = [i for i in node.inputs if len(graph.tensors[i].shape) > 1][:2]
        each = [
            _in_8_bits(graph.tensors[i].dtype) or _in_8_bits(widened.get(i, "")) for i in operands
        ]
        if each and each[0] is not None and None not in each:
            found[node.outputs] = each[0]
    return found


def _in_8_bits(dtype: str) -> Precision | None:
    return next((one for name, one in _IN_8_BITS.items() if dtype.startswith(name)), None)


def wider_types(graph: Graph) -> list[str]:
    """Return the types of products that are answered as if they were fp32."""
    used = {graph.tensors[i].dtype for node in _products(graph) for i in node.inputs}
    return sorted(used.intersection(_WIDER))


def may_differ(canonical: bytes, precision: Precision) -> bool:
    """Whether a graph, as canonical JSON, may have other types than a precision has.

    Told without reading it, so that most graphs need not be read.
    """
    if any(f'"{dtype}"'.encode() in canonical for dtype in (*_WIDER, "int8", "uint8")):
        return True
    if b'"float8' in canonical:
        return True
    if _DTYPES[precision] == _WIDE:
        return any(f'"{dtype}"'.encode() in canonical for dtype in _FLOATS if dtype != _WIDE)
    return f'"{_DTYPES[precision]}"'.encode() not in canonical


def _types(graph: Graph) -> set[str]:
    """Return the types of what products and convolutions read and write."""
    used: set[str] = set()
    for node in _products(graph):
        used.update(graph.tensors[i].dtype for i in (*node.inputs, *node.outputs))
    return used & set(_FLOATS)


def _products(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if _class(node) in PRODUCTS)


def _keeps_wide(graph: Graph) -> bool:
    """Whether most bytes of the parameters are fp32."""
    parameters = [one for one in graph.tensors if one.role is Role.PARAMETER]
    wide = sum(one.size_bytes for one in parameters if one.dtype == _WIDE)
    return 2 * wide > sum(one.size_bytes for one in parameters)


def _class(node: Node) -> OpClass | None:
    known = REGISTER.get(node.op)
    return known.op_class if known else None


def _retyped(graph: Graph, own: str, wanted: str) -> Graph:
    tensors = (replace(t, dtype=wanted) if t.dtype == own else t for t in graph.tensors)
    return Graph(nodes=graph.nodes, tensors=tuple(tensors), source=graph.source)


def _autocast(graph: Graph, narrow: str) -> Graph:
    first = 1 + max((tensor.storage for tensor in graph.tensors), default=0)
    cast = _Autocast(narrow=narrow, tensors=list(graph.tensors), free_storage=first)
    for node in graph.nodes:
        cast.add(node)
    return Graph(nodes=tuple(cast.nodes), tensors=tuple(cast.tensors), source=graph.source)


@dataclass(kw_only=True)
class _Autocast:
    """Types of tensors under autocast, found node by node; copies are added where types change.

    Parameters
    ----------
    free_storage : int
        The next number that no tensor has.
    copies : dict of int to int
        The 16-bit copy of a tensor, by its position.
    """

    narrow: str
    tensors: list[Tensor]
    free_storage: int
    nodes: list[Node] = field(default_factory=list)
    copies: dict[int, int] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        """Append a node in the type that autocast runs it in."""
        op_class = _class(node)
        if op_class in PRODUCTS:
            inputs = tuple(self._narrowed(i, node) for i in node.inputs)
            self._append(replace(node, inputs=inputs), self.narrow)
        elif op_class in _WIDENED or not self._is_narrow(node):
            self._append(node, _WIDE)
        else:
            self._append(node, self.narrow)

    def _append(self, node: Node, dtype: str) -> None:
        """Append a node; what training keeps wide is copied from what it computes in 16 bits."""
        outputs = list(node.outputs)
        back: list[Node] = []
        for place, i in enumerate(node.outputs):
            tensor = self.tensors[i]
            if tensor.dtype != _WIDE or dtype == _WIDE:
                continue
            if tensor.role in _KEPT:
                outputs[place] = self._new(tensor)
                back.append(_copy(outputs[place], i, node))
            else:
                self.tensors[i] = replace(tensor, dtype=dtype)
        self.nodes += [replace(node, outputs=tuple(outputs)), *back]

    def _is_narrow(self, node: Node) -> bool:
        """Whether all numbers that a node is given to work on have 16 bits."""
        given = [self.tensors[i] for i in node.inputs]
        floats = [t.dtype for t in given if t.dtype in _FLOATS and t.role not in _KEPT]
        return bool(floats) and all(dtype == self.narrow for dtype in floats)

    def _narrowed(self, i: int, node: Node) -> int:
        if self.tensors[i].dtype != _WIDE:
            return i
        if i not in self.copies:
            self.copies[i] = self._new(self.tensors[i])
            self.nodes.append(_copy(i, self.copies[i], node))
        return self.copies[i]

    def _new(self, like: Tensor) -> int:
        self.tensors.append(
            replace(like, dtype=self.narrow, role=Role.ACTIVATION, storage=self.free_storage)
        )
        self.free_storage += 1
        return len(self.tensors) - 1


def _copy(source: int, target: int, beside: Node) -> Node:
    return Node(op="_to_copy", phase=beside.phase, inputs=(source,), outputs=(target,))

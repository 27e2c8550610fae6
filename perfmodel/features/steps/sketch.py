"""The StepSketch: what predictors need to know of a graph, and nothing more.

One row per class of equal nodes, with how often it occurs. Beside the facts of the node itself a
row holds those of its neighbourhood (which classes wrote what it reads, which read what it
writes), and what would be left of it in a compiler that fuses. Views are left out: they do no
work. A sketch does not depend on a device and is small (some 30 kB), so that sketches of many
thousand steps fit in memory.

The fused part is that of a simple rule: neighbouring nodes of the fusible classes form one
kernel; only what enters or leaves the kernel is memory traffic. It is a feature to learn from,
not a claim about a compiler.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.dataflow import Dataflow
from perfmodel.features.nodes import OP_CLASSES, STATIC_COLUMNS, NodeTable, node_table
from perfmodel.features.operand_shapes import NO_RECURSION, recursion
from perfmodel.graph.cost.base import PRODUCTS, OpClass
from perfmodel.graph.ir import Graph
from perfmodel.types import Role

#: Raised when the meaning of a row changes; stored sketches of another version are made again.
SKETCH_VERSION = 1

_CODE = {op_class: code for code, op_class in enumerate(OP_CLASSES)}
_CLASSES = len(OP_CLASSES)
_FUSIBLE = np.isin(
    np.arange(_CLASSES),
    [
        _CODE[c]
        for c in (
            OpClass.ELEMENTWISE,
            OpClass.NORMALIZATION,
            OpClass.SOFTMAX,
            OpClass.REDUCTION,
            OpClass.MOVEMENT,
            OpClass.CREATION,
        )
    ],
)
_CONTRACTION_CODES = [_CODE[c] for c in PRODUCTS]
_RECURRENT = _CODE[OpClass.RECURRENT]
#: Under which name it lies with its graph.
_KEPT = "_step_sketch"
#: Shares are kept in steps of one eighth: equal blocks of a deep network then have equal rows.
_SHARE_STEPS = 8.0

NEIGHBOUR_COLUMNS: tuple[str, ...] = (
    *(f"reads_from_{c.value}" for c in OP_CLASSES if c is not OpClass.VIEW),
    "reads_given",
    "reads_state",
    *(f"read_by_{c.value}" for c in OP_CLASSES if c is not OpClass.VIEW),
    "read_by_none",
)
ROLE_COLUMNS: tuple[Role, ...] = (
    Role.PARAMETER, Role.BUFFER, Role.ACTIVATION, Role.GRADIENT, Role.OPTIMIZER_STATE, Role.INPUT,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StepSketch:
    """The distinct nodes of one step, device aside.

    Parameters
    ----------
    ops : tuple of str
        Operator name of each row.
    static : ndarray of float32, shape (rows, len(STATIC_COLUMNS))
    neighbours : ndarray of float32, shape (rows, len(NEIGHBOUR_COLUMNS))
        Shares in [0, 1] of the bytes a node reads, and of the reads of what it writes.
    count : ndarray, shape (rows,)
        How many nodes of the graph each row stands for.
    flops, traffic_bytes, fused_bytes : ndarray, shape (rows,)
        Work of one node; traffic alone, and inside a fused kernel.
    fused_launch : ndarray, shape (rows,)
        One over the number of nodes of its fused kernel.
    op_class, phase : ndarray of int8, shape (rows,)
        Codes of :data:`~perfmodel.features.nodes.OP_CLASSES` and ``PHASES``.
    matrix, priced : ndarray of bool, shape (rows,)
    recursion : ndarray, shape (rows, 2)
        Steps that wait for each other and bytes read again, see
        :class:`~perfmodel.features.operand_shapes.Recursion`.
    role_bytes : ndarray, shape (len(ROLE_COLUMNS),)
        Bytes of distinct storages by role.
    class_of_node : ndarray of int64, shape (nodes,)
        Row of every node of the graph; -1 for views. Empty in a sketch read back from a file.
    """

    content_hash: str
    ops: tuple[str, ...]
    static: npt.NDArray[np.float32]
    neighbours: npt.NDArray[np.float32]
    count: FloatArray
    flops: FloatArray
    traffic_bytes: FloatArray
    fused_bytes: FloatArray
    fused_launch: FloatArray
    op_class: npt.NDArray[np.int8]
    phase: npt.NDArray[np.int8]
    matrix: npt.NDArray[np.bool_]
    priced: npt.NDArray[np.bool_]
    recursion: FloatArray
    role_bytes: FloatArray
    view_count: int
    class_of_node: IntArray

    def column(self, name: str) -> npt.NDArray[np.float32]:
        """Return one static column by name."""
        return self.static[:, STATIC_COLUMNS.index(name)]

    def to_arrays(self) -> dict[str, Any]:
        """Return plain arrays, for a file."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "class_of_node"}
        arrays["ops"] = np.array(self.ops, dtype=np.str_)
        return {name: np.asarray(value) for name, value in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> StepSketch:
        """Read back what :meth:`to_arrays` gave.

        Raises
        ------
        KeyError
            Something is missing.
        """
        values = {f.name: arrays[f.name] for f in fields(cls) if f.name != "class_of_node"}
        values["ops"] = tuple(str(op) for op in values["ops"])
        values["content_hash"] = str(values["content_hash"])
        values["view_count"] = int(values["view_count"])
        return cls(**values, class_of_node=np.zeros(0, dtype=np.int64))


def step_sketch(graph: Graph) -> StepSketch:
    """Return the sketch of a graph; computed once and kept with it."""
    kept = graph.__dict__.get(_KEPT)
    if isinstance(kept, StepSketch):
        return kept
    sketch = _build(graph)
    keep_sketch(graph, sketch)
    return sketch


def keep_sketch(graph: Graph, sketch: StepSketch) -> None:
    """Lay down what :func:`step_sketch` would make of a graph."""
    graph.__dict__[_KEPT] = sketch


def _build(graph: Graph) -> StepSketch:
    table = node_table(graph)
    flow, size = table.flow, table.size_bytes
    neighbours = _neighbours(graph, table, flow, size)
    fused, launch = _fused(table, flow, size)
    kept = np.flatnonzero(~table.is_view)
    first, row, count = _distinct(table, neighbours, fused, launch, kept)
    chosen = kept[first]
    class_of_node = np.full(table.node_count, -1, dtype=np.int64)
    class_of_node[kept] = row
    cost = table.cost
    return StepSketch(
        content_hash=graph.content_hash,
        ops=tuple(table.ops[node] for node in chosen),
        static=table.static[chosen],
        neighbours=neighbours[chosen],
        count=count.astype(np.float64),
        flops=np.asarray(cost.flops, dtype=np.float64)[chosen],
        traffic_bytes=table.traffic_bytes[chosen],
        fused_bytes=fused[chosen],
        fused_launch=launch[chosen],
        op_class=np.asarray(cost.op_class, dtype=np.int8)[chosen],
        phase=np.asarray(cost.phase, dtype=np.int8)[chosen],
        matrix=np.asarray(cost.engine_is_matrix, dtype=np.bool_)[chosen],
        priced=np.asarray(cost.priced, dtype=np.bool_)[chosen],
        recursion=_recursions(graph, chosen, np.asarray(cost.op_class)[chosen]),
        role_bytes=_role_bytes(graph, size),
        view_count=int(np.count_nonzero(table.is_view)),
        class_of_node=class_of_node,
    )


def _recursions(graph: Graph, nodes: IntArray, op_class: npt.NDArray[np.int8]) -> FloatArray:
    found = np.zeros((len(nodes), len(NO_RECURSION)))
    for place in np.flatnonzero(op_class == _RECURRENT):
        node = graph.nodes[nodes[place]]
        found[place] = recursion(node, tuple(graph.tensors[index] for index in node.inputs))
    return found


def _role_bytes(graph: Graph, size: FloatArray) -> FloatArray:
    """Bytes of distinct storages by role, as ``Graph.storage_bytes`` gives them one by one."""
    roles = _roles_of_kinds(graph)
    storages = np.array([tensor.storage for tensor in graph.tensors], dtype=np.int64)
    _, first, place = np.unique(storages, return_index=True, return_inverse=True)
    largest = np.zeros(len(first))
    np.maximum.at(largest, place, size)
    role = _of_tensors(graph, [ROLE_COLUMNS.index(r) if r in ROLE_COLUMNS else -1 for r in roles])
    return np.array([largest[role[first] == i].sum() for i in range(len(ROLE_COLUMNS))])


def _roles_of_kinds(graph: Graph) -> list[Role]:
    return [graph.tensors[index].role for index in graph.kinds.first_tensors]


def _of_tensors(graph: Graph, of_kinds: list[int] | list[bool]) -> npt.NDArray[Any]:
    """Spread facts of kinds of tensors over all tensors."""
    return np.array(of_kinds)[np.array(graph.kinds.tensors, dtype=np.int64)]


def _distinct(
    table: NodeTable,
    neighbours: npt.NDArray[np.float32],
    fused: FloatArray,
    launch: FloatArray,
    kept: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Group equal nodes; ordered by content, so that the order of the graph does not show."""
    rows = np.concatenate(
        [
            table.static[kept],
            neighbours[kept],
            fused[kept, None].astype(np.float32),
            launch[kept, None].astype(np.float32),
        ],
        axis=1,
    )
    words = [
        hashlib.blake2b(table.ops[node].encode() + line.tobytes(), digest_size=8).digest()
        for node, line in zip(kept, rows, strict=True)
    ]
    _, first, row, count = np.unique(
        np.array(words, dtype="S8") if words else np.zeros(0, dtype="S8"),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    return first.astype(np.int64), row.astype(np.int64), count.astype(np.int64)


def _neighbours(
    graph: Graph, table: NodeTable, flow: Dataflow, size: FloatArray
) -> npt.NDArray[np.float32]:
    nodes = table.node_count
    classes = np.asarray(table.cost.op_class, dtype=np.int64)
    read = size[flow.in_tensor] if len(flow.in_tensor) else np.zeros(0)
    states = (Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER_STATE)
    held = _of_tensors(graph, [role in states for role in _roles_of_kinds(graph)])
    written = flow.in_writer >= 0
    source = np.where(written, classes[np.maximum(flow.in_writer, 0)], _CLASSES)
    if len(read):
        source = np.where(~written & held[flow.in_tensor], _CLASSES + 1, source)
    reads = _share_table(nodes, flow.in_node, source, read, _CLASSES + 2)
    uses = _share_table(
        nodes, flow.in_writer[written], classes[flow.in_node[written]], read[written], _CLASSES
    )
    unread = (uses.sum(axis=1) == 0).astype(np.float64)
    keep = [code for code in range(_CLASSES) if OP_CLASSES[code] is not OpClass.VIEW]
    columns = np.concatenate(
        [reads[:, [*keep, _CLASSES, _CLASSES + 1]], uses[:, keep], unread[:, None]], axis=1
    )
    return (np.round(columns * _SHARE_STEPS) / _SHARE_STEPS).astype(np.float32)


def _share_table(
    nodes: int, owner: IntArray, column: IntArray, weight: FloatArray, width: int
) -> FloatArray:
    total = np.bincount(owner * width + column, weights=weight, minlength=nodes * width)
    shares = total.reshape(nodes, width).astype(np.float64)
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-30))


def _fused(table: NodeTable, flow: Dataflow, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Traffic of each node that leaves its fused kernel, and its part of one launch."""
    nodes = table.node_count
    fusible = _FUSIBLE[np.asarray(table.cost.op_class, dtype=np.int64)]
    written = flow.in_writer >= 0
    inside = written & fusible[flow.in_node]
    if len(flow.in_node):
        inside &= fusible[np.maximum(flow.in_writer, 0)]
        phase = np.asarray(table.cost.phase)
        inside &= phase[flow.in_node] == phase[np.maximum(flow.in_writer, 0)]
    kernel = _components(nodes, flow.in_writer[inside], flow.in_node[inside])
    members = np.bincount(kernel, minlength=nodes)[kernel] if nodes else np.zeros(0)
    read = size[flow.in_tensor] if len(flow.in_tensor) else np.zeros(0)
    external_reads = np.bincount(flow.in_node, weights=np.where(inside, 0.0, read), minlength=nodes)
    reads_out = np.bincount(flow.in_writer[written & ~inside], minlength=nodes)
    reads_in = np.bincount(flow.in_writer[inside], minlength=nodes)
    escapes = (reads_out > 0) | (reads_in == 0)
    all_writes = np.bincount(
        flow.out_node,
        weights=size[flow.out_tensor] if len(flow.out_tensor) else None,
        minlength=nodes,
    )
    traffic = np.where(
        fusible,
        np.minimum(external_reads + np.where(escapes, all_writes, 0.0), table.traffic_bytes),
        table.traffic_bytes,
    )
    return traffic.astype(np.float64), 1.0 / np.maximum(members, 1)


def _components(nodes: int, left: IntArray, right: IntArray) -> IntArray:
    """Label of the connected component of each node: the smallest position in it."""
    label = list(range(nodes))

    def root(node: int) -> int:
        while label[node] != node:
            label[node] = label[label[node]]
            node = label[node]
        return node

    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        first, second = root(a), root(b)
        if first != second:
            label[max(first, second)] = min(first, second)
    return np.array([root(node) for node in range(nodes)], dtype=np.int64)


def architecture_key(sketch: StepSketch, batch_size: int) -> str:
    """Return a key that a model at one input size has at every batch size, mode and precision.

    It is made of the contractions of the forward pass, by class and FLOPs per sample, so that
    it needs no name: an uploaded graph is recognised too.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    forward = (sketch.phase == 0) & np.isin(sketch.op_class, _CONTRACTION_CODES)
    work = [
        f"{code}:{flops / batch_size:.3e}"
        for code, flops, count in zip(
            sketch.op_class[forward], sketch.flops[forward], sketch.count[forward], strict=True
        )
        for _ in range(int(count))
    ]
    return hashlib.sha256(",".join(sorted(work)).encode()).hexdigest()[:16]

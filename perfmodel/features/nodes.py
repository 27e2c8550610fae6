"""The NodeTable: what a graph says about each of its nodes, before any device is named.

One row per node, one named column per fact. It is computed once per graph and kept with it, so
that many devices and settings share the work. Needs numpy alone.

Extents, counts and bytes enter as ``log2(1 + x)``: trees do not mind, networks need it, and a
factor of two is one unit everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.features.dataflow import Dataflow, trace_dataflow
from perfmodel.features.operand_shapes import (
    NO_CONVOLUTION,
    NO_GEMM,
    ConvolutionShape,
    GemmShape,
    axis_stride,
    convolution_shape,
    gemm_shape,
)
from perfmodel.graph.cost import CostTable, cost_table
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import DTYPE_BYTES, Graph
from perfmodel.types import Phase, Role

OP_CLASSES: tuple[OpClass, ...] = tuple(OpClass)
PHASES: tuple[Phase, ...] = tuple(Phase)

#: Reuse distances, in bytes, below which operand bytes are counted as recently touched.
REUSE_LIMITS_BYTES = tuple(float(2**power) for power in (18, 20, 22, 24, 25, 26, 28))

_CODE = {op_class: code for code, op_class in enumerate(OP_CLASSES)}
_CONTRACTIONS = frozenset(
    _CODE[c] for c in (OpClass.MATMUL, OpClass.ATTENTION, OpClass.RECURRENT, OpClass.CONVOLUTION)
)
_CONVOLUTION = _CODE[OpClass.CONVOLUTION]
_VIEW = _CODE[OpClass.VIEW]
_ALONG_AXIS = frozenset(
    _CODE[c]
    for c in (OpClass.SOFTMAX, OpClass.REDUCTION, OpClass.MOVEMENT, OpClass.INDEXING,
              OpClass.NORMALIZATION, OpClass.ELEMENTWISE)
)  # fmt: skip
#: Views after which the elements of a tensor no longer lie in the order of its axes.
_REORDERING = frozenset(
    {"t", "transpose", "permute", "expand", "slice", "select", "unfold", "as_strided", "movedim",
     "swapaxes", "diagonal", "narrow", "split", "split_with_sizes", "chunk", "unbind"}
)  # fmt: skip

STATIC_COLUMNS: tuple[str, ...] = (
    "log_flops", "log_read_bytes", "log_written_bytes", "log_moved_bytes", "log_intensity",
    "log_largest_input", "log_output", "input_count", "output_count", "output_item_bytes",
    "input_item_bytes", "output_rank", "log_last_extent", "log_second_extent",
    "log_reduction", "log_second_input_ratio", "in_place", "log_fresh_bytes",
    "log_parameter_bytes", "reordered_inputs", "log_axis_stride", "matrix_engine", "priced",
    "log_gemm_batch", "log_gemm_m", "log_gemm_n", "log_gemm_k", "gemm_n_mod_16", "gemm_k_mod_16",
    "log_groups", "log_channels_in", "log_channels_out", "log_kernel_area", "stride", "dilation",
    "log_spatial_in", "log_spatial_out", "log_width_out", "channels_in_mod_16",
    "channels_out_mod_16", "depthwise", "transposed", "gradients",
    "log_nearest_reuse", "log_largest_reuse", "producer_class", "consumer_class",
    "log_consumers",
    *(f"recent_share_{int(limit).bit_length() - 1}" for limit in REUSE_LIMITS_BYTES),
    *(f"phase_{phase.value}" for phase in PHASES),
    *(f"class_{op_class.value}" for op_class in OP_CLASSES),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NodeTable:
    """Facts of every node of one graph.

    Parameters
    ----------
    cost : CostTable
        FLOPs, bytes, class, engine and phase of each node.
    static : ndarray of float32, shape (nodes, len(STATIC_COLUMNS))
        Named columns, see :data:`STATIC_COLUMNS`.
    traffic_bytes : ndarray, shape (nodes,)
        Bytes each node must move: by its formula, or, where it has none and is no view, its
        operands read once and its results written once.
    edges : ndarray of int64, shape (2, edges)
        Producer and consumer of every operand that a node of the graph wrote, views skipped.
    flow : Dataflow
        Who wrote what each node reads.
    size_bytes : ndarray, shape (tensors,)
    """

    cost: CostTable
    static: npt.NDArray[np.float32]
    traffic_bytes: FloatArray
    edges: npt.NDArray[np.int64]
    ops: tuple[str, ...]
    flow: Dataflow
    size_bytes: FloatArray

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return len(self.ops)

    @property
    def is_view(self) -> npt.NDArray[np.bool_]:
        """Nodes that move no data."""
        return np.asarray(self.cost.op_class == _VIEW)

    def column(self, name: str) -> npt.NDArray[np.float32]:
        """Return one static column by name."""
        return self.static[:, _POSITION[name]]


_POSITION = {name: position for position, name in enumerate(STATIC_COLUMNS)}


def node_table(graph: Graph) -> NodeTable:
    """Return the node table of a graph; computed once and kept with the graph."""
    kept = graph.__dict__.get("_node_table")
    if isinstance(kept, NodeTable):
        return kept
    table = _build(graph)
    graph.__dict__["_node_table"] = table
    return table


def _build(graph: Graph) -> NodeTable:
    cost = cost_table(graph)
    sizes = _TensorSizes.of(graph)
    is_view = np.asarray(cost.op_class == _VIEW)
    traffic = _traffic(graph, cost, sizes, is_view)
    flow = trace_dataflow(graph, is_view, traffic)
    columns = {
        **_cost_columns(cost),
        **_operand_columns(graph, flow, sizes),
        **_shape_columns(graph, cost),
        **_reuse_columns(flow, sizes, cost),
    }
    static = np.zeros((len(graph.nodes), len(STATIC_COLUMNS)), dtype=np.float32)
    for name, values in columns.items():
        static[:, _POSITION[name]] = values
    written = flow.in_writer >= 0
    return NodeTable(
        cost=cost,
        static=static + np.float32(0.0),  # no -0.0: rows are compared bit by bit
        traffic_bytes=traffic,
        edges=np.stack([flow.in_writer[written], flow.in_node[written]]),
        ops=tuple(node.op for node in graph.nodes),
        flow=flow,
        size_bytes=sizes.size_bytes,
    )


@dataclass(frozen=True, kw_only=True)
class _TensorSizes:
    """Flat facts of all tensors of a graph."""

    elements: FloatArray
    item_bytes: FloatArray
    size_bytes: FloatArray
    rank: FloatArray
    last: FloatArray
    second: FloatArray
    storage: npt.NDArray[np.int64]
    is_state: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, graph: Graph) -> _TensorSizes:
        # Worked out for kinds of tensors, of which there are few, and spread over all.
        kinds = graph.kinds
        of_kind = np.array(kinds.tensors, dtype=np.int64)
        first = [graph.tensors[index] for index in kinds.first_tensors]
        shapes = [tensor.shape for tensor in first]
        elements = np.array([float(t.element_count) for t in first], dtype=np.float64)
        item = np.array([float(DTYPE_BYTES[t.dtype]) for t in first], dtype=np.float64)
        rank = np.array([len(s) for s in shapes], dtype=np.float64)
        last = np.array([s[-1] if s else 1 for s in shapes], dtype=np.float64)
        second = np.array([s[1] if len(s) > 1 else 1 for s in shapes], dtype=np.float64)
        held = (Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER_STATE)
        is_state = np.array([t.role in held for t in first], dtype=np.bool_)
        return cls(
            elements=elements[of_kind],
            item_bytes=item[of_kind],
            size_bytes=(elements * item)[of_kind],
            rank=rank[of_kind],
            last=last[of_kind],
            second=second[of_kind],
            storage=np.array([t.storage for t in graph.tensors], dtype=np.int64),
            is_state=is_state[of_kind],
        )


def _log2(values: npt.ArrayLike) -> FloatArray:
    return np.log2(1.0 + np.asarray(values, dtype=np.float64))


def _traffic(
    graph: Graph, cost: CostTable, sizes: _TensorSizes, is_view: npt.NDArray[np.bool_]
) -> FloatArray:
    """Compulsory bytes of each node; operands and results where there is no formula."""
    moved = np.asarray(cost.bytes_read + cost.bytes_written, dtype=np.float64)
    for position in np.flatnonzero(~np.asarray(cost.priced) & ~is_view):
        node = graph.nodes[position]
        moved[position] = sizes.size_bytes[[*node.inputs, *node.outputs]].sum()
    return moved


def _cost_columns(cost: CostTable) -> dict[str, npt.ArrayLike]:
    moved = cost.bytes_read + cost.bytes_written
    columns: dict[str, npt.ArrayLike] = {
        "log_flops": _log2(cost.flops),
        "log_read_bytes": _log2(cost.bytes_read),
        "log_written_bytes": _log2(cost.bytes_written),
        "log_moved_bytes": _log2(moved),
        "log_intensity": _log2(cost.flops) - _log2(moved),
        "matrix_engine": cost.engine_is_matrix,
        "priced": cost.priced,
    }
    for code, op_class in enumerate(OP_CLASSES):
        columns[f"class_{op_class.value}"] = cost.op_class == code
    for code, phase in enumerate(PHASES):
        columns[f"phase_{phase.value}"] = cost.phase == code
    return columns


def _operand_columns(graph: Graph, flow: Dataflow, sizes: _TensorSizes) -> dict[str, npt.ArrayLike]:
    count = len(graph.nodes)
    reads, writes = (flow.in_node, flow.in_tensor), (flow.out_node, flow.out_tensor)
    largest_in = _largest(count, *reads, sizes.elements)
    largest_out = _largest(count, *writes, sizes.elements)
    has_in, has_out = largest_in >= 0, largest_out >= 0

    def pick(values: FloatArray, chosen: npt.NDArray[np.int64]) -> FloatArray:
        if not len(values):
            return np.zeros(count)
        return np.where(chosen >= 0, values[np.maximum(chosen, 0)], 0.0)

    elements_in, elements_out = pick(sizes.elements, largest_in), pick(sizes.elements, largest_out)
    total_in = _sum(count, flow.in_node, sizes.elements[flow.in_tensor])
    reads_of = np.bincount(flow.in_node, minlength=count)
    fresh, in_place = _fresh_bytes(count, flow, sizes)
    shaped = np.where(has_in, largest_in, largest_out)
    return {
        "log_largest_input": _log2(elements_in),
        "log_output": _log2(elements_out),
        "input_count": np.minimum(reads_of, 64),
        "output_count": np.minimum(np.bincount(flow.out_node, minlength=count), 64),
        "output_item_bytes": pick(sizes.item_bytes, largest_out),
        "input_item_bytes": pick(sizes.item_bytes, largest_in),
        "output_rank": pick(sizes.rank, largest_out),
        "log_last_extent": _log2(pick(sizes.last, shaped)),
        "log_second_extent": _log2(pick(sizes.second, shaped)),
        "log_reduction": np.where(has_in & has_out, _log2(elements_in) - _log2(elements_out), 0.0),
        "log_second_input_ratio": _log2(elements_in) - _log2(np.maximum(total_in - elements_in, 0)),
        "in_place": in_place,
        "log_fresh_bytes": _log2(fresh),
        "log_parameter_bytes": _log2(
            _sum(count, flow.in_node, (sizes.size_bytes * sizes.is_state)[flow.in_tensor])
        ),
        "reordered_inputs": _sum(count, flow.in_node, _reordered(graph)[flow.in_tensor]),
    }


def _largest(
    count: int, owner: npt.NDArray[np.int64], tensor: npt.NDArray[np.int64], size: FloatArray
) -> npt.NDArray[np.int64]:
    """Largest tensor of each node, the first of equals; -1 where it has none."""
    chosen = np.full(count, -1, dtype=np.int64)
    order = np.lexsort((-np.arange(len(owner)), size[tensor])) if len(owner) else owner
    chosen[owner[order]] = tensor[order]
    return chosen


def _sum(count: int, owner: npt.NDArray[np.int64], values: FloatArray) -> FloatArray:
    total = np.bincount(owner, weights=values, minlength=count)
    return np.asarray(total, dtype=np.float64)


def _fresh_bytes(
    count: int, flow: Dataflow, sizes: _TensorSizes
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Bytes of results in new storage, and which nodes write into an operand's storage."""
    shift = int(sizes.storage.max(initial=0)) + 1
    read = np.unique(flow.in_node * shift + sizes.storage[flow.in_tensor])
    shared = np.isin(flow.out_node * shift + sizes.storage[flow.out_tensor], read)
    fresh = _sum(count, flow.out_node, np.where(shared, 0.0, sizes.size_bytes[flow.out_tensor]))
    in_place = np.zeros(count, dtype=np.bool_)
    in_place[flow.out_node[shared]] = True
    return fresh, in_place


def _reordered(graph: Graph) -> FloatArray:
    """1 for tensors that a view has reordered, 0 for others."""
    flags = np.zeros(len(graph.tensors))
    for node in graph.nodes:
        if node.op in _REORDERING:
            flags[list(node.outputs)] = 1.0
    return flags


def _shape_columns(graph: Graph, cost: CostTable) -> dict[str, npt.ArrayLike]:
    kinds, gemms, convolutions, strides = graph.kinds, [], [], []
    first = np.array(kinds.first_nodes, dtype=np.int64)
    flops = np.asarray(cost.flops, dtype=np.float64)[first].tolist()
    codes = np.asarray(cost.op_class)[first].tolist()
    for position, code, flop in zip(kinds.first_nodes, codes, flops, strict=True):
        node = graph.nodes[position]
        gemm, convolution, stride = NO_GEMM, NO_CONVOLUTION, 0.0
        if code in _CONTRACTIONS:
            outputs = graph.outputs_of(node)
            if code == _CONVOLUTION:
                convolution = convolution_shape(node, graph.inputs_of(node), outputs)
            gemm = gemm_shape(outputs, flop)
        elif code in _ALONG_AXIS and node.inputs and node.attrs:
            stride = axis_stride(node, graph.tensors[node.inputs[0]])
        gemms.append(gemm)
        convolutions.append(convolution)
        strides.append(stride)
    of_kind = np.array(kinds.nodes, dtype=np.int64)
    columns = _columns_of_shapes(gemms, convolutions, strides)
    return {name: np.asarray(column)[of_kind] for name, column in columns.items()}


def _columns_of_shapes(
    gemms: Sequence[GemmShape], convolutions: Sequence[ConvolutionShape], strides: Sequence[float]
) -> dict[str, npt.ArrayLike]:
    shape = np.array(gemms, dtype=np.float64).reshape(-1, 4)
    conv = np.array(convolutions, dtype=np.float64).reshape(-1, len(NO_CONVOLUTION))
    groups, channels_in, channels_out = conv[:, 0], conv[:, 1], conv[:, 2]
    return {
        "log_gemm_batch": _log2(shape[:, 0]),
        "log_gemm_m": _log2(shape[:, 1]),
        "log_gemm_n": _log2(shape[:, 2]),
        "log_gemm_k": _log2(shape[:, 3]),
        "gemm_n_mod_16": shape[:, 2] % 16,
        "gemm_k_mod_16": np.round(shape[:, 3]) % 16,
        "log_groups": _log2(groups),
        "log_channels_in": _log2(channels_in),
        "log_channels_out": _log2(channels_out),
        "log_kernel_area": _log2(conv[:, 3]),
        "stride": conv[:, 4],
        "dilation": conv[:, 5],
        "log_spatial_in": _log2(conv[:, 6]),
        "log_spatial_out": _log2(conv[:, 7]),
        "depthwise": (groups > 1) & (channels_in == 1),
        "log_width_out": _log2(conv[:, 8]),
        "channels_in_mod_16": np.floor(channels_in) % 16,
        "channels_out_mod_16": np.floor(channels_out) % 16,
        "gradients": conv[:, 9],
        "transposed": conv[:, 10],
        "log_axis_stride": _log2(strides),
    }


def _reuse_columns(
    flow: Dataflow, sizes: _TensorSizes, cost: CostTable
) -> dict[str, npt.ArrayLike]:
    count = len(cost.flops)
    # Whole powers of two: equal blocks of a deep network then have equal rows.
    distance = np.round(_log2(np.maximum(flow.in_distance_bytes, 0.0)))
    read = sizes.size_bytes[flow.in_tensor]
    total = np.maximum(_sum(count, flow.in_node, read), 1.0)
    nearest = np.full(count, 64.0)
    np.minimum.at(nearest, flow.in_node, distance)
    largest = np.zeros(count)
    order = np.argsort(read, kind="stable")
    largest[flow.in_node[order]] = distance[order]
    producer, consumer = np.full(count, -1.0), np.full(count, -1.0)
    written = flow.in_writer >= 0
    classes = np.asarray(cost.op_class, dtype=np.float64)
    by_size = order[written[order]]
    producer[flow.in_node[by_size]] = classes[flow.in_writer[by_size]]
    # Largest class code last: independent of the order of the consumers.
    by_class = by_size[np.argsort(classes[flow.in_node[by_size]], kind="stable")]
    consumer[flow.in_writer[by_class]] = classes[flow.in_node[by_class]]
    columns: dict[str, npt.ArrayLike] = {
        "log_nearest_reuse": nearest,
        "log_largest_reuse": largest,
        "producer_class": producer,
        "consumer_class": consumer,
        "log_consumers": _log2(np.bincount(flow.in_writer[written], minlength=count)),
    }
    for limit in REUSE_LIMITS_BYTES:
        recent = _sum(count, flow.in_node, read * (distance < np.log2(limit)))
        columns[f"recent_share_{int(limit).bit_length() - 1}"] = recent / total
    return columns

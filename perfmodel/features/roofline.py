"""The roofline of every node of a workload, and the columns that depend on the device.

For a node with F FLOPs and B bytes of compulsory traffic::

    compute_s  = F / peak(engine, dtype)
    memory_s   = B / bandwidth
    roofline_s = max(compute_s, memory_s)

``roofline_s`` is what efficiencies refer to. It is not a lower bound on real time: operands
that were just written may come from the cache. The bound that no prediction goes below grants
every node the whole cache C at ``CACHE_SPEEDUP`` times the memory bandwidth::

    bound_s = max(compute_s, (max(B - C, 0) + min(B, C) / CACHE_SPEEDUP) / bandwidth)

Within a program of an accelerator (:func:`is_program`) B is what comes from outside, and products
alone have FLOPs. What products in 8 bits read from outside in inference, their weights, lies there
in 8 bits, though the graph has it in 16. Only priced nodes enter the bound; a node without a
formula has no FLOPs, and its ``roofline_s`` is its operands and results over the bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.nodes import STATIC_COLUMNS, NodeTable, node_table
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.types import LEARNED_COMPILERS, Compiler, Engine, MemoryFormat, Mode, Precision

#: Operands of so many bytes are computed with at full precision.
_WIDE_ITEM_BYTES = 4.0
#: Precisions whose parameters stay in fp32.
_FULL = (Precision.FP32, Precision.TF32)
#: Precisions whose weights take a byte each in inference, and the types that graphs have them in.
_IN_8_BITS, _IN_16_BITS = (Precision.FP8, Precision.INT8), ("float16", "bfloat16")
#: Under which name it lies with its graph.
_KEPT = "_node_work"

#: What is answered rests on it where no model has learned of an accelerator.
PROGRAM_BASIS = "one efficiency, fitted to published inference on two NPUs"
#: Share of their roofline that such programs reach: of 405 published steps of encoders, GPT-2 and
#: ResNet-50 on two NPUs 0.42 and 0.37 in geometric mean (docs/adr/0067).
PROGRAM_EFFICIENCY = 0.4
#: Time of the host to call one, in seconds: that of an operator elsewhere (docs/adr/0067).
PROGRAM_CALL_S = 30e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeWork:
    """Work of every node of one graph.

    Small beside the node table, so that it is kept with a graph that is not in memory itself.

    Parameters
    ----------
    flops, traffic_bytes : ndarray, shape (nodes,)
        As of :class:`~perfmodel.features.nodes.NodeTable`.
    is_matrix : ndarray of bool, shape (nodes,)
        Whether matrix units do it.
    is_wide : ndarray of bool, shape (nodes,)
        Whether its operands have four bytes or more.
    is_priced : ndarray of bool, shape (nodes,)
        Whether its operator has a cost formula.
    is_view : ndarray of bool, shape (nodes,)
        Whether it moves no data.
    outside_bytes, outside_wide_bytes, outside_half_bytes : ndarray, shape (nodes,)
        What it reads that no other node wrote, and the parts of it in fp32 and in 16 bits, see
        :func:`outside_bytes`.
    """

    flops: FloatArray
    traffic_bytes: FloatArray
    is_matrix: BoolArray
    is_wide: BoolArray
    is_priced: BoolArray
    is_view: BoolArray
    outside_bytes: FloatArray
    outside_wide_bytes: FloatArray
    outside_half_bytes: FloatArray

    @classmethod
    def of(cls, graph: Graph) -> NodeWork:
        """Take the work of nodes out of their table."""
        table = node_table(graph)
        cost, (outside, wide, half) = table.cost, outside_bytes(graph)
        return cls(
            flops=np.asarray(cost.flops),
            traffic_bytes=table.traffic_bytes,
            is_matrix=np.asarray(cost.engine_is_matrix),
            is_wide=table.column("input_item_bytes") >= _WIDE_ITEM_BYTES,
            is_priced=np.asarray(cost.priced),
            is_view=table.is_view,
            outside_bytes=outside,
            outside_wide_bytes=wide,
            outside_half_bytes=half,
        )

    def from_outside(self, precision: Precision) -> FloatArray:
        """Return what each node of a program in some precision reads from outside.

        Returns
        -------
        ndarray, shape (nodes,)
            Bytes, never more than the node has to move: of a table of words the rows looked up.
        """
        cast = 0.0 if precision in _FULL else self.outside_wide_bytes / 2
        return np.minimum(self.outside_bytes - cast, self.traffic_bytes)


def outside_bytes(graph: Graph) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what each node reads that no other wrote: parameters, buffers and inputs.

    Returns
    -------
    ndarray, shape (nodes,)
        Bytes as they lie there, those of them that are fp32: programs in 16 bits have cast these
        before, and those in 16 bits: weights of products in 8 bits have half as many.
    """
    table = node_table(graph)
    read = table.flow.in_writer < 0
    nodes, tensors = table.flow.in_node[read], table.flow.in_tensor[read]
    sizes = table.size_bytes[tensors]
    found = np.zeros((3, table.node_count))
    np.add.at(found[0], nodes, sizes)
    for row, types in ((1, ("float32",)), (2, _IN_16_BITS)):
        np.add.at(found[row], nodes, np.where(_is_in(graph, types)[tensors], sizes, 0.0))
    return found[0], found[1], found[2]


def _is_in(graph: Graph, types: Sequence[str]) -> BoolArray:
    kinds = graph.kinds
    found = np.array([graph.tensors[one].dtype in types for one in kinds.first_tensors], bool)
    return np.asarray(found[np.array(kinds.tensors, dtype=np.int64)])


def node_work(graph: Graph) -> NodeWork:
    """Return the work of the nodes of a graph; worked out once and kept with it."""
    kept = vars(graph).get(_KEPT)
    if isinstance(kept, NodeWork):
        return kept
    found = NodeWork.of(graph)
    keep_node_work(graph, found)
    return found


def keep_node_work(graph: Graph, work: NodeWork) -> None:
    """Lay down what :func:`node_work` would work out of a graph."""
    vars(graph)[_KEPT] = work


#: How much faster than memory the last-level cache is taken to be in the lower bound. Measured
#: ratios on CPUs and GPUs lie between 2 and 6; a bound must err on the fast side.
CACHE_SPEEDUP = 10.0

#: Smallest time that enters a logarithm.
_TICK_S = 1e-9

DEVICE_COLUMNS: tuple[str, ...] = (
    "log_compute_s", "log_memory_s", "log_roofline_s", "log_compute_to_memory",
    "log_traffic_to_cache", "log_output_per_core", "log_parameters_to_cache",
)  # fmt: skip
SETTING_COLUMNS: tuple[str, ...] = (
    "training", "channels_last", "low_precision", "autocast",
    *(f"compiler_{compiler.value}" for compiler in LEARNED_COMPILERS),
    "device_gpu", "device_cpu", "log_peak_flops", "log_vector_flops", "log_bandwidth",
    "log_cache", "log_cores",
)  # fmt: skip
#: Every column of :func:`node_features`, in order.
NODE_COLUMNS: tuple[str, ...] = (*STATIC_COLUMNS, *DEVICE_COLUMNS, *SETTING_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class NodeRoofline:
    """Times of each node at the peaks of the device, in seconds, shape (nodes,) each."""

    compute_s: FloatArray
    memory_s: FloatArray
    roofline_s: FloatArray
    bound_s: FloatArray


def device_share(accelerator: AcceleratorSpec, threads: int | None) -> float:
    """Return the share of a device's cores that so many threads may use, in (0, 1]."""
    cores = accelerator.core_count
    if threads is None or accelerator.kind != "cpu" or not cores:
        return 1.0
    return min(1.0, max(1, threads) / cores)


def is_program(workload: Workload) -> bool:
    """Tell whether one program runs a whole step; TPUs run nothing else.

    NPUs and TPUs compile a whole graph: no host calls its operators, what they hand to each other
    stays on the chip, vectors are worked on beside products, and parameters have been cast to the
    type of the products. What is left to wait for is products, and what comes from outside.
    """
    kind = workload.accelerator.kind
    compiled = kind == "tpu" or (kind == "npu" and workload.compiler is not Compiler.EAGER)
    return compiled and workload.mode is Mode.INFERENCE


def node_roofline(workload: Workload) -> NodeRoofline:
    """Return the roofline of every node; within a program products, and what comes from outside."""
    work, spec = node_work(workload.graph), workload.accelerator
    compute = work.flops / (_peaks(workload, work) * device_share(spec, workload.threads))
    moved, bandwidth = work.traffic_bytes, spec.bandwidth_bytes_per_s
    if is_program(workload):
        compute = np.where(work.is_matrix, compute, 0.0)
        moved = work.from_outside(workload.precision)
    if workload.precision in _IN_8_BITS and workload.mode is Mode.INFERENCE:
        moved = moved - np.where(work.is_matrix, np.minimum(work.outside_half_bytes, moved) / 2, 0)
    memory = moved / bandwidth
    cached = np.minimum(moved, spec.cache_bytes or 0.0)
    fastest = (moved - cached + cached / CACHE_SPEEDUP) / bandwidth
    return NodeRoofline(
        compute_s=compute,
        memory_s=memory,
        roofline_s=np.maximum(compute, memory),
        bound_s=np.where(work.is_priced, np.maximum(compute, fastest), 0.0),
    )


def step_bound_s(workload: Workload) -> float:
    """Return the time that no step of a workload can beat: the bound of its priced nodes."""
    return float(node_roofline(workload).bound_s.sum())


def _peaks(workload: Workload, work: NodeWork) -> FloatArray:
    """FLOP/s of each node: matrix work on 4-byte operands never runs at a 2-byte rate."""
    spec, precision = workload.accelerator, workload.precision
    vector = spec.flops_per_s(Precision.FP32, Engine.VECTOR)
    narrow = spec.flops_per_s(precision, Engine.MATRIX)
    wide = narrow
    if precision not in _FULL:
        wide = spec.flops_per_s(Precision.FP32, Engine.MATRIX)
    matrix = np.where(work.is_wide, wide, narrow)
    return np.where(work.is_matrix, matrix, vector)


def node_features(workload: Workload, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return the feature rows of some nodes of a workload.

    Parameters
    ----------
    rows : ndarray of int64, shape (rows,)
        Positions of nodes.

    Returns
    -------
    ndarray of float32, shape (rows, len(NODE_COLUMNS))
        Finite.
    """
    table, roofline = node_table(workload.graph), node_roofline(workload)
    static = table.static[rows]
    features = np.empty((len(rows), len(NODE_COLUMNS)), dtype=np.float32)
    features[:, : static.shape[1]] = static
    device = _device_columns(workload, table, roofline)
    for offset, values in enumerate(device, start=static.shape[1]):
        features[:, offset] = values[rows]
    features[:, static.shape[1] + len(device) :] = settings(workload)
    return features


def _device_columns(
    workload: Workload, table: NodeTable, roofline: NodeRoofline
) -> list[FloatArray]:
    cache = np.log2(1.0 + (workload.accelerator.cache_bytes or 0.0))
    cores = np.log2(workload.accelerator.core_count or 1)
    compute = np.log2(roofline.compute_s + _TICK_S)
    memory = np.log2(roofline.memory_s + _TICK_S)
    return [
        compute,
        memory,
        np.log2(roofline.roofline_s + _TICK_S),
        compute - memory,
        np.log2(1.0 + table.traffic_bytes) - cache,
        table.column("log_output") - cores,
        table.column("log_parameter_bytes") - cache,
    ]


def settings(workload: Workload) -> FloatArray:
    """Return the columns that all nodes of a workload share, see ``SETTING_COLUMNS``."""
    spec, precision = workload.accelerator, workload.precision
    share = device_share(workload.accelerator, workload.threads)
    cores = workload.threads if share < 1.0 and workload.threads else spec.core_count
    return np.array(
        [
            workload.mode is Mode.TRAINING,
            workload.memory_format is MemoryFormat.CHANNELS_LAST,
            precision not in _FULL,
            precision.is_autocast,
            *(workload.compiler is compiler for compiler in LEARNED_COMPILERS),
            spec.kind == "gpu",
            spec.kind == "cpu",
            np.log2(spec.flops_per_s(precision) * share),
            np.log2(spec.flops_per_s(Precision.FP32, Engine.VECTOR) * share),
            np.log2(spec.bandwidth_bytes_per_s),
            np.log2(1.0 + (spec.cache_bytes or 0.0)),
            np.log2(cores or 1),
        ],
        dtype=np.float64,
    )

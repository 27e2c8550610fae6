"""Who wrote what a node reads, and how much traffic lay in between.

An operand that was written a moment ago may still sit in the cache. The *reuse distance* of an
operand is the traffic between its production and its use. It is counted along the levels of
the graph (optimizer after backward after forward, inside a phase by depth), not along the
order of the nodes, so that two orders of the same graph give the same features.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.graph.ir import Graph
from perfmodel.types import Phase


@dataclass(frozen=True, kw_only=True)
class Dataflow:
    """Flat edges between nodes and tensors.

    Parameters
    ----------
    in_node, in_tensor : ndarray, shape (reads,)
        One entry per operand read: the node and the tensor.
    in_writer : ndarray, shape (reads,)
        Node that last wrote the operand's storage, views skipped; -1 for what the step is given.
    in_distance_bytes : ndarray, shape (reads,)
        Traffic between that write and this read; the whole step for what it is given.
    out_node, out_tensor : ndarray, shape (writes,)
        One entry per result.
    """

    in_node: IntArray
    in_tensor: IntArray
    in_writer: IntArray
    in_distance_bytes: FloatArray
    out_node: IntArray
    out_tensor: IntArray


def trace_dataflow(graph: Graph, is_view: npt.NDArray[np.bool_], moved: FloatArray) -> Dataflow:
    """Follow every operand back to the node that wrote it.

    Parameters
    ----------
    is_view : ndarray of bool, shape (nodes,)
        Nodes that move no data.
    moved : ndarray, shape (nodes,)
        Bytes that each node reads and writes.
    """
    writers, depth = _writers_and_depth(graph, is_view.tolist())
    in_node = _owners([len(node.inputs) for node in graph.nodes])
    out_node = _owners([len(node.outputs) for node in graph.nodes])
    in_writer = np.asarray(writers, dtype=np.int64)
    before = _level_traffic(graph, depth, moved)
    total = float(moved.sum())
    if len(graph.nodes):
        distance = np.where(in_writer >= 0, before[in_node] - before[in_writer], total)
    else:
        distance = np.zeros(0)
    return Dataflow(
        in_node=in_node,
        in_tensor=_flat([node.inputs for node in graph.nodes]),
        in_writer=in_writer,
        in_distance_bytes=distance,
        out_node=out_node,
        out_tensor=_flat([node.outputs for node in graph.nodes]),
    )


def _owners(counts: list[int]) -> IntArray:
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def _flat(groups: list[tuple[int, ...]]) -> IntArray:
    return np.fromiter(chain.from_iterable(groups), dtype=np.int64)


#: Phases follow each other.
_RANK = {Phase.FORWARD: 0, Phase.BACKWARD: 1, Phase.OPTIMIZER: 2}


def _writers_and_depth(graph: Graph, is_view: list[bool]) -> tuple[list[int], list[int]]:
    storage = [tensor.storage for tensor in graph.tensors]
    tensor_depth = [0] * len(graph.tensors)
    last_writer: dict[int, int] = {}
    writers: list[int] = []
    depth: list[int] = []
    for position, node in enumerate(graph.nodes):
        level = 0
        for index in node.inputs:
            writers.append(last_writer.get(storage[index], -1))
            level = max(level, tensor_depth[index])
        if not is_view[position]:
            level += 1
            for index in node.outputs:
                last_writer[storage[index]] = position
        for index in node.outputs:
            tensor_depth[index] = level
        depth.append(level)
    return writers, depth


def _level_traffic(graph: Graph, depth: list[int], moved: FloatArray) -> FloatArray:
    """Bytes moved in all levels before that of each node."""
    if not depth:
        return np.zeros(0)
    kinds, deepest = graph.kinds, max(depth) + 1
    rank = np.array([_RANK[graph.nodes[i].phase] for i in kinds.first_nodes], dtype=np.int64)
    level = rank[np.array(kinds.nodes, dtype=np.int64)] * deepest + np.array(depth, dtype=np.int64)
    traffic = np.bincount(level, weights=moved, minlength=3 * deepest)
    return np.asarray((np.cumsum(traffic) - traffic)[level], dtype=np.float64)

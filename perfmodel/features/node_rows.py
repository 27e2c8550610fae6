"""Equal nodes of a graph, found by colour refinement.

Deep networks repeat themselves: most layers have the shapes and the neighbours of another
layer. Nodes whose features, and whose neighbourhoods up to ``hops`` steps, are equal get equal
answers from any predictor that looks no further, so each class needs to be computed once. One
round of refinement gives every node a new colour from its own, those of its producers and those
of its consumers; sums of mixed 64-bit words stand for the multisets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import IntArray
from perfmodel.features.nodes import NodeTable, node_table
from perfmodel.features.roofline import NodeRoofline, node_features, node_roofline
from perfmodel.graph.workload import Workload

_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class Quotient:
    """Classes of equal nodes.

    Parameters
    ----------
    class_of_node : ndarray, shape (nodes,)
    representative : ndarray, shape (classes,)
        One node of each class.
    count : ndarray, shape (classes,)
        How many nodes each class has.
    reads : ndarray, shape (2, reads)
        Producer and consumer class of every operand that a representative reads.
    read_by : ndarray, shape (2, uses)
        Consumer and producer class of every use of what a representative writes.
    """

    class_of_node: IntArray
    representative: IntArray
    count: IntArray
    reads: IntArray
    read_by: IntArray


def equal_nodes(table: NodeTable, hops: int) -> Quotient:
    """Group the nodes of a graph that nothing within ``hops`` edges tells apart.

    Parameters
    ----------
    hops : int
        0 compares features alone.

    Returns
    -------
    Quotient
        Equal columns of :attr:`Quotient.reads` mean several operands from the same class: means
        over them are the means over the operands of each node of the class.
    """
    colour = _row_words(table)
    for _ in range(hops):
        colour = _refine(colour, table.edges)
    _, representative, class_of_node, count = np.unique(
        colour, return_index=True, return_inverse=True, return_counts=True
    )
    return Quotient(
        class_of_node=class_of_node.astype(np.int64),
        representative=representative.astype(np.int64),
        count=count.astype(np.int64),
        reads=_of_representatives(table.edges, class_of_node, representative),
        read_by=_of_representatives(table.edges[::-1], class_of_node, representative),
    )


def _of_representatives(
    edges: IntArray, class_of_node: IntArray, representative: IntArray
) -> IntArray:
    """Edges into representatives, from class to class."""
    kept = representative[class_of_node[edges[1]]] == edges[1]
    return class_of_node[edges[:, kept]].astype(np.int64).reshape(2, -1)


def _row_words(table: NodeTable) -> _Words:
    """One word per node from its operator, its columns and its traffic."""
    names = {op: word for word, op in enumerate(sorted(set(table.ops)))}
    columns = np.ascontiguousarray(table.static).view(np.uint32).astype(np.uint64)
    words = _mix(np.array([names[op] for op in table.ops], dtype=np.uint64))
    weights = _mix(np.arange(1, columns.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    return _mix(words + columns @ weights)


def _refine(colour: _Words, edges: IntArray) -> _Words:
    from_producers, from_consumers = np.zeros_like(colour), np.zeros_like(colour)
    np.add.at(from_producers, edges[1], _mix(colour[edges[0]]))
    np.add.at(from_consumers, edges[0], _mix(colour[edges[1]] ^ np.uint64(0x5851F42D4C957F2D)))
    return _mix(_mix(colour) + from_producers + _mix(from_consumers))


def _mix(words: _Words) -> _Words:
    """Finaliser of the SplitMix64 generator: a bijection that spreads every bit."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True, kw_only=True)
class NodeRows:
    """One feature row per class of equal nodes.

    Parameters
    ----------
    table : NodeTable
        Facts of the nodes that do not depend on the device.
    roofline : NodeRoofline
        Peak times of all nodes.
    features : ndarray of float32, shape (classes, columns)
        Columns of :data:`~perfmodel.features.roofline.NODE_COLUMNS`.
    """

    table: NodeTable
    quotient: Quotient
    roofline: NodeRoofline
    features: npt.NDArray[np.float32]

    @property
    def ops(self) -> tuple[str, ...]:
        """Operator name of each class."""
        return tuple(self.table.ops[node] for node in self.quotient.representative)


def node_rows(workload: Workload, *, hops: int = 0) -> NodeRows:
    """Return the distinct nodes of a workload; computed once and kept with it.

    Parameters
    ----------
    hops : int
        How far the neighbourhoods of two equal nodes must agree.
    """
    kept = workload.__dict__.setdefault("_node_rows", {})
    rows = kept.get(hops)
    if not isinstance(rows, NodeRows):
        rows = kept[hops] = _build(workload, hops)
    return rows


def _build(workload: Workload, hops: int) -> NodeRows:
    table = node_table(workload.graph)
    groups = workload.graph.__dict__.setdefault("_equal_nodes", {})
    if hops not in groups:
        groups[hops] = equal_nodes(table, hops)
    quotient: Quotient = groups[hops]
    return NodeRows(
        table=table,
        quotient=quotient,
        roofline=node_roofline(workload),
        features=node_features(workload, quotient.representative),
    )

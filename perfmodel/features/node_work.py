"""What the roofline needs to know of the nodes of a graph, and nothing more.

Small beside the node table, so that it is kept with a graph that is not in memory itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.nodes import NodeTable, node_table
from perfmodel.graph.ir import Graph

#: Operands of so many bytes are computed with at full precision.
_WIDE_ITEM_BYTES = 4.0
#: Under which name it lies with its graph.
_KEPT = "_node_work"


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeWork:
    """Work of every node of one graph.

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
    """

    flops: FloatArray
    traffic_bytes: FloatArray
    is_matrix: BoolArray
    is_wide: BoolArray
    is_priced: BoolArray
    is_view: BoolArray

    @classmethod
    def of(cls, table: NodeTable) -> NodeWork:
        """Take the work of nodes out of their table."""
        cost = table.cost
        return cls(
            flops=np.asarray(cost.flops),
            traffic_bytes=table.traffic_bytes,
            is_matrix=np.asarray(cost.engine_is_matrix),
            is_wide=table.column("input_item_bytes") >= _WIDE_ITEM_BYTES,
            is_priced=np.asarray(cost.priced),
            is_view=table.is_view,
        )


def node_work(graph: Graph) -> NodeWork:
    """Return the work of the nodes of a graph; worked out once and kept with it."""
    kept = vars(graph).get(_KEPT)
    if isinstance(kept, NodeWork):
        return kept
    found = NodeWork.of(node_table(graph))
    keep_node_work(graph, found)
    return found


def keep_node_work(graph: Graph, work: NodeWork) -> None:
    """Lay down what :func:`node_work` would work out of a graph."""
    vars(graph)[_KEPT] = work

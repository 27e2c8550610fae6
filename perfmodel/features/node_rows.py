"""The distinct nodes of a workload, ready for a predictor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.nodes import NodeTable, node_table
from perfmodel.features.quotient import Quotient, equal_nodes
from perfmodel.features.roofline import NodeRoofline, node_features, node_roofline
from perfmodel.graph.workload import Workload


@dataclass(frozen=True, kw_only=True)
class NodeRows:
    """One feature row per class of equal nodes.

    Parameters
    ----------
    table : NodeTable
        Facts of the nodes that do not depend on the device.
    quotient : Quotient
        Which nodes are equal.
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

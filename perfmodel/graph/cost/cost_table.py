"""Costs of a whole graph as columns, computed once per graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.graph.cost.base import REGISTER, Cost, OpClass
from perfmodel.graph.ir import Graph, Node
from perfmodel.types import Engine, Phase

_CLASS_CODE = {op_class: code for code, op_class in enumerate(OpClass)}
_PHASE_CODE = {phase: code for code, phase in enumerate(Phase)}


@dataclass(frozen=True, kw_only=True, eq=False)
class CostTable:
    """Work of every node of a graph, aligned with :attr:`Graph.nodes`.

    Parameters
    ----------
    flops : ndarray of float64
        Operations; 0 where unpriced, so mask with ``priced``.
    bytes_read, bytes_written : ndarray of float64
        Compulsory traffic; 0 where unpriced.
    op_class : ndarray of int8
        Position in ``tuple(OpClass)``; ``OTHER`` where unpriced.
    phase : ndarray of int8
        Position in ``tuple(Phase)``.
    unpriced : mapping of str to int
        Calls of each operator without a formula.
    """

    flops: npt.NDArray[np.float64]
    bytes_read: npt.NDArray[np.float64]
    bytes_written: npt.NDArray[np.float64]
    op_class: npt.NDArray[np.int8]
    engine_is_matrix: npt.NDArray[np.bool_]
    phase: npt.NDArray[np.int8]
    priced: npt.NDArray[np.bool_]
    unpriced: Mapping[str, int]


def cost_of(node: Node, graph: Graph) -> Cost | None:
    """Price one operator call.

    Returns
    -------
    Cost or None
        None for an operator without a formula, or one whose tensors its formula cannot read:
        both are unpriced.
    """
    entry = REGISTER.get(node.op)
    if entry is None:
        return None
    try:
        return entry.formula(graph.inputs_of(node), graph.outputs_of(node), node.attrs)
    except (IndexError, TypeError, ValueError):
        # A graph may come from anybody; an operator with too few operands has no price.
        return None


def cost_table(graph: Graph) -> CostTable:
    """Price every node of a graph; computed once and kept with the graph."""
    table = vars(graph).get("_cost_table")
    if not isinstance(table, CostTable):
        table = vars(graph)["_cost_table"] = _priced(graph)
    return table


def _priced(graph: Graph) -> CostTable:
    kinds = graph.kinds
    found = [graph.nodes[position] for position in kinds.first_nodes]
    costs = [cost_of(node, graph) for node in found]
    numbers = np.array(
        [(c.flops, c.bytes_read, c.bytes_written) if c else (0.0, 0.0, 0.0) for c in costs],
        dtype=np.float64,
    ).reshape(len(costs), 3)
    classes = [
        _CLASS_CODE[REGISTER[node.op].op_class if cost else OpClass.OTHER]
        for node, cost in zip(found, costs, strict=True)
    ]
    of_kinds = (
        *numbers.T,
        np.array(classes, dtype=np.int8),
        np.array([c is not None and c.engine is Engine.MATRIX for c in costs], dtype=np.bool_),
        np.array([_PHASE_CODE[node.phase] for node in found], dtype=np.int8),
        np.array([c is not None for c in costs], dtype=np.bool_),
    )
    of_node = np.array(kinds.nodes, dtype=np.int64)
    columns = [of_kind[of_node] for of_kind in of_kinds]
    for column in columns:
        column.flags.writeable = False
    flops, bytes_read, bytes_written, op_class, is_matrix, phase, priced = columns
    missing = Counter(graph.nodes[i].op for i in np.flatnonzero(~priced).tolist())
    return CostTable(
        flops=flops,
        bytes_read=bytes_read,
        bytes_written=bytes_written,
        op_class=op_class,
        engine_is_matrix=is_matrix,
        phase=phase,
        priced=priced,
        unpriced=MappingProxyType(dict(sorted(missing.items()))),
    )

"""Divide the time of a step over its operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.explanation import ClassShare, OperatorShare
from perfmodel.features.nodes import OP_CLASSES, node_table
from perfmodel.graph.ir import Graph
from perfmodel.predictors.explanation import NodeParts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeGroups:
    """Nodes of a graph that a reader would call equal.

    Parameters
    ----------
    group_of : ndarray of int64, shape (nodes,)
    count : ndarray of int64, shape (groups,)
    name, operator_class, phase : tuple of str
        Of each group.
    shape : tuple
        Of the largest tensor that each node of the group writes.
    """

    group_of: IntArray
    count: IntArray
    name: tuple[str, ...]
    operator_class: tuple[str, ...]
    phase: tuple[str, ...]
    shape: tuple[tuple[int, ...], ...]

    def sum(self, of_node: FloatArray) -> FloatArray:
        """Add up a value of the nodes of each group."""
        return np.bincount(self.group_of, weights=of_node, minlength=len(self.count))


def node_groups(graph: Graph) -> NodeGroups:
    """Group the nodes of a graph by operator, phase, what they write, and work.

    Computed once and kept with the graph.

    Parameters
    ----------
    graph : Graph
    """
    kept = graph.__dict__.get("_node_groups")
    if isinstance(kept, NodeGroups):
        return kept
    groups = _group(graph)
    graph.__dict__["_node_groups"] = groups
    return groups


def class_shares(graph: Graph, nodes: NodeParts, step_s: float) -> tuple[ClassShare, ...]:
    """Return what each class of operators takes of a step, most time first.

    Parameters
    ----------
    graph : Graph
    nodes : NodeParts
    step_s : float
        What all of them add up to.
    """
    codes = np.asarray(node_table(graph).cost.op_class, dtype=np.int64)
    share, flops, moved = (
        np.bincount(codes, weights=column, minlength=len(OP_CLASSES))
        for column in (_shares(nodes), nodes.flops, nodes.moved_bytes)
    )
    count = np.bincount(codes, minlength=len(OP_CLASSES))
    order = sorted(np.flatnonzero(count).tolist(), key=lambda code: -share[code])
    return tuple(
        ClassShare(
            name=OP_CLASSES[code].value,
            count=int(count[code]),
            flops=float(flops[code]),
            bytes=float(moved[code]),
            time_s=float(share[code] * step_s),
            share=float(share[code]),
        )
        for code in order
    )


def operator_shares(
    graph: Graph, nodes: NodeParts, step_s: float, most: int
) -> tuple[OperatorShare, ...]:
    """Return what groups of equal operators take of a step, most time first.

    Parameters
    ----------
    graph : Graph
    nodes : NodeParts
    step_s : float
    most : int
        Groups returned.
    """
    groups = node_groups(graph)
    share = groups.sum(_shares(nodes))
    order = np.argsort(-share, kind="stable")[:most].tolist()
    columns = _columns(groups, nodes)
    return tuple(_operator(groups, columns, g, float(share[g]) * step_s) for g in order)


def _shares(nodes: NodeParts) -> FloatArray:
    """Return the part of each node in the step; evenly where no node takes any time."""
    times_s = nodes.time_s
    total = float(times_s.sum())
    if total <= 0:
        return np.full(len(times_s), 1.0 / max(len(times_s), 1))
    return np.asarray(times_s / total)


def _columns(groups: NodeGroups, nodes: NodeParts) -> dict[str, FloatArray]:
    names = ("flops", "moved_bytes", "compute_s", "memory_s", "work_s", "launch_s")
    return {name: groups.sum(getattr(nodes, name)) for name in names}


def _operator(
    groups: NodeGroups, columns: dict[str, FloatArray], g: int, time_s: float
) -> OperatorShare:
    flops, moved, compute_s, memory_s, work_s, launch_s = (
        float(column[g]) for column in columns.values()
    )
    if launch_s > work_s:
        bound = "launch"
    else:
        bound = "compute" if compute_s >= memory_s and compute_s > 0 else "memory"
    return OperatorShare(
        name=groups.name[g],
        operator_class=groups.operator_class[g],
        phase=groups.phase[g],
        shape=groups.shape[g],
        count=int(groups.count[g]),
        flops=flops,
        bytes=moved,
        intensity=flops / moved if moved > 0 else None,
        time_s=time_s,
        achieved_flops_per_s=flops / time_s if time_s > 0 else 0.0,
        # Equal operators run on one unit: the rate follows from the sums.
        peak_flops_per_s=flops / compute_s if compute_s > 0 else None,
        bound=bound,
    )


def _group(graph: Graph) -> NodeGroups:
    table = node_table(graph)
    flops, moved = np.asarray(table.cost.flops).tolist(), table.traffic_bytes.tolist()
    classes = np.asarray(table.cost.op_class, dtype=np.int64).tolist()
    wide = table.column("input_item_bytes").tolist()
    place: dict[tuple[object, ...], int] = {}
    group_of = np.empty(len(graph.nodes), dtype=np.int64)
    for i, node in enumerate(graph.nodes):
        shape = _written(graph, node.outputs)
        key = (node.op, node.phase.value, classes[i], shape, flops[i], moved[i], wide[i])
        group_of[i] = place.setdefault(key, len(place))
    keys = list(place)
    return NodeGroups(
        group_of=group_of,
        count=np.bincount(group_of, minlength=len(keys)),
        name=tuple(str(key[0]) for key in keys),
        operator_class=tuple(OP_CLASSES[key[2]].value for key in keys),  # type: ignore[call-overload]
        phase=tuple(str(key[1]) for key in keys),
        shape=tuple(key[3] for key in keys),  # type: ignore[misc]
    )


def _written(graph: Graph, outputs: tuple[int, ...]) -> tuple[int, ...]:
    shapes = [graph.tensors[i].shape for i in outputs]
    return max(shapes, key=lambda s: int(np.prod(s)), default=())

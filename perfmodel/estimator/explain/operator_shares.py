"""Divide the time of a step over its operators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfmodel.client.answers import ClassShare, OperatorShare
from perfmodel.estimator.evidence.step_bounds import FEWER_MULTIPLICATIONS
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.nodes import OP_CLASSES, PHASES, node_table
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.predictors.explanation import NodeParts
from perfmodel.types import Phase

#: What the time of an operator rests on.
KERNELS, MODEL = "kernels", "model"
_OPTIMIZER = PHASES.index(Phase.OPTIMIZER)
_CONVOLUTION = OP_CLASSES.index(OpClass.CONVOLUTION)


class _Likeness(NamedTuple):
    """What a reader would call nodes equal by."""

    op: str
    phase: str
    op_class: int
    shape: tuple[int, ...]
    flops: float
    moved_bytes: float
    input_item_bytes: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Columns:
    """Sums over the nodes of each of some groups, arrays of one shape."""

    count: IntArray
    share: FloatArray
    flops: FloatArray
    moved_bytes: FloatArray
    compute_s: FloatArray
    memory_s: FloatArray
    work_s: FloatArray
    launch_s: FloatArray
    by_kernels: FloatArray

    @classmethod
    def of(cls, nodes: NodeParts, calls: IntArray, group_of: IntArray, groups: int) -> _Columns:
        def total(of_node: FloatArray) -> FloatArray:
            found = np.bincount(group_of, weights=of_node * calls, minlength=groups)
            return found.astype(np.float64)

        return cls(
            count=np.bincount(group_of, weights=calls, minlength=groups).astype(np.int64),
            share=total(_shares(nodes, calls)),
            flops=total(nodes.flops),
            moved_bytes=total(nodes.moved_bytes),
            compute_s=total(nodes.compute_s),
            memory_s=total(nodes.memory_s),
            work_s=total(nodes.work_s),
            launch_s=total(nodes.launch_s),
            by_kernels=total(_by_kernels(nodes)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class StepShares:
    """What classes and groups of operators have in a step on one accelerator."""

    likeness: tuple[_Likeness, ...]
    of_class: _Columns
    of_group: _Columns

    @classmethod
    def of(cls, graph: Graph, nodes: NodeParts, micro_batches: int = 1) -> StepShares:
        """Add up the nodes of a graph, all but those of the optimizer once for each micro-batch."""
        likeness, group_of = _groups(graph)
        cost = node_table(graph).cost
        classes = np.asarray(cost.op_class, dtype=np.int64)
        calls = np.where(np.asarray(cost.phase) == _OPTIMIZER, 1, micro_batches)
        return cls(
            likeness=likeness,
            of_class=_Columns.of(nodes, calls, classes, len(OP_CLASSES)),
            of_group=_Columns.of(nodes, calls, group_of, len(likeness)),
        )

    def classes(self, step_s: float, cores: float = 1.0) -> tuple[ClassShare, ...]:
        """Return what each class of operators takes of a step, most time first.

        Parameters
        ----------
        step_s : float
            What all of them add up to.
        cores : float
            Share of those of the accelerator that compute the step.
        """
        own, codes = self.of_class, [like.op_class for like in self.likeness]
        times_s = np.zeros(len(OP_CLASSES))
        np.add.at(times_s, codes, self._times_s(step_s, cores))
        return tuple(
            ClassShare(
                name=OP_CLASSES[code].value,
                count=int(own.count[code]),
                flops=float(own.flops[code]),
                bytes=float(own.moved_bytes[code]),
                time_s=float(times_s[code]),
                share=float(times_s[code] / step_s),
            )
            for code in _most_first(times_s, own.count)
        )

    def operators(self, step_s: float, most: int, cores: float = 1.0) -> tuple[OperatorShare, ...]:
        """Return what groups of equal operators take of a step, most time first."""
        times_s = self._times_s(step_s, cores)
        order = _most_first(times_s, self.of_group.count)[:most]
        return tuple(self._operator(g, float(times_s[g]), cores) for g in order)

    def _times_s(self, step_s: float, cores: float) -> FloatArray:
        """Divide a step over the groups of operators, none of them faster than its peak."""
        fewer = [FEWER_MULTIPLICATIONS if like.op_class == _CONVOLUTION else 1.0
                 for like in self.likeness]  # fmt: skip
        return _divided(step_s, self.of_group.share, self.of_group.compute_s / fewer / cores)

    def _operator(self, g: int, time_s: float, cores: float) -> OperatorShare:
        own, like = self.of_group, self.likeness[g]
        flops, moved, compute_s = (
            float(column[g]) for column in (own.flops, own.moved_bytes, own.compute_s)
        )
        return OperatorShare(
            name=like.op,
            operator_class=OP_CLASSES[like.op_class].value,
            phase=like.phase,
            shape=like.shape,
            count=int(own.count[g]),
            flops=flops,
            bytes=moved,
            intensity=flops / moved if moved > 0 else None,
            time_s=time_s,
            achieved_flops_per_s=flops / time_s if time_s > 0 else 0.0,
            # Equal operators run on one unit: its rate follows from the sums.
            peak_flops_per_s=cores * flops / compute_s if compute_s > 0 else None,
            bound=_bound(own, g),
            rests_on=KERNELS if own.by_kernels[g] else MODEL,
        )


def _most_first(times_s: FloatArray, count: IntArray) -> list[int]:
    """Return the groups that are not empty."""
    order = np.argsort(-times_s, kind="stable")
    return [g for g in order.tolist() if count[g]]


def _divided(step_s: float, share: FloatArray, least_s: FloatArray) -> FloatArray:
    """Divide a step by shares that add up to 1, so that no part is shorter than it can be.

    Where the step is shorter than these together, something else carries it out, and the shares
    alone count.

    Examples
    --------
    >>> _divided(1.0, np.array([0.2, 0.4, 0.4]), np.array([0.4, 0.0, 0.1])).tolist()
    [0.4, 0.3, 0.3]
    """
    times_s = share * step_s
    if least_s.sum() > step_s:
        return times_s
    held = np.zeros(len(share), dtype=np.bool_)
    while np.any(short := ~held & (times_s < least_s)):
        held |= short
        free = float(share[~held].sum())
        rest = (step_s - float(least_s[held].sum())) / free if free > 0 else 0.0
        times_s = np.where(held, least_s, share * rest)
    return times_s * (step_s / float(times_s.sum()))


def _bound(columns: _Columns, g: int) -> str:
    if columns.launch_s[g] > columns.work_s[g]:
        return "launch"
    computes = columns.compute_s[g] >= columns.memory_s[g] and columns.compute_s[g] > 0
    return "compute" if computes else "memory"


def _by_kernels(nodes: NodeParts) -> FloatArray:
    flags = nodes.by_kernels
    return np.zeros(len(nodes.work_s)) if flags is None else flags.astype(np.float64)


def _shares(nodes: NodeParts, calls: IntArray) -> FloatArray:
    """Return the part of each call in the step; evenly where no node takes any time."""
    times_s = nodes.time_s
    total = float((times_s * calls).sum())
    if total <= 0:
        return np.full(len(times_s), 1.0 / max(int(calls.sum()), 1))
    return np.asarray(times_s / total)


def _groups(graph: Graph) -> tuple[tuple[_Likeness, ...], IntArray]:
    """Group the nodes of a graph by operator, phase, what they write, and work; kept with it.

    Returns
    -------
    likeness : tuple of _Likeness
        What the nodes of each group have in common.
    group_of : ndarray of int64, shape (nodes,)
    """
    kept: tuple[tuple[_Likeness, ...], IntArray] | None = graph.__dict__.get("_node_groups")
    if kept is not None:
        return kept
    table = node_table(graph)
    columns = zip(
        graph.nodes,
        np.asarray(table.cost.op_class, dtype=np.int64).tolist(),
        np.asarray(table.cost.flops, dtype=np.float64).tolist(),
        table.traffic_bytes.tolist(),
        table.column("input_item_bytes").tolist(),
        strict=True,
    )
    place: dict[_Likeness, int] = {}
    group_of = np.empty(len(graph.nodes), dtype=np.int64)
    for i, (node, op_class, flops, moved, item) in enumerate(columns):
        shape = max((graph.tensors[t].shape for t in node.outputs), key=math.prod, default=())
        like = _Likeness(node.op, node.phase.value, op_class, shape, flops, moved, item)
        group_of[i] = place.setdefault(like, len(place))
    graph.__dict__["_node_groups"] = tuple(place), group_of
    return tuple(place), group_of

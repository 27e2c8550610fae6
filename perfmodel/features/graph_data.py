"""A workload as arrays for message passing, and several of them as one.

Nodes are classes of equal nodes (:mod:`perfmodel.features.node_rows`): a network with twelve
equal layers costs as much as one with two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.node_rows import NodeRows, node_rows
from perfmodel.features.roofline import NODE_COLUMNS
from perfmodel.graph.workload import Workload

#: Codes without an order; the message passing tells a node its neighbours anyway.
_LEFT_OUT = frozenset({"producer_class", "consumer_class"})
GRAPH_COLUMNS: tuple[str, ...] = tuple(c for c in NODE_COLUMNS if c not in _LEFT_OUT)
_KEPT = [position for position, name in enumerate(NODE_COLUMNS) if name not in _LEFT_OUT]

#: Both :attr:`StepData.bound_s` and times are kept away from 0 by this much.
SHORTEST_NODE_S = 1e-9

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepData:
    """One or several steps.

    Parameters
    ----------
    x : ndarray of float32, shape (classes, columns)
    reads, read_by : ndarray of int64, shape (2, edges)
        From and to.
    count, bound_s, roofline_s : ndarray of float32, shape (classes,)
    step_of : ndarray of int64, shape (classes,)
        To which of the steps a class belongs.
    first : ndarray of int64, shape (steps,)
        First class of each step.
    """

    x: Float32Array
    reads: IntArray
    read_by: IntArray
    count: Float32Array
    bound_s: Float32Array
    roofline_s: Float32Array
    step_of: IntArray
    first: IntArray

    @classmethod
    def join(cls, parts: Sequence[StepData]) -> StepData:
        """Return several single steps as one without edges between them.

        Parameters
        ----------
        parts : sequence of StepData
            At least one.
        """
        sizes = np.array([len(part.x) for part in parts], dtype=np.int64)
        first = np.cumsum(sizes) - sizes
        begins = first.tolist()
        return cls(
            x=np.concatenate([part.x for part in parts]),
            reads=np.concatenate([p.reads + b for p, b in zip(parts, begins, strict=True)], 1),
            read_by=np.concatenate([p.read_by + b for p, b in zip(parts, begins, strict=True)], 1),
            count=np.concatenate([part.count for part in parts]),
            bound_s=np.concatenate([part.bound_s for part in parts]),
            roofline_s=np.concatenate([part.roofline_s for part in parts]),
            step_of=np.repeat(np.arange(len(parts)), sizes),
            first=first,
        )


def step_data(workload: Workload, *, hops: int) -> StepData:
    """Return the graph of a workload for message passing.

    Parameters
    ----------
    hops : int
        Rounds of message passing that will follow.

    Returns
    -------
    StepData
        Of one step.
    """
    rows = node_rows(workload, hops=hops)
    first = rows.quotient.representative
    return StepData(
        x=np.ascontiguousarray(rows.features[:, _KEPT]),
        reads=rows.quotient.reads,
        read_by=rows.quotient.read_by,
        count=rows.quotient.count.astype(np.float32),
        bound_s=_seconds(rows, rows.roofline.bound_s),
        roofline_s=_seconds(rows, rows.roofline.roofline_s),
        step_of=np.zeros(len(first), dtype=np.int64),
        first=np.zeros(1, dtype=np.int64),
    )


def _seconds(rows: NodeRows, values: FloatArray) -> Float32Array:
    chosen = values[rows.quotient.representative]
    return np.maximum(chosen, SHORTEST_NODE_S).astype(np.float32)

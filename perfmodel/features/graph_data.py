"""A workload as tensors for message passing, and several of them as one.

Nodes are classes of equal nodes (:mod:`perfmodel.features.node_rows`): a network with twelve
equal layers costs as much as one with two. Needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from perfmodel.features.node_rows import NodeRows, node_rows
from perfmodel.features.roofline import NODE_COLUMNS
from perfmodel.graph.workload import Workload

#: Codes without an order; the message passing tells a node its neighbours anyway.
_LEFT_OUT = frozenset({"producer_class", "consumer_class"})
GRAPH_COLUMNS: tuple[str, ...] = tuple(c for c in NODE_COLUMNS if c not in _LEFT_OUT)
_KEPT = [position for position, name in enumerate(NODE_COLUMNS) if name not in _LEFT_OUT]

#: Both :attr:`StepData.bound_s` and times are kept away from 0 by this much.
SHORTEST_NODE_S = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class StepData:
    """One or several steps.

    Parameters
    ----------
    x : Tensor, shape (classes, columns)
    reads, read_by : Tensor of int64, shape (2, edges)
        From and to.
    count, bound_s, roofline_s : Tensor, shape (classes,)
    step_of : Tensor of int64, shape (classes,)
        To which of the steps a class belongs.
    first : Tensor of int64, shape (steps,)
        First class of each step.
    """

    x: torch.Tensor
    reads: torch.Tensor
    read_by: torch.Tensor
    count: torch.Tensor
    bound_s: torch.Tensor
    roofline_s: torch.Tensor
    step_of: torch.Tensor
    first: torch.Tensor

    @classmethod
    def join(cls, parts: Sequence[StepData]) -> StepData:
        """Return several single steps as one without edges between them.

        Parameters
        ----------
        parts : sequence of StepData
            At least one.
        """
        sizes = torch.tensor([len(part.x) for part in parts])
        first = torch.cumsum(sizes, 0) - sizes
        return cls(
            x=torch.cat([part.x for part in parts]),
            reads=torch.cat([p.reads + begin for p, begin in zip(parts, first, strict=True)], 1),
            read_by=torch.cat(
                [p.read_by + begin for p, begin in zip(parts, first, strict=True)], 1
            ),
            count=torch.cat([part.count for part in parts]),
            bound_s=torch.cat([part.bound_s for part in parts]),
            roofline_s=torch.cat([part.roofline_s for part in parts]),
            step_of=torch.repeat_interleave(torch.arange(len(parts)), sizes),
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
        x=torch.from_numpy(np.ascontiguousarray(rows.features[:, _KEPT])),
        reads=torch.from_numpy(rows.quotient.reads),
        read_by=torch.from_numpy(rows.quotient.read_by),
        count=torch.from_numpy(rows.quotient.count.astype(np.float32)),
        bound_s=_seconds(rows, rows.roofline.bound_s),
        roofline_s=_seconds(rows, rows.roofline.roofline_s),
        step_of=torch.zeros(len(first), dtype=torch.int64),
        first=torch.zeros(1, dtype=torch.int64),
    )


def _seconds(rows: NodeRows, values: np.ndarray[Any, np.dtype[np.float64]]) -> torch.Tensor:
    chosen = values[rows.quotient.representative]
    return torch.from_numpy(np.maximum(chosen, SHORTEST_NODE_S).astype(np.float32))

"""A workload as a torch-geometric graph.

Nodes are classes of equal nodes (:mod:`perfmodel.features.quotient`): a network with twelve
equal layers costs as much as one with two. Needs torch and torch-geometric.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from perfmodel.features.node_rows import NodeRows, node_rows
from perfmodel.features.roofline import NODE_COLUMNS
from perfmodel.graph.workload import Workload

#: Codes without an order; the message passing tells a node its neighbours anyway.
_LEFT_OUT = frozenset({"producer_class", "consumer_class"})
GRAPH_COLUMNS: tuple[str, ...] = tuple(c for c in NODE_COLUMNS if c not in _LEFT_OUT)
_KEPT = [position for position, name in enumerate(NODE_COLUMNS) if name not in _LEFT_OUT]

#: Both :attr:`Data.bound_s` and times are kept away from 0 by this much.
SHORTEST_NODE_S = 1e-9


class StepData(Data):  # type: ignore[misc]
    """Data whose two edge lists are shifted when graphs are put into one batch."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return by how much an attribute grows from graph to graph."""
        if key in ("reads", "read_by"):
            return self.num_nodes
        return super().__inc__(key, value, *args, **kwargs)

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the dimension along which graphs are put together."""
        if key in ("reads", "read_by"):
            return 1
        return super().__cat_dim__(key, value, *args, **kwargs)


def step_data(workload: Workload, *, hops: int) -> StepData:
    """Return the graph of a workload for message passing.

    Parameters
    ----------
    workload : Workload
    hops : int
        Rounds of message passing that will follow.

    Returns
    -------
    StepData
        ``x`` (classes, columns), ``reads`` and ``read_by`` (2, edges: from, to), ``count``,
        ``bound_s``, ``roofline_s`` (classes,).
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
        num_nodes=len(first),
    )


def _seconds(rows: NodeRows, values: np.ndarray[Any, np.dtype[np.float64]]) -> torch.Tensor:
    chosen = values[rows.quotient.representative]
    return torch.from_numpy(np.maximum(chosen, SHORTEST_NODE_S).astype(np.float32))

"""From which node to which each allocation of a step lives.

A storage (one allocation, however many tensors view it) lives from the node that produces it to
the last node that reads it; both nodes need it in full. What is there before the step (inputs,
parameters, optimizer state) lives through all of it. The gradient of a parameter lives until the
optimizer has read it and then to the end of the step, where the next one drops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.graph.ir import Graph
from perfmodel.types import Phase, Role

#: Part of the names of attention that is one kernel.
FUSED_ATTENTION = "scaled_dot_product"


class Held(IntEnum):
    """What an allocation is held for."""

    PARAMETER = 0
    BUFFER = 1
    INPUT = 2
    OPTIMIZER_STATE = 3
    GRADIENT = 4
    ACTIVATION = 5


_HELD_FOR = {
    Role.PARAMETER: Held.PARAMETER,
    Role.BUFFER: Held.BUFFER,
    Role.CONSTANT: Held.BUFFER,
    Role.INPUT: Held.INPUT,
    Role.OPTIMIZER_STATE: Held.OPTIMIZER_STATE,
    Role.GRADIENT: Held.GRADIENT,
    Role.ACTIVATION: Held.ACTIVATION,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Lifetimes:
    """The allocations of one step.

    Parameters
    ----------
    size_bytes : ndarray of float, shape (allocations,)
    birth, death : ndarray of int, shape (allocations,)
        First and last node that needs it, ``birth <= death``.
    held : ndarray of int8, shape (allocations,)
        A :class:`Held`.
    node_count : int
        Nodes of the step, >= 1.
    optimizer_start : int
        First node of the optimizer; ``node_count`` where there is none.
    """

    size_bytes: FloatArray
    birth: IntArray
    death: IntArray
    held: npt.NDArray[np.int8]
    node_count: int
    optimizer_start: int

    def bytes_of(self, held: Held) -> float:
        """Return the bytes of all allocations held for one purpose."""
        return float(self.size_bytes[self.held == held].sum())

    def occupied(self, chosen: npt.NDArray[np.bool_]) -> FloatArray:
        r"""Return the bytes that chosen allocations occupy at each node.

        .. math:: m_i = \sum_s \mathrm{size}_s\,[\mathrm{birth}_s \le i \le \mathrm{death}_s]

        Parameters
        ----------
        chosen : ndarray of bool, shape (allocations,)
        """
        change = np.zeros(self.node_count + 1)
        np.add.at(change, self.birth[chosen], self.size_bytes[chosen])
        np.add.at(change, self.death[chosen] + 1, -self.size_bytes[chosen])
        return np.asarray(np.cumsum(change)[:-1])


def lifetimes(graph: Graph, *, selective_checkpointing: bool = False) -> Lifetimes:
    """Return the allocations of a step with their lives.

    Parameters
    ----------
    selective_checkpointing : bool
        The matrices of attention are forgotten after the forward pass and computed again before
        the backward pass reads them. (Full checkpointing is in the graph: it has the nodes that
        compute again.)
    """
    slots: dict[int, int] = {}
    slot = np.array(
        [slots.setdefault(tensor.storage, len(slots)) for tensor in graph.tensors], dtype=np.int64
    )
    size, held = _sizes(graph, slot, len(slots))
    nodes = max(len(graph.nodes), 1)
    birth, death = _first_and_last(graph, slot, len(slots), nodes)
    persistent = held < Held.GRADIENT
    birth[persistent] = 0
    death[persistent | ((held == Held.GRADIENT) & _reaches_optimizer(graph, slot, held))] = (
        nodes - 1
    )
    found = Lifetimes(
        size_bytes=size,
        birth=birth,
        death=death,
        held=held,
        node_count=nodes,
        optimizer_start=_optimizer_start(graph),
    )
    return _split(found, _recomputed(graph, slot, found)) if selective_checkpointing else found


def _sizes(graph: Graph, slot: IntArray, count: int) -> tuple[FloatArray, npt.NDArray[np.int8]]:
    # Sizes and roles are those of kinds of tensors, of which there are few.
    kind = np.array(graph.kinds.tensors, dtype=np.int64)
    first = [graph.tensors[index] for index in graph.kinds.first_tensors]
    size = np.zeros(count)
    np.maximum.at(size, slot, np.array([float(t.size_bytes) for t in first])[kind])
    held = np.full(count, Held.ACTIVATION, dtype=np.int8)
    role = np.array([_HELD_FOR[tensor.role] for tensor in first], dtype=np.int8)[kind]
    # Backwards, so that the first tensor of a storage has the last word.
    held[slot[::-1]] = role[::-1]
    held[slot[role == Held.GRADIENT]] = Held.GRADIENT
    return size, held


def _first_and_last(
    graph: Graph, slot: IntArray, count: int, nodes: int
) -> tuple[IntArray, IntArray]:
    birth = np.full(count, nodes, dtype=np.int64)
    death = np.zeros(count, dtype=np.int64)
    for inputs, touched in ((True, _touched(graph, True)), (False, _touched(graph, False))):
        position, index = touched
        np.maximum.at(death, slot[index], position)
        if not inputs:
            np.minimum.at(birth, slot[index], position)
    # What nothing produces was there before.
    return np.where(birth == nodes, 0, birth), death


def _touched(graph: Graph, inputs: bool) -> tuple[IntArray, IntArray]:
    """Return pairs of node and tensor, of the inputs or of the outputs."""
    rows = [node.inputs if inputs else node.outputs for node in graph.nodes]
    position = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return position, np.array([index for row in rows for index in row], dtype=np.int64)


def _reaches_optimizer(
    graph: Graph, slot: IntArray, held: npt.NDArray[np.int8]
) -> npt.NDArray[np.bool_]:
    """Tell which gradients the optimizer reads; those stay until the next step."""
    read = np.zeros(len(held), dtype=np.bool_)
    for node in graph.nodes:
        if node.phase is Phase.OPTIMIZER and node.inputs:
            read[slot[list(node.inputs)]] = True
    return read


def _optimizer_start(graph: Graph) -> int:
    for position, node in enumerate(graph.nodes):
        if node.phase is Phase.OPTIMIZER:
            return position
    return max(len(graph.nodes), 1)


def _recomputed(graph: Graph, slot: IntArray, found: Lifetimes) -> list[tuple[int, int, int]]:
    """Return allocation, last forward and first backward node of each matrix of attention."""
    matrices = {
        int(slot[index])
        for index in _attention_matrices(graph)
        if found.held[slot[index]] == Held.ACTIVATION
    }
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        for s in {int(slot[index]) for index in (*node.inputs, *node.outputs)} & matrices:
            if node.phase is Phase.FORWARD:
                last[s] = position
            elif node.phase is Phase.BACKWARD:
                first.setdefault(s, position)
    return [(s, last[s], first[s]) for s in sorted(last.keys() & first.keys())]


def _attention_matrices(graph: Graph) -> set[int]:
    """Return the tensors that have the elements and the rows of a softmax over attention."""
    written = [graph.tensors[node.outputs[0]] for node in graph.nodes if node.op == "_softmax"]
    sizes = {(one.element_count, one.shape[-1]) for one in written if len(one.shape) >= 3}
    return {
        index
        for index, tensor in enumerate(graph.tensors)
        if tensor.shape and (tensor.element_count, tensor.shape[-1]) in sizes
    }


def computed_again(graph: Graph) -> list[int]:
    """Return the nodes that checkpointing of attention alone runs a second time.

    What writes matrices of attention in the forward pass, and attention that is one kernel.
    """
    matrices = _attention_matrices(graph)
    return [
        position
        for position, node in enumerate(graph.nodes)
        if node.phase is Phase.FORWARD
        and (FUSED_ATTENTION in node.op or not matrices.isdisjoint(node.outputs))
    ]


def _split(found: Lifetimes, gaps: list[tuple[int, int, int]]) -> Lifetimes:
    """Return the lives with each of some allocations cut in two."""
    if not gaps:
        return found
    which, until, again = (np.array(column) for column in zip(*gaps, strict=True))
    death = found.death.copy()
    death[which] = until
    return Lifetimes(
        size_bytes=np.concatenate((found.size_bytes, found.size_bytes[which])),
        birth=np.concatenate((found.birth, again)),
        death=np.concatenate((death, found.death[which])),
        held=np.concatenate((found.held, found.held[which])),
        node_count=found.node_count,
        optimizer_start=found.optimizer_start,
    )

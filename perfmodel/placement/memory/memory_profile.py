"""What the memory of a step is made of: kept with its graph, asked for every accelerator and plan.

At each node the passing allocations are activations ``a_i`` and gradients of parameters ``g_i``.
A plan divides the two by different degrees, so that its peak is a linear form at some node,

    peak = held + max_i (a_i / u + g_i / v),

and only the corners of the convex hull of the points ``(a_i, g_i)`` can be that node. A handful
of them stands for thousands of nodes, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.graph.ir import Graph, Node
from perfmodel.placement.memory.allocator import replay
from perfmodel.placement.memory.liveness import FUSED_ATTENTION, Held, lifetimes

#: Changes with the meaning of a profile, so that kept ones are made again.
PROFILE_VERSION = 2

_CONVOLUTIONS = frozenset({"convolution", "convolution_backward"})


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryProfile:
    """The memory of one step on one accelerator, before any plan divides it.

    Parameters
    ----------
    parameter_bytes, buffer_bytes, input_bytes, optimizer_state_bytes : float
        There through the whole step; buffers include constants.
    gradient_bytes : float
        Of all parameters together.
    activation_corners, gradient_corners : ndarray, shape (corners,)
        Bytes of both at the nodes of the forward and backward pass that can be the peak.
    optimizer_bytes : float
        Most temporaries of the optimizer at one time.
    reserved_ratio : float
        What the caching allocator reserves over what it has given out, >= 1.
    attention_bytes : float
        One matrix of scores for each fused attention that waits for its backward pass, most at one
        time: what attention that is not fused keeps once for each of its operators.
    convolution_bytes : float
        Inputs and outputs of the largest convolution, which scale the workspaces of cuDNN.
    """

    parameter_bytes: float
    buffer_bytes: float
    input_bytes: float
    optimizer_state_bytes: float
    gradient_bytes: float
    activation_corners: FloatArray
    gradient_corners: FloatArray
    optimizer_bytes: float
    largest_parameter_bytes: float
    reserved_ratio: float
    attention_bytes: float = 0.0
    convolution_bytes: float = 0.0

    @property
    def held_bytes(self) -> float:
        """Bytes that are there through the whole step."""
        return (
            self.parameter_bytes + self.buffer_bytes + self.input_bytes + self.optimizer_state_bytes
        )

    @property
    def peak_tensor_bytes(self) -> float:
        """Most bytes of tensors at one time, on one accelerator and without any overhead."""
        passing = float((self.activation_corners + self.gradient_corners).max())
        return self.held_bytes + max(passing, self.gradient_bytes + self.optimizer_bytes)


def tensors_of(peak_bytes: float) -> MemoryProfile:
    """Return the profile of tensors of which only their peak is known."""
    return MemoryProfile(
        parameter_bytes=0.0,
        buffer_bytes=peak_bytes,
        input_bytes=0.0,
        optimizer_state_bytes=0.0,
        gradient_bytes=0.0,
        activation_corners=np.zeros(1),
        gradient_corners=np.zeros(1),
        optimizer_bytes=0.0,
        largest_parameter_bytes=0.0,
        reserved_ratio=1.0,
    )


def memory_profile(graph: Graph, *, selective_checkpointing: bool = False) -> MemoryProfile:
    """Return what the memory of a step is made of.

    Parameters
    ----------
    selective_checkpointing : bool
        As of :func:`.liveness.lifetimes`.
    """
    lives = lifetimes(graph, selective_checkpointing=selective_checkpointing)
    activations = lives.occupied(lives.held == Held.ACTIVATION)
    gradients = lives.occupied(lives.held == Held.GRADIENT)
    start = lives.optimizer_start
    corners = _hull(activations[: max(start, 1)], gradients[: max(start, 1)])
    replayed = replay(lives)
    parameters = lives.size_bytes[lives.held == Held.PARAMETER]
    return MemoryProfile(
        parameter_bytes=lives.bytes_of(Held.PARAMETER),
        buffer_bytes=lives.bytes_of(Held.BUFFER),
        input_bytes=lives.bytes_of(Held.INPUT),
        optimizer_state_bytes=lives.bytes_of(Held.OPTIMIZER_STATE),
        gradient_bytes=lives.bytes_of(Held.GRADIENT),
        activation_corners=corners[0],
        gradient_corners=corners[1],
        optimizer_bytes=float(activations[start:].max(initial=0.0)),
        largest_parameter_bytes=float(parameters.max(initial=0.0)),
        reserved_ratio=_ratio(replayed.peak_reserved, replayed.peak_allocated),
        attention_bytes=_attention_bytes(graph, selective_checkpointing),
        convolution_bytes=_convolution_bytes(graph),
    )


def _hull(across: FloatArray, up: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the hull of points that are largest in some direction (u, v) >= 0.

    The upper right part of the convex hull, walked from the highest point to the rightmost one.
    """
    order = np.lexsort((-across, -up))
    best_across = np.maximum.accumulate(across[order])
    # Only points further right than all higher ones.
    ahead = np.r_[True, best_across[1:] > best_across[:-1]]
    corners: list[tuple[float, float]] = []
    for x, y in zip(across[order][ahead].tolist(), up[order][ahead].tolist(), strict=True):
        while len(corners) >= 2 and _turns_left(corners[-2], corners[-1], (x, y)):
            corners.pop()
        corners.append((x, y))
    found = np.array(corners)
    return found[:, 0], found[:, 1]


def _turns_left(
    first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]
) -> bool:
    """Tell whether the middle point lies on or below the line between the other two."""
    return (middle[0] - first[0]) * (last[1] - first[1]) >= (middle[1] - first[1]) * (
        last[0] - first[0]
    )


def _ratio(reserved: int, allocated: int) -> float:
    return max(1.0, reserved / allocated) if allocated > 0 else 1.0


def _attention_bytes(graph: Graph, selective_checkpointing: bool) -> float:
    """Return the most bytes of score matrices that wait for their backward pass at one time.

    What is computed again waits from there on: with checkpointing of attention alone every matrix,
    with that of layers those of one layer, whose second call is in the graph.
    """
    calls: dict[int, tuple[int, float]] = {}
    change = np.zeros(len(graph.nodes) + 1)
    for position, node in enumerate(graph.nodes):
        if FUSED_ATTENTION not in node.op:
            continue
        if not node.op.endswith("_backward"):
            calls |= dict.fromkeys(node.outputs, (position, _scores_bytes(graph, node)))
        # Sums of the rows, which only this call writes, come last.
        elif call := next((calls[i] for i in reversed(node.inputs) if i in calls), None):
            change[position if selective_checkpointing else call[0]] += call[1]
            change[position + 1] -= call[1]
    return float(np.cumsum(change).max())


def _scores_bytes(graph: Graph, node: Node) -> float:
    """Bytes of (batch, heads, queries, keys) in the type of the query."""
    query, key = (graph.tensors[index] for index in node.inputs[:2])
    rows = query.element_count // max(query.shape[-1], 1)
    return float(rows * key.shape[-2] * query.size_bytes / max(query.element_count, 1))


def _convolution_bytes(graph: Graph) -> float:
    different = [graph.nodes[position] for position in graph.kinds.first_nodes]
    sizes = [
        sum(graph.tensors[index].size_bytes for index in (*node.inputs, *node.outputs))
        for node in different
        if node.op in _CONVOLUTIONS
    ]
    return float(max(sizes, default=0))

"""What a placement needs to know of a job's step beyond its time on one accelerator.

When a gradient is ready depends on how long the work before it takes. That is not known for each
node, so nodes are weighted by their time on a typical accelerator,

    w_i = max(F_i / rate_i, B_i / bandwidth) + launch,

with F FLOPs and B bytes of node i. The shares of a step that follow are only used as shares: the
time of the step itself comes from a prediction or a measurement.

A gradient is a tensor of that role which the backward pass writes; it is ready when its storage
is written for the last time. With several micro-batches that is in the last of them. Tied
parameters have one gradient, parameters that the loss does not reach have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.nodes import PHASES, NodeTable, node_table
from perfmodel.graph.ir import Graph
from perfmodel.types import Phase, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class StepProfile:
    """Volumes and shares of one step of one replica.

    Parameters
    ----------
    parameter_bytes, gradient_bytes : float
        What trainable and frozen parameters occupy, and their gradients; none in inference.
    input_bytes : float
        Inputs of the step as they arrive on the accelerator.
    forward_share, backward_share, optimizer_share : float
        Shares of the time of the step on one accelerator; they add up to 1.
    gradient_ready : ndarray, shape (points,)
        Share of the step that has passed when each piece of the gradients is ready, ascending.
    gradient_piece_bytes : ndarray, shape (points,)
        Bytes of each piece; they add up to ``gradient_bytes``.
    node_count : float
        Calls of operators, which the host has to launch.
    adding_share : float
        What adding all gradients to those of another micro-batch takes, as a share of the step.
    """

    parameter_bytes: float
    gradient_bytes: float
    input_bytes: float
    forward_share: float
    backward_share: float
    optimizer_share: float
    gradient_ready: FloatArray
    gradient_piece_bytes: FloatArray
    node_count: float
    adding_share: float = 0.0


#: Rates of the typical accelerator, between those of a V100 and an A100 in real steps.
_NARROW_MATRIX_FLOPS = 1e14
_WIDE_MATRIX_FLOPS = 3e13
_VECTOR_FLOPS = 1.2e13
_BANDWIDTH_BYTES_PER_S = 1e12
_LAUNCH_S = 5e-6
_WIDE_ITEM_BYTES = 4.0


def step_profile(graph: Graph) -> StepProfile:
    """Return the volumes and shares of one step.

    Parameters
    ----------
    graph : Graph
        One whole step, all its micro-batches.

    Returns
    -------
    StepProfile
        Of inference, where nothing runs backward: no gradients, ``forward_share`` 1.
    """
    table = node_table(graph)
    seconds = typical_node_seconds(table)
    forward, backward, optimizer = _phase_shares(table, seconds)
    ready, piece = _gradients(graph, seconds)
    # To add a piece to another two are read and one is written.
    adding_s = float((3.0 * piece / _BANDWIDTH_BYTES_PER_S + _LAUNCH_S).sum())
    return StepProfile(
        parameter_bytes=float(graph.storage_bytes(Role.PARAMETER)),
        gradient_bytes=float(piece.sum()),
        input_bytes=float(graph.storage_bytes(Role.INPUT)),
        forward_share=forward,
        backward_share=backward,
        optimizer_share=optimizer,
        gradient_ready=ready,
        gradient_piece_bytes=piece,
        node_count=float(np.count_nonzero(~table.is_view)),
        adding_share=adding_s / max(float(seconds.sum()), 1e-30),
    )


def typical_node_seconds(table: NodeTable) -> FloatArray:
    """Return the time of each node on a typical accelerator; views take none."""
    wide = table.column("input_item_bytes") >= _WIDE_ITEM_BYTES
    matrix = np.where(wide, _WIDE_MATRIX_FLOPS, _NARROW_MATRIX_FLOPS)
    rate = np.where(np.asarray(table.cost.engine_is_matrix), matrix, _VECTOR_FLOPS)
    compute = np.asarray(table.cost.flops) / rate
    memory = np.asarray(table.traffic_bytes) / _BANDWIDTH_BYTES_PER_S
    return np.where(table.is_view, 0.0, np.maximum(compute, memory) + _LAUNCH_S)


def _phase_shares(table: NodeTable, seconds: FloatArray) -> tuple[float, float, float]:
    phase = np.asarray(table.cost.phase, dtype=np.int64)
    spent = np.bincount(phase, weights=seconds, minlength=len(PHASES))
    total = float(spent.sum())
    if total <= 0:
        return 1.0, 0.0, 0.0
    forward, backward = (float(spent[PHASES.index(p)] / total) for p in _BEFORE_OPTIMIZER)
    return forward, backward, max(0.0, 1.0 - forward - backward)


_BEFORE_OPTIMIZER = (Phase.FORWARD, Phase.BACKWARD)


def _gradients(graph: Graph, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return when the gradients are ready, as shares of the step, and their bytes; ascending."""
    size: dict[int, int] = {}
    for tensor in graph.tensors:
        if tensor.role is Role.GRADIENT:
            size[tensor.storage] = max(size.get(tensor.storage, 0), tensor.size_bytes)
    last: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        if node.phase is Phase.BACKWARD:
            for index in node.outputs:
                last[graph.tensors[index].storage] = position
    found = sorted((last[storage], size[storage]) for storage in size if storage in last)
    if not found:
        return np.zeros(0), np.zeros(0)
    positions, sizes = np.array(found, dtype=np.int64).T
    passed = np.cumsum(seconds)
    share = passed[positions] / max(float(passed[-1]), 1e-30)
    return np.minimum(share, 1.0), sizes.astype(np.float64)

from __future__ import annotations

import numpy as np

from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.placement.memory.liveness import Held, computed_again, lifetimes
from perfmodel.types import Phase, Role


def _tensor(
    shape: tuple[int, ...], storage: int, role: Role = Role.ACTIVATION, dtype: str = "float32"
) -> Tensor:
    return Tensor(shape=shape, dtype=dtype, role=role, storage=storage)


def _node(
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    phase: Phase = Phase.FORWARD,
    op: str = "relu",
) -> Node:
    return Node(op=op, phase=phase, inputs=inputs, outputs=outputs)


def test_an_allocation_lives_from_its_making_to_its_last_reading() -> None:
    tensors = (_tensor((4,), 0, Role.INPUT), _tensor((5,), 1), _tensor((6,), 2))
    graph = Graph(nodes=(_node((0,), (1,)), _node((1,), (2,)), _node((0, 2), ())), tensors=tensors)
    lives = lifetimes(graph)
    assert lives.size_bytes.tolist() == [16, 20, 24]
    assert lives.birth.tolist() == [0, 0, 1]
    assert lives.death.tolist() == [2, 1, 2]
    # Activations: 20 at node 0, 20 + 24 at node 1, 24 at node 2.
    assert lives.occupied(lives.held == Held.ACTIVATION).tolist() == [20, 44, 24]


def test_a_gradient_of_a_parameter_stays_until_the_step_ends() -> None:
    tensors = (
        _tensor((8,), 0, Role.PARAMETER),
        _tensor((8,), 1, Role.GRADIENT),
        _tensor((8,), 2),
        _tensor((8,), 0, Role.PARAMETER),
    )
    nodes = (
        _node((0,), (1,), Phase.BACKWARD),
        _node((1,), (2,), Phase.OPTIMIZER),
        _node((0, 2), (3,), Phase.OPTIMIZER),
    )
    lives = lifetimes(Graph(nodes=nodes, tensors=tensors))
    assert lives.held.tolist() == [Held.PARAMETER, Held.GRADIENT, Held.ACTIVATION]
    assert lives.death.tolist() == [2, 2, 2]
    assert lives.optimizer_start == 1
    assert lives.bytes_of(Held.GRADIENT) == 32


def test_selective_checkpointing_forgets_the_matrices_of_attention() -> None:
    # scores -> softmax -> weighted sum -> (backward) softmax read again; (2, 3, 3) is attention.
    tensors = (
        _tensor((2, 3, 4), 0, Role.INPUT),
        _tensor((2, 3, 3), 1),
        _tensor((2, 3, 3), 2),
        _tensor((2, 3, 4), 3),
        _tensor((2, 3, 4), 4),
        _tensor((2, 3, 3), 5),
    )
    nodes = (
        _node((0,), (1,), op="bmm"),
        _node((1,), (2,), op="_softmax"),
        _node((2, 0), (3,), op="bmm"),
        _node((3,), (4,)),
        _node((4, 2), (5,), Phase.BACKWARD, op="_softmax_backward_data"),
    )
    graph = Graph(nodes=nodes, tensors=tensors)
    kept, forgotten = lifetimes(graph), lifetimes(graph, selective_checkpointing=True)
    everything = [np.ones(len(lives.held), dtype=bool) for lives in (kept, forgotten)]
    # Bytes: input 96, scores and softmax 72 each, sums 96 each. At node 3 the softmax (72) waits
    # for the backward pass: 96 + 72 + 96 + 96; forgotten it is away.
    assert kept.occupied(everything[0])[3] == 96 + 72 + 96 + 96
    assert forgotten.occupied(everything[1])[3] == 96 + 96 + 96
    # Where it is read again it is there again.
    assert kept.occupied(everything[0])[4] == forgotten.occupied(everything[1])[4]


def test_what_has_as_many_elements_as_a_matrix_is_none() -> None:
    # Two samples of three words: matrices (2, 3, 3), and features (2, 9).
    tensors = (
        _tensor((2, 9), 0, Role.INPUT),
        _tensor((2, 3, 3), 1),
        _tensor((2, 3, 3), 2),
        _tensor((2, 9), 3),
        _tensor((2, 9), 4),
    )
    nodes = (
        _node((0,), (1,), op="bmm"),
        _node((1,), (2,), op="_softmax"),
        _node((2,), (3,), op="relu"),
        _node((3, 2), (4,), Phase.BACKWARD, op="threshold_backward"),
    )
    graph = Graph(nodes=nodes, tensors=tensors)
    assert computed_again(graph) == [0, 1]
    kept, forgotten = lifetimes(graph), lifetimes(graph, selective_checkpointing=True)
    # The softmax (72 bytes) is forgotten, what relu wrote (72) waits.
    assert forgotten.held.tolist() == [*kept.held.tolist(), Held.ACTIVATION]

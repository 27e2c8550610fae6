from __future__ import annotations

import pytest

from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.placement.data_parallel.step_profile import step_profile
from perfmodel.types import Phase, Role


def _tensor(elements: int, role: Role, storage: int) -> Tensor:
    return Tensor(shape=(elements,), dtype="float32", role=role, storage=storage)


def _training(*, accumulation: int = 1) -> Graph:
    """Two weights; each micro-batch runs forward, then backward through both; then the update."""
    tensors = [
        _tensor(1000, Role.INPUT, 0),
        _tensor(500, Role.PARAMETER, 1),
        _tensor(300, Role.PARAMETER, 2),
    ]
    nodes: list[Node] = []

    def add(phase: Phase, inputs: tuple[int, ...], out: Tensor) -> int:
        tensors.append(out)
        nodes.append(Node(op="relu", phase=phase, inputs=inputs, outputs=(len(tensors) - 1,)))
        return len(tensors) - 1

    grads = [1, 2]
    for _ in range(accumulation):
        hidden = add(Phase.FORWARD, (0, 1), _tensor(1000, Role.ACTIVATION, len(tensors) + 50))
        loss = add(Phase.FORWARD, (hidden, 2), _tensor(1000, Role.ACTIVATION, len(tensors) + 50))
        late = add(Phase.BACKWARD, (loss,), _tensor(300, Role.GRADIENT, 11))
        early = add(Phase.BACKWARD, (loss, hidden), _tensor(500, Role.GRADIENT, 10))
        grads = [early, late]
    add(Phase.OPTIMIZER, (1, grads[0]), _tensor(500, Role.PARAMETER, 1))
    return Graph(nodes=tuple(nodes), tensors=tuple(tensors))


def test_gradients_are_ready_when_the_backward_pass_has_written_them() -> None:
    profile = step_profile(_training())
    # The weight that is used last has its gradient first: 300 then 500 numbers of 4 bytes.
    assert profile.gradient_piece_bytes.tolist() == [1200.0, 2000.0]
    assert profile.gradient_bytes == 3200.0
    assert profile.parameter_bytes == 3200.0
    first, second = profile.gradient_ready
    assert profile.forward_share < first < second
    assert second == pytest.approx(1 - profile.optimizer_share)


def test_the_shares_of_a_step_add_up() -> None:
    profile = step_profile(_training())
    assert profile.forward_share + profile.backward_share + profile.optimizer_share == (
        pytest.approx(1.0)
    )
    assert profile.node_count == 5


def test_gradients_of_several_micro_batches_are_ready_in_the_last() -> None:
    once, twice = (step_profile(_training(accumulation=k)) for k in (1, 2))
    assert twice.gradient_bytes == once.gradient_bytes
    # Everything before the last backward pass has passed: more than half of the step.
    assert twice.gradient_ready[0] > 0.5
    assert twice.gradient_ready[0] > once.gradient_ready[0]


def test_inference_has_no_gradients() -> None:
    tensors = (_tensor(10, Role.INPUT, 0), _tensor(10, Role.ACTIVATION, 1))
    node = Node(op="relu", phase=Phase.FORWARD, inputs=(0,), outputs=(1,))
    profile = step_profile(Graph(nodes=(node,), tensors=tensors))
    assert profile.gradient_bytes == 0
    assert len(profile.gradient_ready) == 0
    assert profile.forward_share == 1.0


def test_a_graph_without_work_is_all_forward() -> None:
    profile = step_profile(Graph(nodes=(), tensors=()))
    assert (profile.forward_share, profile.backward_share, profile.optimizer_share) == (1, 0, 0)

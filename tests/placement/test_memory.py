from __future__ import annotations

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.placement.memory import RUNTIME_BYTES, memory_estimate, peak_tensor_bytes
from perfmodel.types import Phase, Role


def _tensor(elements: int, role: Role, storage: int) -> Tensor:
    return Tensor(shape=(elements,), dtype="float32", role=role, storage=storage)


def _node(inputs: tuple[int, ...], outputs: tuple[int, ...], phase: Phase = Phase.FORWARD) -> Node:
    return Node(op="relu", phase=phase, inputs=inputs, outputs=outputs)


def test_a_chain_keeps_only_neighbours_alive() -> None:
    # input 10 -> a 100 -> b 200 -> c 50 elements of 4 bytes; the input stays.
    tensors = (
        _tensor(10, Role.INPUT, 0),
        _tensor(100, Role.ACTIVATION, 1),
        _tensor(200, Role.ACTIVATION, 2),
        _tensor(50, Role.ACTIVATION, 3),
    )
    graph = Graph(nodes=(_node((0,), (1,)), _node((1,), (2,)), _node((2,), (3,))), tensors=tensors)
    # node 0: 10 + 100; node 1: 10 + 100 + 200; node 2: 10 + 200 + 50.
    assert peak_tensor_bytes(graph) == (10 + 100 + 200) * 4


def test_an_activation_kept_for_the_backward_pass_counts_until_then() -> None:
    tensors = (
        _tensor(10, Role.INPUT, 0),
        _tensor(100, Role.ACTIVATION, 1),
        _tensor(200, Role.ACTIVATION, 2),
        _tensor(50, Role.ACTIVATION, 3),
        _tensor(70, Role.ACTIVATION, 4),
    )
    nodes = (
        _node((0,), (1,)),
        _node((1,), (2,)),
        _node((2,), (3,)),
        _node((3, 1), (4,), Phase.BACKWARD),
    )
    # node 1: 10 + 100 + 200 = 310; node 2: 10 + 100 + 200 + 50 = 360; node 3: 10 + 100 + 50 + 70.
    assert peak_tensor_bytes(Graph(nodes=nodes, tensors=tensors)) == 360 * 4


def test_views_and_in_place_results_are_counted_once() -> None:
    plain = (_tensor(10, Role.INPUT, 0), _tensor(100, Role.ACTIVATION, 1))
    viewed = (*plain, _tensor(100, Role.ACTIVATION, 1))
    graph = Graph(nodes=(_node((0,), (1,)), _node((1,), (2,))), tensors=viewed)
    assert peak_tensor_bytes(graph) == (10 + 100) * 4


def test_parameters_gradients_and_optimizer_state_last_for_the_whole_step() -> None:
    # parameter 1000, its momentum 1000, input 8; forward writes 50, backward the gradient 1000,
    # the optimizer reads it into a temporary of 1000 and writes the parameter in place.
    tensors = (
        _tensor(8, Role.INPUT, 0),
        _tensor(1000, Role.PARAMETER, 1),
        _tensor(1000, Role.OPTIMIZER_STATE, 2),
        _tensor(50, Role.ACTIVATION, 3),
        _tensor(1000, Role.GRADIENT, 4),
        _tensor(1000, Role.ACTIVATION, 5),
        _tensor(1000, Role.PARAMETER, 1),
    )
    nodes = (
        _node((0, 1), (3,)),
        _node((3, 0), (4,), Phase.BACKWARD),
        _node((4, 2), (5,), Phase.OPTIMIZER),
        _node((1, 5), (6,), Phase.OPTIMIZER),
    )
    # The gradient (held for the next step to clear) and the temporary meet in the last node:
    # 8 + 1000 (parameter) + 1000 (state) + 1000 (gradient) + 1000 (temporary).
    assert peak_tensor_bytes(Graph(nodes=nodes, tensors=tensors)) == (8 + 4 * 1000) * 4


def test_a_graph_without_nodes_holds_its_inputs() -> None:
    assert peak_tensor_bytes(Graph(nodes=(), tensors=(_tensor(5, Role.INPUT, 0),))) == 20
    assert peak_tensor_bytes(Graph(nodes=(), tensors=())) == 0


def test_what_fits_is_decided_with_what_the_runtime_holds() -> None:
    gpu = Catalog.default().get("A100-SXM4-80GB")
    room = gpu.memory_bytes - RUNTIME_BYTES["gpu"]
    assert memory_estimate(room, gpu).fits
    assert not memory_estimate(room + 1024, gpu).fits
    assert memory_estimate(0.0, gpu).peak_bytes == RUNTIME_BYTES["gpu"]

from __future__ import annotations

import torch

from perfmodel.predictors.members.gnn_network import (
    NeighbourMean,
    StepNetwork,
    learning_convolution,
)


def test_every_node_hears_the_mean_of_its_neighbours() -> None:
    layer = NeighbourMean(2)
    with torch.no_grad():
        layer.lin_l.weight.copy_(torch.eye(2))
        layer.lin_l.bias.copy_(torch.tensor([0.5, 0.0]))
        layer.lin_r.weight.copy_(10 * torch.eye(2))
    state = torch.tensor([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0]])
    # Nodes 0 and 1 tell node 2; nobody tells node 0; node 2 tells node 1.
    edges = torch.tensor([[0, 1, 2], [2, 2, 1]])
    # 10 * own + mean of those that tell + (0.5, 0).
    expected = [[10.5, 0.0], [30.0 + 0.0 + 0.5, 20.0 + 1.0], [0.0 + 2.0 + 0.5, 10.0 + 1.0]]
    assert layer(state, edges).tolist() == expected


def test_the_order_of_edges_does_not_matter() -> None:
    torch.manual_seed(0)
    layer, state = NeighbourMean(4), torch.randn(6, 4)
    edges = torch.randint(6, (2, 20))
    shuffled = edges[:, torch.randperm(20)]
    torch.testing.assert_close(layer(state, edges), layer(state, shuffled))


def test_a_network_answers_as_the_one_that_learned() -> None:
    torch.manual_seed(1)
    learned = StepNetwork(6, 2, 8, 2, learning_convolution)
    serving = StepNetwork(6, 2, 8, 2)
    serving.load_state_dict(learned.state_dict())
    x, edges = torch.randn(9, 6), torch.randint(9, (2, 25))
    bound_s = torch.rand(9)
    times = [net.node_times(x, edges, edges.flip(0), bound_s) for net in (learned, serving)]
    torch.testing.assert_close(times[0], times[1])

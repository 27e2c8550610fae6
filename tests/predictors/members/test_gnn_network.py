from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from shipped_steps import shipped_workloads, version_folder

from perfmodel.features.graph_data import GRAPH_COLUMNS, StepData, step_data
from perfmodel.features.roofline import SETTING_COLUMNS
from perfmodel.predictors.members.gnn import GraphPredictor
from perfmodel.predictors.members.gnn_learning import LearningNetwork
from perfmodel.predictors.members.gnn_network import Neighbours

MEMBER = version_folder() / "members" / "gnn"


def test_every_node_hears_the_mean_of_its_neighbours() -> None:
    state = np.array([[1, 0], [3, 2], [0, 1]], dtype=np.float32)
    # Nodes 0 and 1 tell node 2; nobody tells node 0; node 2 tells node 1.
    heard = Neighbours.of(np.array([[0, 1, 2], [2, 2, 1]])).means(state)
    assert heard.tolist() == [[0, 0], [0, 1], [(1 + 3) / 2, (0 + 2) / 2]]


def test_nobody_hears_where_nobody_tells() -> None:
    state = np.ones((3, 2), dtype=np.float32)
    assert not Neighbours.of(np.zeros((2, 0), dtype=np.int64)).means(state).any()


@pytest.mark.parametrize("edges", [5, 40, 400])
def test_however_many_tell_a_node_it_hears_their_mean(edges: int) -> None:
    rng = np.random.default_rng(edges)
    state = rng.standard_normal((12, 4)).astype(np.float32)
    told = rng.integers(12, size=(2, edges))
    expected = np.zeros((12, 4))
    for node in np.unique(told[1]):
        expected[node] = state[told[0, told[1] == node]].mean(axis=0)
    assert Neighbours.of(told).means(state) == pytest.approx(expected, abs=1e-6)


@torch.no_grad()
def test_it_answers_what_was_learned() -> None:
    answering = GraphPredictor.load(MEMBER).network_
    assert answering is not None
    hidden = json.loads((MEMBER / "gnn.state.json").read_text())["settings"]["hidden"]
    learning = LearningNetwork(len(GRAPH_COLUMNS), len(SETTING_COLUMNS), hidden, answering.rounds)
    learning.load_state_dict({n: torch.tensor(one) for n, one in answering.weights.items()})
    steps = [step_data(workload, hops=answering.rounds) for workload in shipped_workloads()[::5]]
    learned = learning.node_times(StepData.join(steps)).numpy()
    answered = np.concatenate([answering.node_times(step) for step in steps])
    # Float32 on both sides, added up in another order.
    assert answered == pytest.approx(learned, rel=1e-5)
    assert float(np.median(np.abs(answered / learned - 1.0))) < 1e-6
    settings = np.concatenate([step.x[:1, -len(SETTING_COLUMNS) :] for step in steps])
    factors = learning.log_factors(torch.from_numpy(settings)).numpy()
    assert answering.log_factors(settings) == pytest.approx(factors, abs=1e-6)
    # Weights go there and back.
    again = learning.learned()
    assert again.log_step(steps[0]) == answering.log_step(steps[0])

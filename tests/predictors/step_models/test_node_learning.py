"""The network that answers, against the one that learns: shipped weights on real steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from shipped_steps import shipped_workloads, version_folder

from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import StepTable, step_table
from perfmodel.predictors.step_models.asked_table import AskedTable
from perfmodel.predictors.step_models.node_entries import LAUNCH
from perfmodel.predictors.step_models.node_learning import LearningNetwork
from perfmodel.predictors.step_models.node_net import NodeNet


@pytest.fixture(scope="module", params=["member-0.net", "member-4.net.training"])
def net(request: pytest.FixtureRequest) -> NodeNet:
    return NodeNet.load(version_folder() / "joint", request.param)


@pytest.fixture(scope="module")
def table() -> StepTable:
    return step_table([Step.of(workload) for workload in shipped_workloads()])


def _learning(net: NodeNet) -> LearningNetwork:
    """Return a network with the weights of another."""
    weights = net.network_.to_weights()
    del weights["by_fact"], weights["typical_effect"]
    mean, scale = torch.from_numpy(weights["mean"]), torch.from_numpy(weights["scale"])
    network = LearningNetwork(len(net.devices_), net.settings, mean, scale)
    network.load_state_dict({name: torch.tensor(one) for name, one in weights.items()})
    return network


@torch.no_grad()
def test_it_answers_what_was_learned(net: NodeNet, table: StepTable) -> None:
    learning = _learning(net)
    known = np.array([name in net.devices_ for name in table.devices])
    assert known.sum() > 0
    codes = torch.tensor([net.devices_.index(table.devices[i]) for i in np.flatnonzero(known)])
    (entries,) = AskedTable.of(table).batches(np.flatnonzero(known))
    place = {int(step): i for i, step in enumerate(np.flatnonzero(known))}
    device = codes[[place[int(step)] for step in entries.steps]]
    learned = learning(entries, device).numpy()
    answered, _ = net.log_times(table)
    # Sums of some hundred rows in single precision.
    assert learned == pytest.approx(answered[entries.steps], abs=5e-6)


@torch.no_grad()
def test_a_device_without_records_has_the_effects_of_its_facts(
    net: NodeNet, table: StepTable
) -> None:
    step = next(i for i, name in enumerate(table.devices) if name not in net.devices_)
    learning, facts = _learning(net), table.facts[step]
    effects = net.network_.typical_effect + facts @ net.network_.by_fact
    assert effects[LAUNCH] != 0
    learning.effect[-1] = torch.from_numpy(effects)
    (entries,) = AskedTable.of(table).batches(np.array([step]))
    learned = learning(entries, torch.tensor([len(net.devices_)])).numpy()
    assert learned == pytest.approx(net.log_times(table)[0][step : step + 1], abs=1e-6)

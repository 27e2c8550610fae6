"""What is laid out once for several networks, against laying it out for each."""

from __future__ import annotations

from dataclasses import fields

import joint_world as world
import numpy as np
import torch

from perfmodel.features.steps.step_table import StepTable, step_table
from perfmodel.predictors.step_models.asked_table import AskedTable
from perfmodel.predictors.step_models.node_network import (
    Entries,
    NodeNetwork,
    TableTensors,
    batches,
)

STEPS = [sample.step for sample in world.samples()]


def table(count: int) -> StepTable:
    return step_table((STEPS * (1 + count // len(STEPS)))[:count])


def network(seed: int) -> tuple[NodeNetwork, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    made = NodeNetwork(2)
    width = made.row.in_features
    return made, torch.randn(width), 0.5 + torch.rand(width)


@torch.no_grad()
def test_networks_that_share_a_table_answer_as_if_alone() -> None:
    few = table(5)
    steps, device = np.arange(5), torch.tensor([0, 1, 2, 0, 1])
    for seed in (0, 1):
        made, mean, scale = network(seed)
        (batch,) = batches(few.sketch_of, steps, 256, np.arange(len(few.sketches)))
        alone = made.row_times(TableTensors.of(few, mean, scale), batch, device)
        asked = AskedTable.of(few)
        ((shared, entries),) = asked.batches(steps)
        tensors = asked.tensors(mean, scale)
        together = made.row_times(tensors, shared, device, entries=entries)
        assert np.array_equal(shared.steps, batch.steps)
        for field in fields(alone):
            assert torch.equal(getattr(together, field.name), getattr(alone, field.name))


def test_one_batch_is_laid_out_once() -> None:
    few = table(7)
    asked = AskedTable.of(few)
    assert AskedTable.of(few) is asked
    steps = np.array([1, 3, 4])
    (first,), (again,) = asked.batches(steps), asked.batches(steps.copy())
    assert first[1] is again[1]
    ((_, others),) = asked.batches(np.array([0]))
    assert others is not first[1]
    assert len(others.row) == few.length[few.sketch_of[0]]


def test_nothing_of_many_steps_is_kept() -> None:
    many = table(600)
    assert AskedTable.of(many) is not AskedTable.of(many)
    asked = AskedTable(many)
    rounds = [list(asked.batches(np.arange(600))) for _ in range(2)]
    assert len(rounds[0]) > 1
    assert sorted(np.concatenate([batch.steps for batch, _ in rounds[0]])) == list(range(600))
    for (_, one), (_, other) in zip(*rounds, strict=True):
        assert one is not other
        assert torch.equal(one.rates, other.rates)


def test_entries_of_no_step_are_none() -> None:
    assert list(AskedTable(table(3)).batches(np.zeros(0, dtype=np.int64))) == []
    tensors = TableTensors.unscaled(table(3))
    (batch,) = batches(np.zeros(3, dtype=np.int64), np.arange(1), 1, np.arange(1))
    assert len(Entries.of(tensors, batch).settings) == 1

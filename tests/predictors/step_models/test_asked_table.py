"""What is laid out once for several networks, against laying it out for each."""

from __future__ import annotations

from dataclasses import fields

import joint_world as world
import numpy as np

from perfmodel.features.steps.step_table import StepTable, step_table
from perfmodel.predictors.step_models.asked_table import ANSWERED_AT_ONCE, AskedTable
from perfmodel.predictors.step_models.node_entries import Entries, TableArrays, batches

STEPS = [sample.step for sample in world.samples()]


def table(count: int) -> StepTable:
    return step_table((STEPS * (1 + count // len(STEPS)))[:count])


def test_a_table_is_laid_out_as_if_for_one_network() -> None:
    few = table(5)
    (batch,) = batches(few.sketch_of, np.arange(5), 256, np.arange(len(few.sketches)))
    alone = Entries.of(TableArrays.of(few), batch)
    (asked,) = AskedTable.of(few).batches(np.arange(5))
    for field in fields(alone):
        assert np.array_equal(getattr(asked, field.name), getattr(alone, field.name))


def test_steps_of_one_sketch_lie_together() -> None:
    some = table(40)
    (entries,) = AskedTable.of(some).batches(np.arange(40))
    assert sum(alike.shape[0] for alike in entries.alike) == 40
    for alike in entries.alike:
        steps, rows = alike.shape
        own = entries.row[alike.entries].reshape(steps, rows)
        assert np.array_equal(
            own, np.tile(np.arange(alike.rows.start, alike.rows.stop), (steps, 1))
        )
        of_step = entries.step[alike.entries].reshape(steps, rows)
        assert np.array_equal(of_step[:, 0], np.arange(alike.steps.start, alike.steps.stop))
        assert len(set(some.sketch_of[entries.steps[alike.steps]])) == 1


def test_one_batch_is_laid_out_once() -> None:
    few = table(7)
    asked = AskedTable.of(few)
    assert AskedTable.of(few) is asked
    steps = np.array([1, 3, 4])
    (first,), (again,) = asked.batches(steps), asked.batches(steps.copy())
    assert first is again
    (others,) = asked.batches(np.array([0]))
    assert others is not first
    assert len(others.row) == few.length[few.sketch_of[0]]


def test_nothing_of_many_steps_is_kept() -> None:
    many = table(2 * ANSWERED_AT_ONCE + 88)
    steps = np.arange(len(many.devices))
    assert AskedTable.of(many) is not AskedTable.of(many)
    asked = AskedTable(many)
    rounds = [list(asked.batches(steps)) for _ in range(2)]
    assert len(rounds[0]) > 1
    assert sorted(np.concatenate([entries.steps for entries in rounds[0]])) == steps.tolist()
    for one, other in zip(*rounds, strict=True):
        assert one is not other
        assert np.array_equal(one.rates, other.rates)


def test_entries_of_no_step_are_none() -> None:
    assert list(AskedTable(table(3)).batches(np.zeros(0, dtype=np.int64))) == []
    (batch,) = batches(np.zeros(3, dtype=np.int64), np.arange(1), 1, np.arange(1))
    assert len(Entries.of(TableArrays.of(table(3)), batch).settings) == 1

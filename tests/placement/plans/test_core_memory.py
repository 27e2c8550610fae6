"""Memory of plans that Megatron's core carries out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfmodel.placement.memory.memory_parts import MemoryParts
from perfmodel.placement.plan_steps.plan_cells import PlanChoice
from perfmodel.placement.plans.core_memory import core_memory_parts
from perfmodel.placement.plans.plan_answer import TransformerTraining
from perfmodel.placement.topology.topology import Plan
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Precision

SHAPE = TransformerShape(layers=8, hidden_size=512, heads=8, sequence_length=256, vocabulary=1000)
COUNT = SHAPE.parameter_count


def _parts(precision: Precision = Precision.AMP_BF16, **plan: Any) -> MemoryParts:
    training = TransformerTraining(shape=SHAPE, precision=precision)
    choice = PlanChoice(plan=Plan(**plan), micro_batch=2, micro_batches=1)
    return core_memory_parts(training, [choice])


@pytest.mark.parametrize(("replicas", "stage", "bytes_each"), [
    (1, 0, 18.0), (4, 0, 18.0), (4, 1, 6 + 12 / 4), (8, 1, 6 + 12 / 8),
])  # fmt: skip
def test_a_parameter_takes_what_the_table_of_its_optimizer_says(
    replicas: int, stage: int, bytes_each: float
) -> None:
    found = _parts(data=replicas, zero_stage=stage)
    assert found.certain_bytes[0] == pytest.approx(bytes_each * COUNT)


def test_a_step_in_its_own_type_has_no_other_parameters() -> None:
    # Weight, gradient and two vectors of Adam, two bytes each.
    assert _parts(Precision.BF16, data=1).certain_bytes[0] == pytest.approx(8 * COUNT)


def test_scores_stay_on_the_chip() -> None:
    # 512 tokens, 8 layers of 32 h and 12 bytes for each word scored.
    assert _parts(data=1).activation_corners[0, 0] == 512 * (8 * 32 * 512 + 12 * 1000)


def test_plans_are_counted_together_as_one_by_one() -> None:
    training = TransformerTraining(shape=SHAPE)
    plans = [Plan(data=2, tensor=2), Plan(data=4, zero_stage=1), Plan(data=1, pipeline=4)]
    choices = [PlanChoice(plan=one, micro_batch=2, micro_batches=4) for one in plans]
    together = core_memory_parts(training, choices)
    each = [core_memory_parts(training, [one]) for one in choices]
    held = np.concatenate([one.held_bytes for one in each])
    np.testing.assert_array_equal(together.held_bytes, held)

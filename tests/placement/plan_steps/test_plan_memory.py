from __future__ import annotations

import numpy as np
import pytest
from made_up_plans import cells, choice, shape

from perfmodel.placement.plan_steps.plan_cells import Checkpointing
from perfmodel.placement.plan_steps.plan_memory import PlanMemory, plan_memory
from perfmodel.placement.topology.topology import Schedule
from perfmodel.types import Precision


def _memory(
    fused: bool = True, precision: Precision = Precision.BF16, **plan: object
) -> PlanMemory:
    columns = cells([choice(**plan)], fused_attention=fused, precision=precision)  # type: ignore[arg-type]
    return plan_memory(columns.shape, columns.plan, columns.numbers, columns.fused_attention)


def test_one_rank_holds_all_parameters_in_their_type() -> None:
    # bf16: two bytes for a weight, two for its gradient, four for Adam's two vectors.
    found, count = _memory(), shape().parameter_count
    assert found.weights[0] == 2 * count and found.gradients[0] == 2 * count
    assert found.state[0] == 4 * count and found.gathered[0] == 0


def test_stages_of_zero_share_out_more_and_more() -> None:
    plain, first, second, third = (_memory(data=4, zero_stage=stage) for stage in range(4))
    assert first.state[0] == plain.state[0] / 4 and first.gradients[0] == plain.gradients[0]
    assert second.gradients[0] == plain.gradients[0] / 4
    assert third.weights[0] == plain.weights[0] / 4 and third.gathered[0] > 0


def test_activations_are_those_of_the_reference() -> None:
    # 4 x 256 tokens, 8 layers of 32 h (no dropout), and 12 bytes for each word scored.
    found = _memory()
    assert found.activations[0] == 1024 * (8 * 32 * 512 + 12 * 1000)
    written = _memory(fused=False)
    assert written.activations[0] - found.activations[0] == 1024 * 8 * 5 * 8 * 256
    wide = _memory(precision=Precision.FP32)
    assert wide.activations[0] == 1024 * (2 * 8 * 32 * 512 + 12 * 1000)


def test_splitting_the_sequence_divides_what_a_tensor_split_leaves() -> None:
    # 8 h stay whole, 24 h are split; with the sequence all are.
    whole = _memory(tensor=4).activations[0] - 1024 * 12 * 1000 / 4
    split = _memory(tensor=4, sequence_parallel=True).activations[0] - 1024 * 12 * 1000 / 4
    assert whole == 1024 * 8 * 512 * (8 + 24 / 4)
    assert split == 1024 * 8 * 512 * 32 / 4


def test_recomputing_keeps_inputs_and_one_layer() -> None:
    found = _memory(checkpointing=Checkpointing.FULL)
    assert found.activations[0] == 1024 * (8 * 2 * 512 + 32 * 512 + 12 * 1000)
    scores = _memory(fused=False, checkpointing=Checkpointing.SELECTIVE)
    assert scores.activations[0] == _memory().activations[0] + 1024 * 5 * 8 * 256


def test_1f1b_holds_as_many_micro_batches_as_stages_behind() -> None:
    # First stage: 2 layers of 4 micro-batches; GPipe keeps all 6.
    layers = 1024 * 2 * 32 * 512
    assert _memory(pipeline=4).activations[0] == 4 * layers
    assert _memory(pipeline=4, schedule=Schedule.GPIPE).activations[0] == pytest.approx(
        6 * layers + 1024 * 12 * 1000  # and now the last stage is as full, with the words
    )


@pytest.mark.parametrize("word", ["tensor", "pipeline", "context"])
def test_more_ranks_never_need_more_memory(word: str) -> None:
    plans = cells([choice(4, 1, **{word: degree}) for degree in (1, 2, 4, 8)])
    peaks = plan_memory(plans.shape, plans.plan, plans.numbers, np.ones(4)).peak_bytes
    assert np.all(np.diff(peaks) <= 0)

from __future__ import annotations

import numpy as np
import pytest
from work_done import calls_of

from perfmodel.client.answers import Batch
from perfmodel.errors import InvalidInputError
from perfmodel.placement.feeding.goodput import (
    BatchAdaptation,
    FloatArray,
    IntArray,
    best_batch,
    candidates,
    statistical_efficiency,
)


def _steps(batch: IntArray, accumulation: IntArray) -> FloatArray:
    """20 ms of synchronisation, 5 ms of launches and 0.2 ms a sample for each micro-batch."""
    return np.asarray(0.02 + accumulation * (0.005 + 2e-4 * batch))


def _adaptation(noise: float, **other: object) -> BatchAdaptation:
    given: dict[str, object] = {"initial_batch_size": 64, "batch_size_bounds": (64, 8192)}
    return BatchAdaptation(gradient_noise_scale=noise, **{**given, **other})  # type: ignore[arg-type]


def test_efficiency_is_one_at_the_initial_batch_and_falls_beyond() -> None:
    batches = np.array([64, 128, 512, 4096])
    efficiency = statistical_efficiency(batches, 500.0, 64)
    assert efficiency[0] == 1.0 and np.all(np.diff(efficiency) < 0)
    # Without noise a larger batch is waste: progress per step stays that of the initial batch.
    assert statistical_efficiency(batches, 0.0, 64) * batches == pytest.approx([64.0] * 4)
    assert statistical_efficiency(batches, 1e12, 64) == pytest.approx([1.0] * 4)


def test_goodput_by_hand() -> None:
    # 300 samples in 0.1 s at (100 + 100) / (100 + 300).
    rate = 300 / 0.1
    assert rate * float(statistical_efficiency(300, 100, 100)) == pytest.approx(1500.0)


def test_the_best_batch_is_the_best_of_all_whole_batches() -> None:
    found = best_batch(_adaptation(1000.0, most_accumulation=1), 4, _steps)
    every = np.arange(16, 2049)
    steps_s = _steps(every, np.ones(len(every), dtype=np.int64))
    gain = 4 * every / steps_s * statistical_efficiency(4 * every, 1000.0, 64)
    # The grid steps by some five per cent around an optimum that is flat.
    assert found.goodput == pytest.approx(float(gain.max()), rel=1e-3)
    assert found.goodput <= float(gain.max()) * (1 + 1e-12)


def test_the_parts_of_the_answer_agree() -> None:
    found = best_batch(_adaptation(1000.0), 4, _steps)
    assert found.goodput == pytest.approx(found.samples_per_second * found.efficiency)
    assert found.global_batch_size == found.batch_size * found.accumulation_steps * 4
    assert found.samples_per_second == pytest.approx(found.global_batch_size / found.step_time_s)


def test_more_noise_pays_for_larger_batches_and_never_lowers_goodput() -> None:
    answers = [best_batch(_adaptation(noise), 4, _steps) for noise in (0.0, 100.0, 1e4, 1e6)]
    sizes = [a.global_batch_size for a in answers]
    assert sizes == sorted(sizes) and sizes[0] == 64
    assert np.all(np.diff([a.goodput for a in answers]) > 0)


def test_accumulation_stands_in_for_memory() -> None:
    free = best_batch(_adaptation(1e6), 4, _steps)
    tight = best_batch(_adaptation(1e6, most_samples=(64, 64)), 4, _steps)
    assert tight.batch_size <= 64 and tight.accumulation_steps > 1
    assert tight.goodput <= free.goodput


def test_every_candidate_is_within_the_bounds() -> None:
    adaptation = _adaptation(1.0, batch_size_bounds=(100, 1000), most_samples=(40, 40))
    batch, accumulation = candidates(adaptation, 3)
    total = batch * accumulation * 3
    assert total.min() >= 100 and total.max() <= 1000 and batch.max() <= 40
    assert np.all(np.diff(batch * accumulation) >= 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gradient_noise_scale": -1.0},
        {"gradient_noise_scale": float("inf")},
        {"initial_batch_size": 0},
        {"batch_size_bounds": (64, 32)},
        {"most_accumulation": 0},
        {"most_samples": (0, 0)},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        _adaptation(**{"noise": wrong.pop("gradient_noise_scale", 1.0), **wrong})  # type: ignore[arg-type]


def test_bounds_that_no_batch_meets_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="100 replicas"):
        best_batch(_adaptation(1.0, batch_size_bounds=(64, 99)), 100, _steps)


def test_a_batch_that_does_not_fit_is_never_the_best() -> None:
    free = best_batch(_adaptation(1e6), 4, _steps)
    found = best_batch(
        _adaptation(1e6), 4, lambda b, a: np.where(b >= free.batch_size, np.inf, _steps(b, a))
    )
    assert found.batch_size < free.batch_size
    with pytest.raises(InvalidInputError, match="runs out of memory"):
        best_batch(_adaptation(1e6), 4, lambda b, a: np.full(len(b), np.inf))


def test_a_search_takes_as_many_calls_whatever_there_is_to_choose_from() -> None:
    def calls(replicas: int, most: int) -> int:
        adaptation = _adaptation(1e4, batch_size_bounds=(64, most))
        assert isinstance(best_batch(adaptation, replicas, _steps), Batch)
        return calls_of(lambda: best_batch(adaptation, replicas, _steps))

    few = calls(1, 256)
    assert all(calls(replicas, 65_536) < 3 * few for replicas in (1, 8, 32))

from __future__ import annotations

import itertools

import numpy as np
import pytest
from work_done import calls_of

from perfmodel.errors import InvalidInputError
from perfmodel.placement.feeding.batch_split import AffineSteps, proportional_split

TWO_KINDS = AffineSteps(fixed_s=np.array([0.01, 0.02]), per_sample_s=np.array([1e-3, 3e-3]))


def test_the_proportional_split_is_the_best_there_is() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        steps = AffineSteps(fixed_s=rng.uniform(0, 5, 3), per_sample_s=rng.uniform(0.1, 2, 3))
        best = min(
            float(steps.times_s(np.array([a, b, 12 - a - b])).max())
            for a, b in itertools.product(range(13), repeat=2)
            if a + b <= 12
        )
        split = proportional_split(12, steps)
        assert split.samples.sum() == 12
        assert split.step_time_s == pytest.approx(best)


def test_it_is_never_slower_than_the_equal_one_and_the_same_on_equals() -> None:
    for batch in (2, 16, 64, 1000):
        halves = TWO_KINDS.times_s(np.full(2, batch // 2))
        assert proportional_split(batch, TWO_KINDS).step_time_s <= halves.max()
    same = AffineSteps(fixed_s=np.full(4, 0.01), per_sample_s=np.full(4, 1e-3))
    assert sorted(proportional_split(10, same).samples.tolist()) == [2, 2, 3, 3]


def test_a_faster_replica_never_lengthens_the_step() -> None:
    times = [
        proportional_split(
            100, AffineSteps(fixed_s=np.zeros(2), per_sample_s=np.array([1.0, other]))
        ).step_time_s
        for other in (8.0, 4.0, 2.0, 1.0, 0.5)
    ]
    assert times == sorted(times, reverse=True)


def test_a_replica_that_cannot_help_gets_nothing() -> None:
    slow_start = AffineSteps(fixed_s=np.array([0.0, 100.0]), per_sample_s=np.ones(2))
    split = proportional_split(10, slow_start)
    assert split.samples.tolist() == [10, 0] and split.times_s[1] == 0.0


@pytest.mark.parametrize("batch", [0, -3])
def test_a_batch_of_nothing_is_refused(batch: int) -> None:
    with pytest.raises(InvalidInputError):
        proportional_split(batch, TWO_KINDS)


def test_lines_through_two_predictions() -> None:
    # 10 ms + 1 ms a sample; faster than the batch: through the origin; flat: a hundredth is work.
    steps = AffineSteps.through((10, 20), [0.02, 0.01, 0.03], [0.03, 0.04, 0.03])
    assert steps.times_s([20, 20, 20]) == pytest.approx([0.03, 0.04, 0.03])
    assert steps.fixed_s == pytest.approx([0.01, 0.0, 0.0297])
    with pytest.raises(InvalidInputError, match="smaller first"):
        AffineSteps.through((20, 10), [0.1], [0.2])


def test_a_fixed_overhead_and_one_prediction() -> None:
    steps = AffineSteps.with_overhead(8, [0.1], 0.02)
    assert steps.times_s([8]) == pytest.approx([0.1])
    assert steps.times_s([16]) == pytest.approx([0.18])


def test_a_thousand_replicas_take_as_many_calls_as_sixteen() -> None:
    def split(count: int) -> None:
        per_sample_s = np.random.default_rng(0).uniform(1e-3, 4e-3, count)
        steps = AffineSteps(fixed_s=np.full(count, 0.01), per_sample_s=per_sample_s)
        assert proportional_split(65_536, steps).samples.sum() == 65_536

    assert calls_of(lambda: split(1024)) < 1.5 * calls_of(lambda: split(16))

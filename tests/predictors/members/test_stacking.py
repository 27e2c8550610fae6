"""Weights of the ensemble, and its guard against a member that goes wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.errors import TrainingError
from perfmodel.predictors.members.ensemble import fit_weights, mix

TIMES = np.exp(np.linspace(-6, 0, 60))
ONES = np.ones(60)


def _answers(*noise: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([TIMES * np.exp(n * rng.standard_normal(60)) for n in noise], axis=1)


def test_equal_members_share_the_weight_and_beat_each_alone() -> None:
    answers = _answers(0.2, 0.2)
    weights = fit_weights(answers, TIMES, ONES)
    assert weights.sum() == pytest.approx(1.0)
    assert np.all(weights >= 0.25)
    alone = np.abs(answers / TIMES[:, None] - 1.0).mean(axis=0).min()
    assert np.abs(mix(answers, weights) / TIMES - 1.0).mean() < alone


def test_a_bad_member_gets_no_weight() -> None:
    answers = np.stack([_answers(0.05)[:, 0], 10 * TIMES, TIMES / 10], axis=1)
    assert fit_weights(answers, TIMES, ONES).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_a_member_without_numbers_gets_no_weight(bad: float) -> None:
    answers = _answers(0.1, 0.1)
    answers[7, 0] = bad
    assert fit_weights(answers, TIMES, ONES).tolist() == [0.0, 1.0]


def test_no_sound_member_is_an_error() -> None:
    with pytest.raises(TrainingError, match="finite"):
        fit_weights(np.full((60, 2), np.nan), TIMES, ONES)


def test_mix_by_hand() -> None:
    # sqrt(1 * 4) = 2
    assert mix(np.array([[1.0, 4.0]]), np.array([0.5, 0.5])) == pytest.approx([2.0])


def test_mix_leaves_out_what_is_no_number_and_what_is_far_off() -> None:
    weights = np.array([0.4, 0.3, 0.3])
    # The second is missing: (1^0.4 * 2^0.3)^(1/0.7) = 2^(3/7)
    assert mix(np.array([[1.0, np.nan, 2.0]]), weights) == pytest.approx([2 ** (3 / 7)])
    # 1000 lies further than a factor of 8 from the median 2: the same.
    assert mix(np.array([[1.0, 1000.0, 2.0]]), weights) == pytest.approx([2 ** (3 / 7)])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=3),
    st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any),
)
def test_a_mix_lies_between_its_members(answers: list[float], weights: list[int]) -> None:
    mixed = mix(np.array([answers]), np.array(weights, dtype=float))[0]
    assert min(answers) * (1 - 1e-9) <= mixed <= max(answers) * (1 + 1e-9)

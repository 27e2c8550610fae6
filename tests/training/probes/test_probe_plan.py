"""Probe plans: each choice shrinks the expected error most, and the arithmetic holds."""

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.training.probes.probe_plan import expected_variance, narrowed, probe_order

RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((60, 3)) * np.array([1.0, 0.5, 0.2])
PRIOR = np.array([0.09, 0.04, 0.04])


def test_the_first_choice_is_the_best_of_all() -> None:
    left = [expected_variance(FEATURES[[i]], PRIOR, 0.05, FEATURES) for i in range(len(FEATURES))]
    assert probe_order(FEATURES, PRIOR, 0.05, 1) == [int(np.argmin(left))]


def test_each_further_choice_is_the_best_after_those_before() -> None:
    chosen = probe_order(FEATURES, PRIOR, 0.05, 4)
    for count in range(1, 4):
        before = chosen[:count]
        left = {
            i: expected_variance(FEATURES[[*before, i]], PRIOR, 0.05, FEATURES)
            for i in range(len(FEATURES))
            if i not in before
        }
        assert left[chosen[count]] == pytest.approx(min(left.values()))


def test_planned_probes_leave_less_variance_than_random_ones() -> None:
    planned = expected_variance(
        FEATURES[probe_order(FEATURES, PRIOR, 0.05, 5)], PRIOR, 0.05, FEATURES
    )
    drawn = [
        expected_variance(FEATURES[RNG.choice(60, 5, replace=False)], PRIOR, 0.05, FEATURES)
        for _ in range(50)
    ]
    assert planned < min(drawn)


def test_plans_are_nested_and_never_measure_twice() -> None:
    longest = probe_order(FEATURES, PRIOR, 0.05, 10)
    assert longest[:3] == probe_order(FEATURES, PRIOR, 0.05, 3)
    assert len(set(longest)) == 10
    assert len(probe_order(FEATURES[:4], PRIOR, 0.05, 10)) == 4


def test_what_is_hard_to_predict_is_not_worth_measuring() -> None:
    noise = np.full(60, 0.05)
    first = probe_order(FEATURES, PRIOR, noise, 1)[0]
    assert first == probe_order(FEATURES, PRIOR, 0.05, 1)[0]
    noise[first] = 10.0
    assert first not in probe_order(FEATURES, PRIOR, noise, 10)
    # Noise of each measurement counts for itself: 1 / (1 + 1 / 1 + 1 / 4).
    ones, noises = np.ones((2, 1)), np.array([1.0, 2.0])
    assert expected_variance(ones, np.ones(1), noises, ones) == pytest.approx(1 / 2.25)


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 1"):
        probe_order(FEATURES, PRIOR, 0.05, 0)
    with pytest.raises(InvalidInputError, match="positive"):
        probe_order(FEATURES, PRIOR, 0.0, 1)


def test_a_covariance_stands_for_variances_that_hang_together() -> None:
    covariance = np.diag(PRIOR)
    assert probe_order(FEATURES, covariance, 0.05, 5) == probe_order(FEATURES, PRIOR, 0.05, 5)
    # Two coefficients that are one: 1 / (1 + 1) of it is left after either was measured.
    one, both = np.ones((2, 2)), np.eye(2)
    assert expected_variance(both[:1], one, 1.0, both) == pytest.approx(0.5)
    assert expected_variance(both[:1], np.ones(2), 1.0, both) == pytest.approx((0.5 + 1.0) / 2)


def test_what_will_be_asked_decides_and_not_what_could_be_measured() -> None:
    # One coefficient each; only the second is ever asked about.
    asked = np.array([[0.0, 1.0]])
    candidates = np.array([[2.0, 0.0], [0.0, 0.5]])
    prior = np.ones(2)
    assert probe_order(candidates, prior, 0.1, 1) == [0]
    assert probe_order(candidates, prior, 0.1, 1, population=asked) == [1]


def test_what_was_measured_narrows_the_prior() -> None:
    # Variance 1, measured once with noise 1: 1 - 1 / (1 + 1); the other coefficient stays.
    after = narrowed(np.eye(2), np.array([[1.0, 0.0]]), 1.0)
    assert after.tolist() == [[0.5, 0.0], [0.0, 1.0]]


def test_what_takes_long_has_to_tell_as_much_more() -> None:
    first = probe_order(FEATURES, PRIOR, 0.05, 1)[0]
    cost_s = np.full(len(FEATURES), 10.0)
    assert probe_order(FEATURES, PRIOR, 0.05, 3, cost_s=cost_s)[0] == first
    cost_s[first] = 1000.0
    assert probe_order(FEATURES, PRIOR, 0.05, 3, cost_s=cost_s)[0] != first

"""Belief about one device against Bayesian arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.predictors.joint.device_beliefs import DeviceEffect


def test_without_records_the_prior_answers() -> None:
    belief = DeviceEffect.unknown(np.array([0.04, 0.01]))
    mean, variance = belief.at(np.array([[1.0, 0.0], [0.5, 0.5]]))
    assert mean.tolist() == [0.0, 0.0]
    # 0.5^2 * 0.04 + 0.5^2 * 0.01
    assert variance == pytest.approx([0.04, 0.0125])


def test_one_feature_by_hand() -> None:
    # Precision 1 / 0.04 + 3 / 0.01 = 325; mean = (0.1 + 0.2 + 0.3) / 0.01 / 325 = 0.1846.
    belief = DeviceEffect.unknown(np.array([0.04])).given(
        np.ones((3, 1)), np.array([0.1, 0.2, 0.3]), np.full(3, 0.01)
    )
    assert belief.covariance[0, 0] == pytest.approx(1 / 325)
    assert belief.mean[0] == pytest.approx(0.6 / 0.01 / 325)


def test_equals_the_normal_equations() -> None:
    rng = np.random.default_rng(0)
    features, residuals = rng.random((5, 3)), rng.standard_normal(5)
    prior, noise = np.array([0.5, 1.0, 2.0]), rng.random(5) + 0.1
    precision = np.diag(1 / prior) + features.T @ (features / noise[:, None])
    expected = np.linalg.solve(precision, features.T @ (residuals / noise))
    belief = DeviceEffect.unknown(prior).given(features, residuals, noise)
    assert belief.mean == pytest.approx(expected)
    assert belief.covariance == pytest.approx(np.linalg.inv(precision))


def test_one_after_the_other_equals_all_at_once() -> None:
    rng = np.random.default_rng(1)
    features, residuals, noise = rng.random((4, 2)), rng.standard_normal(4), np.full(4, 0.3)
    whole = DeviceEffect.unknown(np.ones(2)).given(features, residuals, noise)
    belief = DeviceEffect.unknown(np.ones(2))
    for i in range(4):
        belief = belief.given(features[i : i + 1], residuals[i : i + 1], noise[i : i + 1])
    assert belief.mean == pytest.approx(whole.mean)
    assert belief.covariance == pytest.approx(whole.covariance)


def test_every_record_shrinks_the_variance() -> None:
    rng = np.random.default_rng(2)
    asked = rng.random((6, 3))
    belief = DeviceEffect.unknown(np.full(3, 0.1))
    _, before = belief.at(asked)
    for _ in range(5):
        belief = belief.given(rng.random((1, 3)), rng.standard_normal(1), np.array([0.01]))
        _, after = belief.at(asked)
        assert np.all(after <= before + 1e-12) and np.all(after >= 0)
        before = after


def test_the_belief_before_is_left_as_it_was() -> None:
    belief = DeviceEffect.unknown(np.ones(1))
    belief.given(np.ones((1, 1)), np.array([1.0]), np.ones(1))
    assert belief.mean.tolist() == [0.0] and belief.covariance.tolist() == [[1.0]]

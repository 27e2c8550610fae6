"""What records of a device in one regime say about it in others."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.predictors.joint.device_beliefs import BEFORE_RECORDS, DeviceBeliefs, features

PRIOR = np.array([0.04, 0.09, 0.01])
SHARES = np.array([0.5, 0.3, 0.2])
EAGER = ("New", "gpu", "inference", "eager")
FUSED = ("New", "gpu", "inference", "fused")
TRAINING = ("New", "gpu", "training", "eager")
KNOWN = ("Old", "gpu", "inference", "eager")


@pytest.fixture
def beliefs() -> DeviceBeliefs:
    return DeviceBeliefs(PRIOR, {KNOWN: 27})


def _after(beliefs: DeviceBeliefs, *groups: tuple[str, ...], slower: float = 0.3) -> DeviceBeliefs:
    place = features(groups, np.tile(SHARES, (len(groups), 1)))
    logs, noise = np.full(len(groups), slower), np.full(len(groups), 1e-6)
    return beliefs.given(groups[0][0], place, logs, noise)


def test_without_records_every_regime_has_the_prior(beliefs: DeviceBeliefs) -> None:
    # Sum of shares^2 prior: 0.25 0.04 + 0.09 0.09 + 0.04 0.01, and the common part 0.15^2.
    variance = 0.01 + 0.0081 + 0.0004 + 0.0225
    for group in (EAGER, FUSED, TRAINING):
        assert beliefs.shift(group, SHARES) == pytest.approx((0.0, variance))
    # Of a device with 27 samples there, 3 / (3 + 27) of it is left; beside another regime more.
    assert beliefs.shift(KNOWN, SHARES)[1] == pytest.approx(0.1 * variance)
    elsewhere = ("Old", "gpu", "training", "eager")
    assert beliefs.shift(elsewhere, SHARES)[1] == pytest.approx(3 / (3 + 2.7) * variance)


def test_records_count_whole_in_their_regime_and_in_part_elsewhere(beliefs: DeviceBeliefs) -> None:
    after = _after(beliefs, EAGER)
    shifts = [after.shift(group, SHARES)[0] for group in (EAGER, FUSED, TRAINING)]
    assert shifts == pytest.approx([0.3, 0.9 * 0.3, 0.8 * 0.3], rel=1e-3)
    left = [after.shift(group, SHARES)[1] for group in (EAGER, FUSED, TRAINING)]
    assert left == sorted(left) and left[0] < 1e-5
    # 1 - r^2 of the variance is left where the regime is another; records are weighed against
    # devices that lie further apart than those of training.
    assert left[2] == pytest.approx((1 - 0.64) * BEFORE_RECORDS * 0.041, rel=1e-3)


def test_records_of_one_precision_say_most_about_it(beliefs: DeviceBeliefs) -> None:
    place = features([EAGER], SHARES[None, :], [True])
    after = beliefs.given("New", place, np.array([0.3]), np.array([1e-6]))
    assert after.shift(EAGER, SHARES, full=True)[0] == pytest.approx(0.3, rel=1e-3)
    assert after.shift(EAGER, SHARES)[0] == pytest.approx(0.8 * 0.3, rel=1e-3)
    both = after.given(
        "New", features([EAGER], SHARES[None, :]), np.array([-0.2]), np.array([1e-6])
    )
    assert both.shift(EAGER, SHARES)[0] == pytest.approx(-0.2, rel=1e-3)
    assert both.shift(EAGER, SHARES, full=True)[0] == pytest.approx(0.3, rel=1e-3)


def test_records_of_a_regime_outweigh_those_of_another(beliefs: DeviceBeliefs) -> None:
    place = features([EAGER, TRAINING], np.stack([SHARES, SHARES]))
    both = beliefs.given("New", place, np.array([0.3, -0.1]), np.full(2, 1e-6))
    assert both.shift(EAGER, SHARES)[0] == pytest.approx(0.3, abs=1e-3)
    assert both.shift(TRAINING, SHARES)[0] == pytest.approx(-0.1, abs=1e-3)


def test_beliefs_are_values(beliefs: DeviceBeliefs) -> None:
    after = _after(beliefs, EAGER)
    assert beliefs.effects == {} and beliefs.records == {}
    assert after.records == {"New": 1} and _after(after, TRAINING).records == {"New": 2}
    assert after.without(["New"]).effects == {} and after.effects.keys() == {"New"}


def test_what_answers_rest_on_is_said(beliefs: DeviceBeliefs) -> None:
    assert beliefs.warnings("Old") == ()
    assert "The model has learned from no step on New" in beliefs.warnings("New")[0]
    assert "1 record of New" in _after(beliefs, EAGER).warnings("New")[0]
    assert "2 records of New" in _after(beliefs, EAGER, TRAINING).warnings("New")[0]
    assert "beside those of training" in _after(beliefs, KNOWN).warnings("Old")[0]


def test_the_covariance_is_one(beliefs: DeviceBeliefs) -> None:
    covariance = beliefs.before_records("New").covariance
    assert np.linalg.eigvalsh(covariance).min() > 0
    np.testing.assert_allclose(covariance, covariance.T)

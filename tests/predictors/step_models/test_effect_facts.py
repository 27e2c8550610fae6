"""Effects of devices regressed on facts: laws with known coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.predictors.step_models.effect_facts import regress_effects

SLOPES = np.array([[0.5, 0.0], [0.0, -0.3], [0.0, 0.0]])
TYPICAL = np.array([0.1, -0.2])


def _known(devices: int, records: int = 1000) -> np.ndarray:
    return np.full((devices, 2), records)


def _world(devices: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    facts = rng.standard_normal((devices, 3))
    effects = TYPICAL + facts @ SLOPES + noise * rng.standard_normal((devices, 2))
    return facts, effects, _known(devices)


def test_a_linear_law_is_recovered() -> None:
    found = regress_effects(*_world(40))
    # The least penalty, 0.3 beside about 40 devices of variance 1, shrinks slopes by 1 %.
    assert found.typical == pytest.approx(TYPICAL, abs=0.02)
    assert found.by_fact == pytest.approx(SLOPES, abs=0.02)


def test_what_facts_do_not_say_is_left_as_variance() -> None:
    found = regress_effects(*_world(60, noise=0.2))
    assert found.variance == pytest.approx([0.04, 0.04], rel=0.5)


def test_facts_that_say_nothing_are_not_believed() -> None:
    rng = np.random.default_rng(1)
    facts, effects = rng.standard_normal((12, 6)), 0.3 * rng.standard_normal((12, 2))
    found = regress_effects(facts, effects, _known(12))
    plain = np.linalg.lstsq(np.c_[np.ones(12), facts], effects, rcond=None)[0][1:]
    assert np.abs(found.by_fact).max() < 0.5 * np.abs(plain).max()
    # So the spread that remains is about that of the devices themselves.
    assert found.variance == pytest.approx(effects.var(axis=0), rel=0.6)


def test_a_device_with_few_records_counts_little() -> None:
    facts, effects, records = _world(20)
    effects[0] += 5.0
    records[0] = 1
    heard = regress_effects(facts, effects, _known(20))
    ignored = regress_effects(facts, effects, records)
    assert np.abs(ignored.typical - TYPICAL).max() < 0.2 * np.abs(heard.typical - TYPICAL).max()


@pytest.mark.parametrize("devices", [1, 2, 3, 7])
def test_few_devices_leave_a_wide_variance(devices: int) -> None:
    # Even where they agree perfectly, they are not all devices.
    facts, _, records = _world(devices)
    few = regress_effects(facts, np.tile(TYPICAL, (devices, 1)), records)
    facts, _, records = _world(20)
    many = regress_effects(facts, np.tile(TYPICAL, (20, 1)), records)
    assert np.isfinite(few.by_fact).all() and np.isfinite(few.typical).all()
    assert np.all(few.variance > 2 * many.variance) and np.all(many.variance > 0)
    assert few.typical + facts[0] @ few.by_fact == pytest.approx(TYPICAL)


def test_an_effect_that_nothing_tells_of_is_left_out_of_its_own_regression_alone() -> None:
    facts, effects, records = _world(20)
    spoilt = effects.copy()
    spoilt[:5, 1] += 5.0
    records[:5, 1] = 0
    found, plain = regress_effects(facts, spoilt, records), regress_effects(facts, effects, records)
    assert np.array_equal(found.by_fact, plain.by_fact)
    assert np.array_equal(found.typical, plain.typical)
    assert np.array_equal(found.variance, plain.variance)

"""A joint predictor of the small world, fitted once for all tests that ask it."""

from __future__ import annotations

import joint_world as world
import pytest

from perfmodel.predictors.joint.joint import JointPredictor


@pytest.fixture(scope="session")
def joint() -> JointPredictor:
    """Two GPUs and a CPU by six families; tests must not change it."""
    return JointPredictor(folds=3, epochs=10, rounds=40).fit(world.samples())

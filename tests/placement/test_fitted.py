"""Fitted constants, and others that stand in for them."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.fitted import fitted, standing_in
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.training.placement_rows.script_rows import predicting_version

ROOT = Path(__file__).parents[2]


def test_others_stand_in_until_the_end() -> None:
    shipped = PlanConstants.fitted(Stack.TORCH)
    with standing_in("plans", {"torch": {"straggler": 0.5}}):
        assert PlanConstants.fitted(Stack.TORCH).straggler == 0.5
    assert PlanConstants.fitted(Stack.TORCH) == shipped


def test_they_leave_after_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), standing_in("plans", {}):
        raise ZeroDivisionError
    assert "torch" in fitted("plans")


def test_a_part_that_nobody_fitted_is_said() -> None:
    with pytest.raises(DamagedArtifactError, match="fit-placement"):
        fitted("nothing")


@pytest.mark.parametrize("part", ["calibration", "scripts"])
def test_errors_that_are_shipped_are_those_of_the_model_that_is_shipped(part: str) -> None:
    # Those of an older one once made every script on a K80 take 1.6 times as long as it does.
    file = resources.files("perfmodel.placement.fitted") / f"{part}.json"
    assert json.loads(file.read_text())["model"] == predicting_version(ROOT / "models")

"""Fitted constants, and others that stand in for them."""

from __future__ import annotations

import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.fitted import fitted, standing_in
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack


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

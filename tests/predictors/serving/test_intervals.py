"""Split conformal intervals: coverage, small groups, unseen devices."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.asked import Asked
from perfmodel.predictors.serving.intervals import (
    ASSUMED_UNSEEN_FACTOR,
    OUTSIDE_FACTOR,
    ConformalIntervals,
    HeldOut,
    conformal_quantile,
)


def _fit(counts: dict[str, int], spread: dict[str, float], seed: int) -> ConformalIntervals:
    rng = np.random.default_rng(seed)
    devices = [name for name, count in counts.items() for _ in range(count)]
    residuals = np.array([spread[name] * rng.standard_normal() for name in devices])
    return ConformalIntervals.fit(devices, np.exp(residuals), np.ones(len(devices)))


def test_covers_fresh_values_on_each_device() -> None:
    spread = {"a": 0.1, "b": 0.5}
    fresh = np.random.default_rng(99).standard_normal(4000)
    covered = {"a": [], "b": []}
    for seed in range(20):
        intervals = _fit({"a": 400, "b": 400}, spread, seed)
        for name, values in covered.items():
            half = intervals.half_width(name).log_half
            values.append(np.mean(np.abs(spread[name] * fresh) <= half))
    for name in spread:
        assert np.mean(covered[name]) == pytest.approx(0.9, abs=0.02)


def test_a_small_group_is_wider_and_says_so() -> None:
    small, large = _fit({"a": 60}, {"a": 0.1}, 1), _fit({"a": 400}, {"a": 0.1}, 1)
    assert not large.half_width("a").warnings
    (warning,) = small.half_width("a").warnings
    assert "60 held-out measurements" in warning
    own = sorted(small.residuals["a", Asked.STEP])
    # ceil(61 * 0.9) = 55th smallest without care; with care the level is
    # 0.9 + 1.2816 * sqrt(0.09 / 60) = 0.9496, so ceil(61 * 0.9496) = 58th.
    assert conformal_quantile(own, 0.9, careful=False) == own[54]
    assert small.half_width("a").log_half == own[57]


def test_too_few_residuals_go_beyond_the_largest() -> None:
    # ceil(6 * (0.9 + ...)) > 5
    assert conformal_quantile([0.1, 0.2, 0.3, 0.4, 0.5], 0.9, careful=True) == pytest.approx(0.75)


def test_small_groups_cover_with_confidence() -> None:
    # With care, the true coverage of a 90 % interval should reach 90 % in about 90 % of draws.
    fresh = np.abs(np.random.default_rng(5).standard_normal(20_000))
    reached = 0
    for seed in range(200):
        own = np.sort(np.abs(np.random.default_rng(1000 + seed).standard_normal(80)))
        half = conformal_quantile(own.tolist(), 0.9, careful=True)
        reached += bool(np.mean(fresh <= half) >= 0.9)
    assert reached / 200 > 0.85


def test_operators_alone_leave_the_width_of_steps_as_it_is() -> None:
    rng = np.random.default_rng(11)
    steps, operators = 0.1 * rng.standard_normal(300), rng.standard_normal(60)
    without = ConformalIntervals.fit(["a"] * 300, np.exp(steps), np.ones(300))
    beside = ConformalIntervals.fit(
        ["a"] * 360,
        np.exp(np.concatenate([steps, operators])),
        np.ones(360),
        asked=[Asked.STEP] * 300 + [Asked.OPERATOR] * 60,
    )
    alone = ConformalIntervals.fit(["a"] * 60, np.exp(operators), np.ones(60))
    assert beside.half_width("a") == without.half_width("a")
    # Their own width is what they have earned, by sixty residuals and not by all.
    assert beside.half_width("a", Asked.OPERATOR) == alone.half_width("a")


def test_what_was_never_asked_takes_the_width_of_the_device_and_says_so() -> None:
    width = _fit({"a": 400}, {"a": 0.1}, 4).half_width("a", Asked.OPERATOR)
    assert width.log_half == _fit({"a": 400}, {"a": 0.1}, 4).half_width("a").log_half
    (warning,) = width.warnings
    assert "No operator alone was measured on a" in warning


@pytest.mark.parametrize("asked", [(Asked.STEP, Asked.OPERATOR), (Asked.STEP, Asked.STEP)])
def test_answers_are_read_back_with_what_they_were_about(asked: tuple[Asked, ...]) -> None:
    assert HeldOut.from_dict(_stored(asked), Path("held")).asked == asked


@pytest.mark.parametrize("asked", [["whole step"], ["whole step", "another thing"]])
def test_refuses_answers_that_do_not_say_what_they_were_about(asked: list[str]) -> None:
    stored = _stored((Asked.STEP, Asked.STEP)) | {"asked": asked}
    with pytest.raises(DamagedArtifactError, match="held-out answers"):
        HeldOut.from_dict(stored, Path("held"))


def _stored(asked: tuple[Asked, ...]) -> dict[str, Any]:
    count = len(asked)
    return HeldOut(
        devices=("a",) * count,
        times_s=np.ones(count),
        answers_s={"one": np.ones(count)},
        coverage=0.9,
        unseen=np.zeros(0),
        asked=asked,
    ).to_dict()


def test_outside_is_wider_and_says_so() -> None:
    intervals = _fit({"a": 400}, {"a": 0.1}, 2)
    inside, outside = (intervals.half_width("a", outside=flag) for flag in (False, True))
    assert outside.log_half == pytest.approx(OUTSIDE_FACTOR * inside.log_half)
    assert any("outside" in warning for warning in outside.warnings)


def test_an_unseen_device_gets_the_assumed_factor_and_says_so() -> None:
    width = _fit({"a": 400}, {"a": 0.1}, 3).half_width("b")
    assert width.log_half == pytest.approx(math.log(ASSUMED_UNSEEN_FACTOR))
    assert "assumed" in width.warnings[0]


def test_an_unseen_device_gets_left_out_residuals_where_there_are_some() -> None:
    unseen = np.linspace(-0.6, 0.6, 300)
    intervals = ConformalIntervals.fit(["a"], np.ones(1), np.ones(1), unseen=unseen)
    width = intervals.half_width("b")
    assert 0.5 < width.log_half <= 0.6
    assert "left out" in width.warnings[0]


def test_refuses_answers_that_are_no_numbers() -> None:
    with pytest.raises(TrainingError, match="finite"):
        ConformalIntervals.fit(["a"], np.array([np.nan]), np.ones(1))

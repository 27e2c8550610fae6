"""How far off steps are: learned where it shows in columns, one where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.features.steps.whole_step import WHOLE_COLUMNS
from perfmodel.predictors.step_models.error_scale import ErrorScale, held_out_factors

_STEPS, _FOLDS = 4_000, 4
_HARD = 3.0


def _world(hard: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps of which the half with a positive first column is ``hard`` times as far off."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((_STEPS, len(WHOLE_COLUMNS))).astype(np.float32)
    is_hard = rows[:, 0] > 0
    return rows, rng.standard_normal(_STEPS) * np.where(is_hard, hard, 1.0), is_hard


ROWS, RESIDUALS, IS_HARD = _world(_HARD)
SCALE = ErrorScale().fit(ROWS, RESIDUALS, np.ones(_STEPS))


def test_hard_steps_are_told_from_easy_ones_that_were_never_seen() -> None:
    rows, _, is_hard = _world(_HARD, seed=1)
    factors = SCALE.factors(rows)
    assert np.median(factors[~is_hard]) == pytest.approx(1.0, rel=0.15)
    assert np.median(factors[is_hard]) == pytest.approx(_HARD, rel=0.15)


def test_where_all_are_alike_the_factor_is_one() -> None:
    rows, residuals, _ = _world(1.0)
    factors = ErrorScale().fit(rows, residuals, np.ones(_STEPS)).factors(rows)
    assert np.median(factors) == pytest.approx(1.0, rel=0.1)
    assert np.quantile(np.abs(np.log(factors)), 0.95) < 0.35


def test_a_fold_is_answered_by_what_has_not_seen_it() -> None:
    fold = np.arange(_STEPS) % _FOLDS
    whole = held_out_factors(ROWS, RESIDUALS, np.ones(_STEPS), fold)
    others = fold != 1
    without = ErrorScale().fit(ROWS[others], RESIDUALS[others], np.ones(others.sum()))
    assert np.array_equal(whole[fold == 1], without.factors(ROWS[fold == 1]))


def test_steps_that_were_never_off_do_not_end_in_zero_or_infinity() -> None:
    factors = ErrorScale().fit(ROWS, np.zeros(_STEPS), np.ones(_STEPS)).factors(ROWS)
    assert np.all(factors >= 0.2) and np.all(factors <= 5.0)

"""Figures of merit on rows that can be computed by hand."""

import numpy as np
import pytest
from held_out.held_out_answers import AnswerTable, answer_table, concatenate
from held_out.metrics import (
    LEAST_GROUP,
    coverage_by,
    jobs_of,
    ratio_error,
    score_answers,
    score_baseline,
)
from held_out_steps import corpus

from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis


def _table(
    factors: list[float], *, half: float = 0.2, flagged: tuple[int, ...] = (), **baselines: object
) -> AnswerTable:
    """Answers that are off by known factors, each with an interval of plus or minus ``half``."""
    samples = corpus(families=4, per_family=6)[: len(factors)]
    answers = [
        Prediction(
            time_s=s.step_time_s * f,
            low_s=s.step_time_s * f * (1 - half),
            high_s=s.step_time_s * f * (1 + half),
            coverage=0.9,
            basis=Basis.INTERPOLATED,
            out_of_distribution=i in flagged,
            nearest=(),
            model_version="made-up/0",
        )
        for i, (s, f) in enumerate(zip(samples, factors, strict=True))
    ]
    times = {
        name: np.array(by) * np.array([s.step_time_s for s in samples])
        for name, by in baselines.items()
    }
    return answer_table(samples, answers, split="random", fold="random-0", baselines=times)


def test_errors_are_those_of_the_time() -> None:
    # Errors 10 %, 10 %, 0, 0, 30 %: mean 10 %, median 10 %.
    scores = score_answers(_table([1.1, 0.9, 1.0, 1.0, 1.3]))
    assert scores.rows == 5
    assert scores.mape == pytest.approx(0.1)
    assert scores.median == pytest.approx(0.1)
    # ln(1.1 * 0.9 * 1.3) / 5 = ln(1.287) / 5.
    assert scores.bias == pytest.approx(np.exp(np.log(1.287) / 5) - 1)


def test_intervals_are_counted_by_the_measured_time() -> None:
    # Off by 1.1 with 20 % around it: 0.88 to 1.32 holds 1. Off by 1.3: 1.04 to 1.56 does not.
    scores = score_answers(_table([1.1, 1.3, 1.0, 1.0]))
    assert scores.coverage == pytest.approx(3 / 4)
    assert scores.width == pytest.approx(0.4)


def test_surprises_are_beyond_three_half_widths() -> None:
    # Half-width 10 % of the prediction: off by 1.5 is 0.5 / 0.15 = 3.3 half-widths, off by 1.4
    # is 0.4 / 0.14 = 2.9.
    table = _table([1.5, 1.4, 1.5, 1.0], half=0.1, flagged=(0, 3))
    scores = score_answers(table)
    assert scores.surprises == 2
    assert scores.surprises_flagged == pytest.approx(1 / 2)
    assert scores.flagged == pytest.approx(2 / 4)


def test_no_surprise_means_no_share_of_them() -> None:
    scores = score_answers(_table([1.0, 1.0, 1.0]))
    assert (scores.surprises, scores.surprises_flagged) == (0, None)


def test_one_wrong_factor_for_all_rows_leaves_ratios_and_ranks_right() -> None:
    scores = score_answers(_table([1.7] * 15))
    assert scores.ratio_error == pytest.approx(0.0, abs=1e-12)
    assert scores.device_ratio_error == pytest.approx(0.0, abs=1e-12)
    assert scores.rank == pytest.approx(1.0)


def test_ratio_error_over_pairs_then_jobs() -> None:
    jobs = np.array(["a", "a", "a", "b", "b", "c"])
    off = np.log([1.0, 2.0, 1.0, 1.0, 4.0, 9.0])
    # a: pairs 2, 1, 2 -> (1 + 0 + 1) / 3; b: 3; c has no pair.
    assert ratio_error(jobs, off) == pytest.approx((2 / 3 + 3) / 2)
    apart = np.array(["x", "x", "y", "x", "x", "x"])
    # Only pairs (0, 2) and (1, 2) of a differ: 0 and 1.
    assert ratio_error(jobs, off, apart) == pytest.approx(0.5)


def test_jobs_are_models_in_a_mode() -> None:
    table = _table([1.0, 1.0])
    assert jobs_of(table).tolist() == ["timm/f0-0|inference"] * 2


def test_only_large_groups_are_judged_on_coverage() -> None:
    table = concatenate([_table([1.1] * 60)] * 4)
    words = np.array(["big"] * LEAST_GROUP + ["small"] * (len(table) - LEAST_GROUP))
    (group,) = coverage_by(table, words)
    assert (group.group, group.rows, group.coverage) == ("big", LEAST_GROUP, 1.0)
    assert group.wanted == pytest.approx(0.9)


def test_a_baseline_is_judged_where_it_answers() -> None:
    table = _table([1.0] * 4, half_known=[1.2, 1.2, np.nan, 1.2], rare=[1.0] + [np.nan] * 3)
    scores = score_baseline(table, "half_known")
    assert scores is not None
    assert (scores.rows, scores.mape) == (3, pytest.approx(0.2))
    assert score_baseline(table, "rare") is None
    assert score_baseline(table, "no-such") is None


def test_answers_come_back_from_a_file(tmp_path) -> None:
    table = _table([1.0, 1.2, 0.7], roofline=[1.0, np.nan, 2.0])
    table.save(tmp_path / "answers.parquet")
    again = AnswerTable.load(tmp_path / "answers.parquet")
    for name in ("model", "device", "measured_s", "low_s", "out_of_distribution", "probes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    np.testing.assert_array_equal(again.baselines["roofline"], table.baselines["roofline"])

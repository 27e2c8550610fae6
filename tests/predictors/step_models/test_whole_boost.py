"""Trees on whole steps: they learn a ratio, and go to disk unchanged."""

from __future__ import annotations

from pathlib import Path

import joint_world as world
import numpy as np
import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.whole_step import WHOLE_COLUMNS, whole_rows
from perfmodel.predictors.boosting import Booster, BoosterSettings
from perfmodel.predictors.step_models.whole_boost import WholeBoost

TABLE, LOGS, WEIGHTS = world.table_of(world.samples())
ROWS, REFERENCE = whole_rows(TABLE)


def _seconds(steps: int, slow_s: float = 0.0) -> np.ndarray:
    """A reference of one second for each step, and a slow path beside it."""
    return np.tile([1.0, 0.0, 0.0, slow_s], (steps, 1))


@pytest.fixture(scope="module")
def boost() -> WholeBoost:
    return WholeBoost(rounds=80).fit(ROWS, REFERENCE, LOGS, WEIGHTS)


def test_learns_better_than_the_reference_and_its_best_factor(boost: WholeBoost) -> None:
    found = boost.log_times(ROWS, REFERENCE)
    plain = np.log(REFERENCE.sum(axis=1))
    factor = np.median(LOGS - plain)
    assert np.mean(np.abs(found - LOGS)) < 0.3 * np.mean(np.abs(plain + factor - LOGS))


def test_an_answer_moves_with_its_reference(boost: WholeBoost) -> None:
    # Same columns, a reference ten times as long: ten times the time.
    longer = boost.log_times(ROWS, 10.0 * REFERENCE)
    assert longer == pytest.approx(boost.log_times(ROWS, REFERENCE) + np.log(10.0))


def test_heavy_samples_are_heard_more() -> None:
    # Equal rows with two answers, 0 and 1: the one with nine times the weight wins.
    rows = np.repeat(ROWS[:1], 40, axis=0)
    logs = np.tile([0.0, 1.0], 20)
    for heavy in (0, 1):
        weights = np.where(logs == heavy, 9.0, 1.0)
        found = WholeBoost(rounds=60).fit(rows, _seconds(40), logs, weights)
        assert abs(float(found.log_times(rows[:1], _seconds(1))[0]) - heavy) < 0.2


def test_a_slow_path_is_added_and_not_multiplied() -> None:
    # Half of the steps take 3 s beside a reference of 1 s, the others 5 s more on a slow path.
    rows = np.repeat(ROWS[:1], 40, axis=0)
    reference = np.concatenate([_seconds(20), _seconds(20, 5.0)])
    logs = np.log(np.repeat([3.0, 8.0], 20))
    found = WholeBoost(rounds=80).fit(rows, reference, logs, np.ones(40))
    for slow_s, time_s in ((0.0, 3.0), (5.0, 8.0), (50.0, 53.0)):
        answer = np.exp(found.log_times(rows[:1], _seconds(1, slow_s)))[0]
        assert answer == pytest.approx(time_s, rel=0.05)


def test_a_slow_path_never_takes_a_whole_step() -> None:
    # Said to take 5 s in a step of 2 s: a quarter of the step is left to the rest.
    rows = np.repeat(ROWS[:1], 20, axis=0)
    found = WholeBoost(rounds=80).fit(
        rows, _seconds(20, 5.0), np.log(np.full(20, 2.0)), np.ones(20)
    )
    usual = np.exp(found.log_times(rows[:1], _seconds(1)))[0]
    assert usual == pytest.approx(0.5, rel=0.05)


def test_the_same_seed_grows_the_same_trees(boost: WholeBoost) -> None:
    again = WholeBoost(rounds=80).fit(ROWS, REFERENCE, LOGS, WEIGHTS)
    assert np.array_equal(again.log_times(ROWS, REFERENCE), boost.log_times(ROWS, REFERENCE))


def test_saved_and_loaded_answers_are_equal(boost: WholeBoost, tmp_path: Path) -> None:
    boost.save(tmp_path, "trees")
    loaded = WholeBoost.load(tmp_path, "trees")
    assert np.array_equal(loaded.log_times(ROWS, REFERENCE), boost.log_times(ROWS, REFERENCE))


def test_damaged_files_are_refused(boost: WholeBoost, tmp_path: Path) -> None:
    with pytest.raises(DamagedArtifactError):
        WholeBoost.load(tmp_path, "trees")
    boost.save(tmp_path, "trees")
    for path in sorted(tmp_path.iterdir()):
        sound = path.read_bytes()
        path.write_bytes(sound[: len(sound) // 2])
        with pytest.raises(DamagedArtifactError):
            WholeBoost.load(tmp_path, "trees")
        path.write_bytes(sound)


def test_trees_without_a_column_of_their_own_are_refused(tmp_path: Path) -> None:
    names = WHOLE_COLUMNS[1:]
    Booster.train(ROWS[:, 1:], LOGS, WEIGHTS, names, BoosterSettings(rounds=5)).save(
        tmp_path, "boost"
    )
    with pytest.raises(DamagedArtifactError):
        WholeBoost.load(tmp_path, "boost")

"""Tests of calibration: what observed steps of a job say about its other placements."""

from __future__ import annotations

from dataclasses import replace

import calibration_world as world
import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.estimate import StepParts

THREE = ((2, 1, 2), (2, 2, 1), (16, 2, 8))


def errors(calibration: Calibration, truth: ObservedSteps) -> np.ndarray:
    answered = calibration.apply(truth.cells).parts.step_time_s
    return np.abs(answered / truth.step_time_s - 1)


def levels(residual: np.ndarray, cells: StepCells) -> np.ndarray:
    """Return how much slower all communication is, in logarithms."""
    between, within = np.exp(residual[[Field.BETWEEN, Field.WITHIN]])
    slower = (1 - cells.within_share) * between + cells.within_share * within
    return np.asarray(residual[Field.COMMUNICATION] + np.log(slower))


def test_three_placements_tell_the_others():
    # Twice as slow a device, four times as long communication: predictions are 2 to 4 times off.
    truth = world.measured(world.cells(), device=np.log(2), communication=np.log(4))
    before = np.abs(truth.cells.parts.step_time_s / truth.step_time_s - 1)
    seen = world.measured(world.cells(THREE), device=np.log(2), communication=np.log(4), seed=1)
    after = errors(calibrate(seen, world.PRIOR), truth)
    assert before.mean() > 0.4
    assert after.mean() < 0.04


def test_computation_and_communication_are_told_apart():
    seen = world.measured(world.cells(THREE), communication=np.log(4))
    residual = calibrate(seen, world.PRIOR).residual(seen.cells)
    slower = levels(residual, seen.cells)
    assert slower[seen.cells.ranks > 1].mean() == pytest.approx(np.log(4), abs=0.25)
    assert residual[Field.DEVICE].mean() == pytest.approx(0.0, abs=0.1)


def test_the_same_step_means_something_else_with_its_sync_time():
    at = world.cells(((2, 2, 1),), (32,))
    step = at.parts.step_time_s * 2
    others = world.cells(((1, 1, 1),), (32,))

    def alone(sync: float) -> float:
        seen = ObservedSteps(cells=at, step_time_s=step, sync_time_s=step * sync)
        return float(calibrate(seen, world.PRIOR).apply(others).parts.step_time_s[0])

    # All of the excess is waiting, or none of it is.
    assert alone(0.55) < 0.75 * alone(0.0)


def test_the_order_of_observations_does_not_matter():
    seen = world.measured(world.cells(), device=0.3, communication=1.0, seed=2)
    order = np.random.default_rng(0).permutation(len(seen.cells))
    one = calibrate(seen, world.PRIOR).apply(world.cells())
    other = calibrate(seen.take(order), world.PRIOR).apply(world.cells())
    assert one.parts.step_time_s.tobytes() == other.parts.step_time_s.tobytes()
    assert one.log_sd.tobytes() == other.log_sd.tobytes()


def test_pooled_rows_hold_nothing_of_the_order_in_which_they_came():
    seen = world.measured(world.cells(), device=0.3, communication=1.0, seed=2)
    shuffled = seen.take(np.random.default_rng(0).permutation(len(seen.cells)))
    # Codes of placements are given as rows come, and sums would go by their order.
    first, codes = np.unique(shuffled.cells.place, return_index=True, return_inverse=True)[1:]
    as_they_came = replace(shuffled.cells, place=np.argsort(np.argsort(first))[codes])
    one, other = seen.pooled(), replace(shuffled, cells=as_they_came).pooled()
    assert one.cells.place.tobytes() == other.cells.place.tobytes()
    assert one.cells.identities() == other.cells.identities()


def test_an_observed_cell_is_answered_near_its_measurement():
    at = world.cells(((8, 2, 4),), (32,))
    odd = world.measured(world.cells(), device=0.2)
    # This one cell takes 5 % longer than the others say.
    mine = world.measured(at, device=0.2)
    mine = replace(mine, step_time_s=mine.step_time_s * 1.05, sync_time_s=mine.sync_time_s * 1.05)
    rest = odd.take((odd.cells.ranks != 8) | (odd.cells.hosts != 2))
    found = errors(calibrate(ObservedSteps.join([rest, mine]), world.PRIOR), mine)
    without = errors(calibrate(rest, world.PRIOR), mine)
    assert without[0] > 0.035
    assert found[0] < 0.022


def repeated(*times: float) -> ObservedSteps:
    """One cell, measured several times as long as usual."""
    at = world.cells(((1, 1, 1),), (32,))
    usual = world.measured(at).step_time_s
    return ObservedSteps.join(
        [ObservedSteps(cells=at, step_time_s=usual * t, sync_time_s=np.zeros(1)) for t in times]
    )


def test_repeats_are_answered_near_their_mean():
    seen = repeated(0.98, 1.02)
    at = seen.cells.take(np.array([0]))
    answer = calibrate(seen, world.PRIOR).apply(at).parts.step_time_s[0]
    assert answer == pytest.approx(np.sqrt(np.prod(seen.step_time_s)), rel=0.005)


def test_an_interval_holds_measurements_of_its_cell_that_disagree():
    seen = repeated(0.8, 1.3)
    at = seen.cells.take(np.array([0]))
    low, high = calibrate(seen, world.PRIOR).apply(at).interval()
    assert low[0] < seen.step_time_s.min() and seen.step_time_s.max() < high[0]
    # One that is unlike all others does not make them less sure of each other.
    usual, spoilt = repeated(1.0, 1.01, 1.02), repeated(1.0, 1.01, 1.02, 9.0)
    sure, still = (calibrate(one, world.PRIOR).apply(at).log_sd[0] for one in (usual, spoilt))
    assert still == pytest.approx(sure, rel=0.1)


def test_pooled_measurements_count_as_many_beside_others():
    once = repeated(0.8, 1.0, 1.3).pooled()
    again = once.pooled()
    assert again.repeats.tolist() == [3.0]
    assert again.scatter.tolist() == once.scatter.tolist()
    # Off the median of 1 by ln 1.25, 0 and ln 1.3: the middle one, as a standard deviation.
    assert once.scatter[0] == pytest.approx(1.4826 * np.log(1.25))


def test_one_outlier_does_not_break_the_others():
    seen = world.measured(world.cells(), device=0.2, seed=3)
    wrong = seen.step_time_s.copy()
    wrong[7] *= 5
    spoilt = replace(seen, step_time_s=wrong)
    rest = np.arange(len(wrong)) != 7
    answers = errors(calibrate(spoilt, world.PRIOR), seen)[rest]
    assert answers.max() < 0.05


def test_cells_near_observed_ones_are_surer():
    seen = world.measured(world.cells(((2, 1, 2),), (32,)))
    calibrated = calibrate(seen, world.PRIOR).apply(world.cells())
    nothing_known = np.sqrt(1 / (1 - calibrated.learned)) * calibrated.log_sd
    hosts, ranks = world.cells().hosts, world.cells().ranks
    near = calibrated.log_sd[(ranks == 2) & (hosts == 1)]
    assert near.max() < calibrated.log_sd[hosts > 1].min()
    assert np.all(calibrated.log_sd <= nothing_known + 1e-12)
    assert np.all((calibrated.learned >= 0) & (calibrated.learned <= 1))


def test_more_observations_make_surer():
    few = world.measured(world.cells(THREE[:1]))
    many = world.measured(world.cells(THREE))
    one, other = (calibrate(s, world.PRIOR).apply(world.cells()) for s in (few, many))
    assert other.log_sd.mean() < one.log_sd.mean()


def test_a_longer_step_makes_every_answer_longer():
    at = world.cells(((4, 1, 4),), (32,))
    seen = [
        ObservedSteps(cells=at, step_time_s=np.array([t]), sync_time_s=np.array([np.nan]))
        for t in (0.08, 0.10)
    ]
    short, long = (calibrate(s, world.PRIOR).apply(world.cells()).parts.step_time_s for s in seen)
    assert np.all(long > short)


def test_one_accelerator_does_not_communicate():
    seen = world.measured(world.cells(THREE), communication=1.0)
    parts = calibrate(seen, world.PRIOR).apply(world.cells()).parts
    alone = world.cells().ranks == 1
    assert not parts.communication_s[alone].any()
    assert not parts.exposed_communication_s[alone].any()
    assert np.all(parts.exposed_communication_s <= parts.communication_s + 1e-12)


def test_another_job_on_the_fabric_says_something_of_the_network_only():
    theirs = world.measured(world.cells(THREE, job="other"), device=1.0, communication=1.2)
    residual = calibrate(theirs, world.PRIOR).residual(world.cells())
    # What a job's own gradients take longer is none of the network; the device is each job's own.
    assert residual[Field.BETWEEN].min() > 0.4
    assert not residual[Field.COMMUNICATION].any()
    assert not residual[Field.DEVICE].any()


@pytest.mark.parametrize("slower", [2.0, 8.0, 30.0])
def test_two_hosts_send_within_each_what_one_of_them_sends(slower: float):
    # Links within a host that are slower than predicted are so in each of two hosts as well.
    communication = np.array([0.02, 0.021])
    parts = StepParts.of(
        np.full(2, 0.1),
        exposed_communication_s=communication / 2,
        communication_s=communication,
    )
    at = StepCells.of_job(
        parts, batch_size=32, ranks=[4, 8], hosts=[1, 2], largest_share=4, host_s=0.01,
        within_share=[1.0, 0.02 / 0.021], job="job", fabric=["wire|", "wire|fast"],
    )  # fmt: skip
    one = at.take(np.array([0]))
    found = calibrate(world.measured(one, communication=np.log(slower))).apply(at).parts
    several_s, one_s = found.communication_s[1], found.communication_s[0]
    assert 0.8 * one_s < several_s < 1.2 * one_s


def test_the_shipped_prior_answers():
    seen = world.measured(world.cells(THREE), device=0.3, communication=0.5, seed=5)
    calibrated = calibrate(seen, fitted_prior()).apply(world.cells())
    low, high = calibrated.interval()
    assert np.all((low < calibrated.parts.step_time_s) & (calibrated.parts.step_time_s < high))


@pytest.mark.parametrize(
    ("step", "sync"), [(0.0, 0.0), (-1.0, 0.0), (np.nan, 0.0), (1.0, 2.0), (1.0, -0.1)]
)
def test_times_that_are_none_are_refused(step, sync):
    at = world.cells(((2, 1, 2),), (32,))
    with pytest.raises(InvalidInputError, match="observed"):
        ObservedSteps(cells=at, step_time_s=np.array([step]), sync_time_s=np.array([sync]))


@pytest.mark.parametrize(("place", "batch", "share"), [((2, 1, 2), 16, 0.7), ((8, 2, 4), 256, 0.5)])
def test_a_long_logged_synchronisation_is_one_at_other_batches_too(place, batch, share):
    # As little of the communication is predicted to show that more of it would change nothing.
    at = world.cells((place,), (batch,))
    step_s = float(at.parts.compute_s[0]) / (1 - share)
    seen = replace(world.seen(at, step_s), sync_time_s=np.array([share * step_s]))
    near = calibrate(seen, world.PRIOR).apply(world.cells((place,), (1.06 * batch,)))
    assert near.parts.step_time_s[0] == pytest.approx(step_s, rel=0.15)

"""A job that was observed in very many cells: some are weighed together, all are answered."""

from __future__ import annotations

from dataclasses import replace

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration import calibration
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.lone_cells import spread_rows
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.step_cells import StepCells

FEW = 40
BATCHES = tuple(range(16, 40))


@pytest.fixture(params=["logged", "whole"])
def observed(request: pytest.FixtureRequest) -> ObservedSteps:
    """168 cells, each some percent off what the job is like, with and without logged parts."""
    at = world.cells(world.PLACEMENTS, BATCHES)
    steps = world.measured(at, device=0.3, communication=0.4)
    off = np.exp(0.05 * np.random.default_rng(5).standard_t(3, len(at)))
    sync = steps.sync_time_s * off if request.param == "logged" else np.full(len(at), np.nan)
    return replace(steps, step_time_s=steps.step_time_s * off, sync_time_s=sync)


def both(observed: ObservedSteps, monkeypatch: pytest.MonkeyPatch) -> tuple[Calibration, ...]:
    every = calibrate(observed, world.PRIOR)
    monkeypatch.setattr(calibration, "MOST_TOGETHER", FEW)
    return every, calibrate(observed, world.PRIOR)


def test_cells_beyond_those_weighed_together_are_answered_as_they_were_measured(
    observed: ObservedSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, few = both(observed, monkeypatch)
    assert few.posterior.coefficients.shape[1] == FEW
    said, expected = few.apply(observed.cells), every.apply(observed.cells)
    assert said.seen.all()
    log = np.log(said.parts.step_time_s)
    assert np.abs(log - np.log(observed.step_time_s)).max() < 0.05
    # As where all of them are weighed together.
    assert np.abs(log - np.log(expected.parts.step_time_s)).max() < 0.03
    assert said.log_sd == pytest.approx(expected.log_sd, rel=0.15)
    assert said.learned == pytest.approx(expected.learned, abs=0.1)


def test_they_are_missed_by_no_other_cell(
    observed: ObservedSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, few = both(observed, monkeypatch)
    others = world.cells(((4, 2, 2), *world.PLACEMENTS), (20.5, 60))
    said, expected = few.apply(others), every.apply(others)
    assert not said.seen.any()
    assert np.abs(np.log(said.parts.step_time_s / expected.parts.step_time_s)).max() < 0.05


def test_a_lone_outlier_is_believed_of_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    at = world.cells(world.PLACEMENTS, BATCHES)
    steps = world.measured(at, device=0.3, communication=0.4, seed=2)
    steps = replace(steps, sync_time_s=np.full(len(at), np.nan))
    monkeypatch.setattr(calibration, "MOST_TOGETHER", FEW)
    lone = np.flatnonzero(~spread_rows(steps.pooled().cells, FEW))[7]
    cell = steps.pooled().cells.identities()[lone]
    row = at.identities().index(cell)
    odd = steps.step_time_s.copy()
    odd[row] *= 3
    plain = calibrate(steps, world.PRIOR).apply(at).parts.step_time_s
    said = calibrate(replace(steps, step_time_s=odd), world.PRIOR).apply(at).parts.step_time_s
    assert said[row] == pytest.approx(odd[row], rel=0.05)
    assert np.array_equal(np.delete(said, row), np.delete(plain, row))


def test_a_single_question_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    at = world.cells(world.PLACEMENTS, BATCHES)
    monkeypatch.setattr(calibration, "MOST_TOGETHER", FEW)
    few = calibrate(world.measured(at, device=0.3, seed=1), world.PRIOR)
    seen = [few.posterior.has_seen(cell) for cell in at.identities()]
    assert all(seen)
    assert not few.posterior.has_seen(world.cells(((2, 1, 2),), (99,)).identities()[0])


def test_their_order_does_not_matter(
    observed: ObservedSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MOST_TOGETHER", FEW)
    asked = observed.cells
    said = calibrate(observed, world.PRIOR).apply(asked)
    shuffled = observed.take(np.random.default_rng(3).permutation(len(asked)))
    again = calibrate(shuffled, world.PRIOR).apply(asked)
    assert np.array_equal(said.parts.step_time_s, again.parts.step_time_s)
    assert np.array_equal(said.log_sd, again.log_sd)


def test_jobs_placements_and_batches_take_turns() -> None:
    mine = world.cells(world.PLACEMENTS, BATCHES, job="mine")
    others = world.cells(((1, 1, 1), (2, 1, 2)), (16, 32), job="another")
    cells = StepCells.join([mine, others])
    chosen = cells.take(spread_rows(cells, 4 + 3 * len(world.PLACEMENTS)))
    of_mine = chosen.job == "mine"
    # All of the job with few, and as many on each placement of the other.
    assert np.count_nonzero(~of_mine) == 4
    for ranks, hosts, share in world.PLACEMENTS:
        at = of_mine & (chosen.ranks == ranks) & (chosen.hosts == hosts)
        at &= chosen.largest_share == share
        assert sorted(chosen.batch_size[at].tolist()) == [BATCHES[0], BATCHES[11], BATCHES[-1]]


def test_few_cells_all_count() -> None:
    assert spread_rows(world.cells(), 21).all()
    assert np.count_nonzero(spread_rows(world.cells(), 5)) == 5

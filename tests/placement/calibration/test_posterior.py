"""Tests of what is peculiar to a job on one machine, to one batch, and to what a log counts."""

from __future__ import annotations

from dataclasses import replace

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.calibration import calibrate
from perfmodel.placement.calibration.observed_steps import Comparisons, ObservedSteps
from perfmodel.placement.calibration.posterior import _misfit
from perfmodel.placement.calibration.residual_prior import Noise, ResidualPrior
from perfmodel.placement.calibration.step_response import Field

ONE = ((1, 1, 1),)
NOISE = Noise(compute=0.03, sync=0.02, sync_share=0.1)


def levels(freedom: float) -> ResidualPrior:
    """Return a prior of levels of devices: of machines, of jobs, and of both, 0.3 each."""
    sds = {f"device.level.{scope}": 0.3 for scope in ("place", "job", "own")}
    return ResidualPrior(means={"host": -9.0}, sds=sds, noise=NOISE, freedom=freedom)


def table(odd: float) -> ObservedSteps:
    """Return three jobs on three machines as predicted, but for one job on one of them."""
    return ObservedSteps.join(
        [
            world.measured(
                world.cells(ONE, job=job, cluster=machine), device=odd * (job == machine == "c")
            )
            for job in "abc"
            for machine in "abc"
        ]
    )


def moved(freedom: float, odd: float) -> float:
    """Return by how much a job that is answered on the odd one's machine is moved."""
    there = world.cells(ONE, job="d", cluster="c")
    return float(calibrate(table(odd), levels(freedom)).residual(there)[Field.DEVICE].mean())


def test_a_job_unlike_all_others_on_a_machine_says_little_of_the_machine():
    # 20 times as long: Gauss gives a good part of log 20 to the machine, Student hardly any.
    assert moved(np.inf, np.log(20)) > 0.3
    assert 0 < moved(1.0, np.log(20)) < 0.1


def test_a_job_somewhat_unlike_others_says_what_it_said():
    # Within the spread that the prior foresees nothing is widened.
    assert moved(1.0, 0.2) == pytest.approx(moved(np.inf, 0.2), abs=0.01)


def test_the_odd_job_itself_is_answered_as_it_was_observed():
    at = world.cells(ONE, job="c", cluster="c")
    residual = calibrate(table(np.log(20)), levels(1.0)).residual(at)
    assert residual[Field.DEVICE].mean() == pytest.approx(np.log(20), abs=0.1)


def test_one_job_on_one_machine_leaves_nothing_to_be_told_apart():
    seen = world.measured(world.cells(), device=np.log(20))
    prior = replace(world.PRIOR, freedom=1.0)
    one, other = (calibrate(seen, p).apply(world.cells()) for p in (prior, world.PRIOR))
    assert one.parts.step_time_s.tobytes() == other.parts.step_time_s.tobytes()


def test_the_odd_job_varies_more_on_its_machine_alone():
    best = calibrate(table(np.log(20)), levels(1.0)).posterior
    jobs, machines = (
        np.array(known)[rows] for known, rows in (best.seen.shared[n] for n in ("job", "machine"))
    )
    odd = (jobs == "c") & (machines == "c")
    assert best.wider[Field.DEVICE, odd].min() > 10 * 0.3**2
    assert best.wider[Field.DEVICE, ~odd].max() < 0.3**2
    assert not best.wider[Field.HOST].any()


def test_what_is_misplaced_leaves_the_whole_step_as_sure_as_before():
    at = world.cells(((8, 2, 4),), (32,))
    steps = world.measured(at)
    plain, split = NOISE, replace(NOISE, misplaced=0.2)
    sure, unsure = (Comparisons.of(steps, n).errors(np.ones(2)) for n in (plain, split))
    # The sum of both comparisons is the logarithm of the whole step.
    assert unsure.sum() == pytest.approx(sure.sum())
    assert np.diag(unsure) == pytest.approx(np.diag(sure) + 0.2**2)
    assert np.all(np.linalg.eigvalsh(unsure) > 0)


def test_what_is_misplaced_stays_positive_with_repeats_and_outliers():
    at = world.cells(((8, 2, 4),), (32,))
    steps = ObservedSteps.join([world.measured(at, seed=seed) for seed in (1, 2, 3)])
    noise = replace(NOISE, misplaced=0.5)
    comparisons = Comparisons.of(steps, noise)
    trust = np.array([1.0, 0.1, 1.0, 1.0, 1.0, 0.02])
    assert np.all(np.linalg.eigvalsh(comparisons.errors(trust)) > 0)


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_misfit_without_an_inverse_is_that_with_it(repeats):
    at = world.cells(((1, 1, 1), (8, 2, 4)))
    steps = ObservedSteps.join([world.measured(at, seed=seed) for seed in range(repeats)])
    comparisons = Comparisons.of(steps, replace(NOISE, misplaced=0.1))
    trust = np.linspace(0.2, 1.0, len(comparisons.values))
    errors = comparisons.errors(trust)
    off = np.random.default_rng(0).normal(size=len(trust))
    assert _misfit(errors)(off) == pytest.approx(off @ np.linalg.solve(errors, off))


def test_what_one_batch_takes_longer_is_known_on_other_placements():
    def slow(steps: ObservedSteps) -> ObservedSteps:
        factor = np.where(steps.cells.batch_size == 32, 1.3, 1.0)
        step, sync = steps.step_time_s * factor, steps.sync_time_s * factor
        return replace(steps, step_time_s=step, sync_time_s=sync)

    prior = replace(world.PRIOR, sds={**world.PRIOR.sds, "spread.batch.own": 0.2})
    seen = slow(world.measured(world.cells(((2, 1, 2), (4, 1, 4)))))
    asked = slow(world.measured(world.cells(((8, 2, 4),))))

    def errors(known: ResidualPrior) -> np.ndarray:
        answered = calibrate(seen, known).apply(asked.cells).parts.step_time_s
        return np.abs(answered / asked.step_time_s - 1)

    # Curves over batches are too smooth for one that differs from those of half and twice the size.
    assert errors(prior).max() < 0.06
    assert errors(world.PRIOR).max() > 1.5 * errors(prior).max()

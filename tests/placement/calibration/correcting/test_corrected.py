"""Steps of many jobs at once are corrected as each alone, and as the dense equations say."""

from __future__ import annotations

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.correcting.corrected import (
    CalibratedSteps,
    correct,
    correct_weighed,
)
from perfmodel.placement.calibration.correcting.paired_rows import ObservedColumns, PairedRows
from perfmodel.placement.calibration.observed_steps import Comparisons, same_cells
from perfmodel.placement.calibration.residual_prior import fitted_prior
from perfmodel.placement.calibration.residual_terms import SHAPES
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field, Response

JOBS = [("job",), ("job", "other", "third")]


def calibrated(seed: int, rows: int = 12) -> tuple[Calibration, StepCells]:
    """Return a calibration of one or three jobs, and steps of them and of another one to ask."""
    random, jobs = np.random.default_rng(seed), JOBS[seed % 2]
    seen = world.random_cells(random, rows, jobs, guessed=seed % 3 == 0)
    calibration = calibrate(world.random_steps(random, seen))
    asked = world.random_cells(random, 20, (*jobs, "new"), guessed=seed % 3 == 0)
    return calibration, StepCells.join([asked, seen])


def dense(of: Calibration, cells: StepCells) -> tuple[np.ndarray, np.ndarray]:
    """Return step times and standard deviations, row by row of the equations."""
    prior, observed = of.prior, of.observed
    noise, seen = prior.noise, observed.cells
    compared = Comparisons.of(observed, noise)
    between = of.widths.widen(prior.covariance(cells, seen), cells, seen, prior)
    residual = prior.mean(cells) + np.einsum("fij,fj->fi", between, of.coefficients)
    response = Response.of(cells, prior.neutral(cells))
    at, by_channel = response.linear(residual)
    slopes = by_channel.sum(axis=1)
    inside = of.widths.widen(prior.covariance(seen, seen), seen, seen, prior)
    there = Response.of(seen, prior.mean(seen))
    channels, by = there.linear(of.residual(seen))
    h, rows = compared.of_channels(by), compared.rows
    errors = compared.errors(of.trust)
    spread = np.einsum("fc,fcd,fd->cd", h, inside[:, rows[:, None], rows], h) + errors
    same = same_cells(cells, seen)[:, rows]
    own = same[None] * compared.own(of.trust)[:, None]
    shared = np.einsum("fi,fic,fc->ic", slopes, between[:, :, rows], h) + own.sum(axis=0)
    wide = of.widths.wider(seen, prior)
    unknown = prior.variance(cells)
    if wide is not None:
        alike = cells.job[:, None] == seen.job
        for one in Field:
            places = "machine" if one <= Field.FIXED else "fabric"
            there_too = getattr(cells, places)[:, None] == getattr(seen, places)
            unknown[one] += (alike * there_too * wide[one]).max(axis=1)
    usual = noise.variances(1 - np.exp(-at[1])).sum(axis=0)
    before = np.sum(slopes**2 * unknown, axis=0)
    before += np.where(same.any(axis=1), own.sum(axis=(0, 2)), usual)
    taken = np.einsum("ic,cd,id->i", shared, np.linalg.inv(spread), shared)
    weights = np.linalg.solve(errors, compared.values - compared.of_channels(channels))
    # In the step alone, and in how communication lengthens it.
    alone, growth = own @ weights
    parts = response.parts(residual)
    bare_s = parts.step_time_s - parts.exposed_communication_s
    longer = np.where(
        parts.communication_s > 0,
        np.maximum(parts.step_time_s / bare_s * np.exp(growth), 1.0),
        1.0,
    )
    after = np.maximum(before - taken, 0.0) + noise.repeat**2
    return bare_s * longer * np.exp(alone), noise.inflation * np.sqrt(after)


@pytest.mark.parametrize("seed", range(12))
def test_columns_say_what_the_equations_say(seed: int) -> None:
    calibration, cells = calibrated(seed)
    found = correct([calibration.posterior], cells)
    step_s, log_sd = dense(calibration, cells)
    assert found.parts.step_time_s == pytest.approx(step_s, rel=1e-9)
    assert found.log_sd == pytest.approx(log_sd, rel=1e-7)
    assert found.seen[20:].all()


def test_some_of_these_jobs_lie_farther_off_than_expected() -> None:
    assert {bool(calibrated(seed)[0].widths.by_group) for seed in range(12)} == {True, False}


@pytest.mark.parametrize("guessed", [False, True])
def test_pairs_vary_together_as_rows_do(guessed: bool) -> None:
    random, prior = np.random.default_rng(3), fitted_prior()
    one, other = (world.random_cells(random, 6, JOBS[1], guessed) for _ in range(2))
    cells = world.random_cells(random, 9, JOBS[1], guessed)
    which = np.array([0, 0, 1, 1, 1, 0, 1, 0, 1])
    pairs = PairedRows.of(cells, which, [ObservedColumns.of(one), ObservedColumns.of(other)])
    expected = [prior.covariance(cells, known) for known in (one, other)]
    for row, code in enumerate(which.tolist()):
        assert pairs.covariance(prior)[:, row] == pytest.approx(expected[code][:, row], rel=1e-12)


def test_every_shape_has_a_term_that_is_tried() -> None:
    tried = {term.shape for term, _ in fitted_prior().variances}
    assert tried == SHAPES.keys()


def test_many_jobs_are_corrected_as_each_alone() -> None:
    # Jobs of three sizes, asked about in turns.
    made = [calibrated(seed, rows) for seed, rows in enumerate((5, 12, 12, 30, 5, 12))]
    cells = StepCells.join([asked for _, asked in made])
    which = np.repeat(np.arange(len(made)), [len(asked) for _, asked in made])
    order = np.random.default_rng(0).permutation(len(which))
    jobs = [calibration.weighed for calibration, _ in made]
    found = correct_weighed(jobs, cells.take(order), which[order])
    alone = CalibratedSteps.join([calibration.apply(asked) for calibration, asked in made])
    for name in ("log_sd", "learned", "seen"):
        expected = getattr(alone, name)[order]
        assert getattr(found, name) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    expected = alone.parts.step_time_s[order]
    assert found.parts.step_time_s == pytest.approx(expected, rel=1e-12)


def test_many_pairs_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    (one, asked), (other, more) = calibrated(1), calibrated(3)
    cells, which = StepCells.join([asked, more]), np.repeat([0, 1], [len(asked), len(more)])
    whole = correct([one.posterior, other.posterior], cells, which)
    # Seven rows of twelve pairs at a time.
    monkeypatch.setattr("perfmodel.placement.calibration.correcting.corrected._PAIRS_AT_ONCE", 84)
    parts = correct([one.posterior, other.posterior], cells, which)
    assert parts.log_sd == pytest.approx(whole.log_sd, rel=1e-9)
